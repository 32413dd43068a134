"""Our own messages about consumer groups and their positions (72 to 74, 80 to 84). Any broker takes them, and
brings them to the groups' coordinators. Below feature level 4 the controllers keep positions, and brokers
refuse the other requests.

A request under way keeps its decoded values, never views of the receive buffer, which is reused meanwhile.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from tank_node.cluster.link import CommitOutcome, GroupsOutcome, Position, PositionsOutcome
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.view.view_groups import iggy_title
from tank_node.peers.group_errors import error_code, telling
from tank_node.peers.group_request import answer_version
from tank_node.peers.group_router import GroupRouter, router_of
from tank_node.peers.group_service import Asker
from tank_node.peers.iggy.iggy_positions import positions_of
from tank_node.tank.asking import Finish, asking
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    CommitResult,
    CommittedPosition,
    DeletedGroup,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeletePositionsRequest,
    DeletePositionsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    GroupRequest,
    GroupResponse,
    IggyGroupRequest,
    IggyGroupResponse,
    IggyMembersRequest,
    IggyMembersResponse,
    IggyOffsetRequest,
    IggyPositionsRequest,
    IggyPositionsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

T = TypeVar("T")
_PASSED_ON: Final[dict[int, type[Message]]] = {
    each.ID: each
    for each in (
        CommitPositionsRequest,
        FetchPositionsRequest,
        ListGroupsRequest,
        DescribeGroupsRequest,
        DeleteGroupsRequest,
        DeletePositionsRequest,
        GroupHeartbeatRequest,
        IggyMembersRequest,
        IggyPositionsRequest,
        IggyOffsetRequest,
        IggyGroupRequest,
    )
}
"""What one broker may pass on to another."""
_REFUSALS: Final[dict[type[Message], Callable[[int, int, str], Message]]] = {
    CommitPositionsRequest: CommitPositionsResponse,
    FetchPositionsRequest: FetchPositionsResponse,
    ListGroupsRequest: ListGroupsResponse,
    DeletePositionsRequest: DeletePositionsResponse,
    GroupHeartbeatRequest: GroupHeartbeatResponse,
}
"""The answers that have one error for all, by their requests."""
_MOST_NAMES: Final = 1_000
"""The most groups of one request that are asked about: each costs a request to its coordinator."""
_TOO_MANY: Final = f"a request asks about {_MOST_NAMES} groups at most: send several"
_TOO_LARGE: Final = "the answer is too large to be passed on: ask for less at once"
_PASSING: Final = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOADING)
_MOST_NAME_BYTES: Final = 0xFF
_LISTS_TITLES: Final = 2
"""The version of ListGroups from which on groups have titles."""


def _are_coordinated(session: "TankSession") -> bool:
    """Whether brokers keep positions, as far as this broker's view shows."""
    return session.broker.link.view.feature_level >= NATIVE_GROUPS


def _known(error: int) -> int:
    """The code for clients of messages that are older than coordinators: they try again after TIMED_OUT."""
    return ErrorCode.TIMED_OUT if error in _PASSING else error


# --- positions -----------------------------------------------------------------------------------


def commit_positions(session: "TankSession", payload: memoryview) -> None:
    """Commits a group's positions."""
    request = CommitPositionsRequest.decode(payload)
    finish = asking(session, payload)
    if not _are_coordinated(session):
        _commit_at_controllers(session, request, finish)
        return

    def told(answer: Message | GroupError) -> None:
        if isinstance(answer, GroupError):
            answer = CommitPositionsResponse(0, error_code(answer), telling(answer))
        assert isinstance(answer, CommitPositionsResponse)
        answer.request_id = request.request_id
        if request.version == 0:
            answer.error = _known(answer.error)
        finish(answer)

    asked = CommitPositionsRequest(
        1, 0, request.group, request.member_id, request.member_epoch, request.positions
    )
    router_of(session.broker).ask(request.group, asked, session, told)


def _commit_at_controllers(session: "TankSession", request: CommitPositionsRequest, finish: Finish) -> None:
    request_id = request.request_id
    if request.member_id:
        finish(CommitPositionsResponse(request_id, ErrorCode.LEVEL_TOO_LOW, _LEVEL_TOO_LOW))
        return

    def done(outcome: CommitOutcome) -> None:
        results = [CommitResult(error) for error in outcome.results]
        finish(CommitPositionsResponse(request_id, outcome.error, outcome.message, results))

    positions = [Position(p.topic, p.partition, p.sequence_number, p.metadata) for p in request.positions]
    session.broker.link.requests.commit_positions(request.group, positions, done)


def fetch_positions(session: "TankSession", payload: memoryview) -> None:
    """Asks for a group's positions."""
    request = FetchPositionsRequest.decode(payload)
    finish = asking(session, payload)
    if not _are_coordinated(session):
        _fetch_at_controllers(session, request, finish)
        return

    def told(answer: Message | GroupError) -> None:
        if isinstance(answer, GroupError):
            answer = FetchPositionsResponse(0, error_code(answer), telling(answer))
        assert isinstance(answer, FetchPositionsResponse)
        answer.request_id, answer.error = request.request_id, _known(answer.error)
        finish(answer)

    asked = FetchPositionsRequest(0, 0, request.group, request.topics)
    router_of(session.broker).ask_of_known(request.group, asked, session, told)


def _fetch_at_controllers(session: "TankSession", request: FetchPositionsRequest, finish: Finish) -> None:
    def done(outcome: PositionsOutcome) -> None:
        positions = [
            CommittedPosition(p.topic, p.partition, p.sequence_number, p.metadata, p.committed_ms)
            for p in outcome.positions
        ]
        finish(FetchPositionsResponse(request.request_id, outcome.error, outcome.message, positions))

    session.broker.link.requests.fetch_positions(request.group, request.topics, done)


def delete_positions(session: "TankSession", payload: memoryview) -> None:
    """Deletes positions of a group."""
    request = DeletePositionsRequest.decode(payload)
    finish = asking(session, payload)

    def told(answer: Message | GroupError) -> None:
        if isinstance(answer, GroupError):
            answer = DeletePositionsResponse(0, error_code(answer), telling(answer))
        assert isinstance(answer, DeletePositionsResponse)
        answer.request_id = request.request_id
        finish(answer)

    if not _are_coordinated(session):
        finish(DeletePositionsResponse(request.request_id, ErrorCode.LEVEL_TOO_LOW, _LEVEL_TOO_LOW))
        return
    asked = DeletePositionsRequest(0, 0, request.group, request.topics)
    router_of(session.broker).ask_of_known(request.group, asked, session, told)


# --- groups --------------------------------------------------------------------------------------


def list_groups(session: "TankSession", payload: memoryview) -> None:
    """Asks for all groups."""
    request = ListGroupsRequest.decode(payload)
    finish = asking(session, payload)
    if not _are_coordinated(session):
        _list_at_controllers(session, request, finish)
        return

    def told(answer: ListGroupsResponse | GroupError) -> None:
        if isinstance(answer, GroupError):
            answer = ListGroupsResponse(0, error_code(answer), telling(answer))
        answer.request_id = request.request_id
        if request.version == 0:
            names = [each.group for each in answer.listed]
            answer.groups = [name for name in names if _bytes_of(name) <= _MOST_NAME_BYTES]
            answer.error, answer.listed = _known(answer.error), []
        elif request.version >= _LISTS_TITLES:
            for each in answer.listed:
                each.title = iggy_title(session.broker.link.view, each.group)
        finish(answer, request.version)

    router_of(session.broker).list_groups(session, told)


def _list_at_controllers(session: "TankSession", request: ListGroupsRequest, finish: Finish) -> None:
    def done(outcome: GroupsOutcome) -> None:
        answer = ListGroupsResponse(request.request_id, outcome.error, outcome.message, outcome.groups)
        if request.version and not outcome.error:
            answer = ListGroupsResponse(request.request_id, ErrorCode.LEVEL_TOO_LOW, _LEVEL_TOO_LOW)
        finish(answer, request.version)

    session.broker.link.requests.list_groups(done)


def _bytes_of(name: str) -> int:
    return len(name.encode("utf-8", "surrogateescape"))


def group_heartbeat(session: "TankSession", payload: memoryview) -> None:
    """Takes a member's heartbeat."""
    request = GroupHeartbeatRequest.decode(payload)
    finish = asking(session, payload)

    def told(answer: Message | GroupError) -> None:
        if isinstance(answer, GroupError):
            answer = GroupHeartbeatResponse(0, error_code(answer), telling(answer))
        assert isinstance(answer, GroupHeartbeatResponse)
        answer.request_id = request.request_id
        finish(answer)

    if not _are_coordinated(session):
        finish(GroupHeartbeatResponse(request.request_id, ErrorCode.LEVEL_TOO_LOW, _LEVEL_TOO_LOW))
    else:
        router_of(session.broker).ask(request.group, request, session, told)


def describe_groups(session: "TankSession", payload: memoryview) -> None:
    """Asks for groups with their members."""
    request = DescribeGroupsRequest.decode(payload)
    finish = asking(session, payload)

    def all_told(found: dict[str, DescribedGroup]) -> None:
        finish(DescribeGroupsResponse(request.request_id, [found[name] for name in request.groups]))

    def refused(name: str, error: int, message: str) -> DescribedGroup:
        return DescribedGroup(error, message, name)

    def of(answer: Message) -> DescribedGroup | None:
        return answer.groups[0] if isinstance(answer, DescribeGroupsResponse) and answer.groups else None

    _ask_each(
        session, request.groups, lambda name: DescribeGroupsRequest(groups=[name]), of, refused, all_told
    )


def delete_groups(session: "TankSession", payload: memoryview) -> None:
    """Deletes groups without members."""
    request = DeleteGroupsRequest.decode(payload)
    finish = asking(session, payload)

    def all_told(found: dict[str, DeletedGroup]) -> None:
        finish(DeleteGroupsResponse(request.request_id, [found[name] for name in request.groups]))

    def refused(name: str, error: int, message: str) -> DeletedGroup:
        return DeletedGroup(error, message)

    def of(answer: Message) -> DeletedGroup | None:
        return answer.results[0] if isinstance(answer, DeleteGroupsResponse) and answer.results else None

    _ask_each(session, request.groups, lambda name: DeleteGroupsRequest(groups=[name]), of, refused, all_told)


def _ask_each(
    session: "TankSession",
    names: Sequence[str],
    request_about: Callable[[str], Message],
    result_in: Callable[[Message], T | None],
    refused: Callable[[str, int, str], T],
    done: Callable[[dict[str, T]], None],
) -> None:
    """Asks the coordinators of these groups, and calls `done` with the result for each."""
    found: dict[str, T] = {}
    wanted = list(dict.fromkeys(names))
    router = router_of(session.broker)

    def told(name: str, answer: Message | GroupError) -> None:
        result = None if isinstance(answer, GroupError) else result_in(answer)
        if result is None:
            error = answer if isinstance(answer, GroupError) else GroupError.NOT_AVAILABLE
            result = refused(name, error_code(error), telling(error))
        found[name] = result
        if len(found) == len(wanted):
            done(found)

    is_coordinated = _are_coordinated(session)
    for name in wanted[_MOST_NAMES:]:
        found[name] = refused(name, ErrorCode.TOO_LARGE, _TOO_MANY)
    if not wanted:
        done(found)
    for name in wanted[:_MOST_NAMES]:
        if not is_coordinated:
            found[name] = refused(name, ErrorCode.LEVEL_TOO_LOW, _LEVEL_TOO_LOW)
            if len(found) == len(wanted):
                done(found)
        else:
            router.ask_of_known(name, request_about(name), session, partial(told, name))


_LEVEL_TOO_LOW: Final = (
    f"requests about groups' members need feature level {NATIVE_GROUPS}, which is not in force: it rises "
    "when all processes run this version"
)


# --- of other brokers ----------------------------------------------------------------------------


def group_request(session: "TankSession", payload: memoryview) -> None:
    """Answers another broker, which brings a request of one of its clients. Raises WireError for a request
    that brokers don't pass on."""
    about = GroupRequest.decode(payload)
    if not session.is_forwarder:
        raise WireError("a client sent a request that brokers alone send each other")
    passed_on = _PASSED_ON.get(about.message_id)
    if passed_on is None:
        raise WireError(f"message {about.message_id} is not passed on to coordinators")
    request = passed_on.decode(bytes(about.payload))
    session.in_flight += 1  # the other broker bounds the bytes
    router: GroupRouter = router_of(session.broker)

    def done(answer: Message) -> None:
        told = b"".join(answer.encode(answer_version(answer.ID)))
        if len(told) > session.limits.forwarded_answer_bytes:
            told = b"".join(_too_large(request).encode(answer_version(answer.ID)))
        mark = router.service.mark(about.partition)
        session.in_flight -= 1
        session.answer(GroupResponse(about.request_id, mark, told))

    if isinstance(request, IggyOffsetRequest):  # to the leader of a partition
        positions_of(session.broker).serve(request, done)
        return
    router.service.serve(
        request, Asker(session.serial, about.heard, bool(about.lasts), about.client_host), done
    )


def _too_large(request: Message) -> Message:
    """The answer in place of one that is too large to be passed on, of the kind that the request has."""
    match request:
        case DescribeGroupsRequest():
            refused = [DescribedGroup(ErrorCode.TOO_LARGE, _TOO_LARGE, name) for name in request.groups]
            return DescribeGroupsResponse(0, refused)
        case DeleteGroupsRequest():
            return DeleteGroupsResponse(
                0, [DeletedGroup(ErrorCode.TOO_LARGE, _TOO_LARGE)] * len(request.groups)
            )
        case IggyMembersRequest():
            return IggyMembersResponse()  # in which the asker misses its groups
        case IggyPositionsRequest():
            return IggyPositionsResponse()
        case IggyGroupRequest():
            return IggyGroupResponse(ErrorCode.TOO_LARGE)
        case _:
            return _REFUSALS[type(request)](0, ErrorCode.TOO_LARGE, _TOO_LARGE)
