"""Consumer groups: shown, made, deleted, joined, left, and what their members have to read (600 to 606)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from tank_node.cluster.iggy.link import IggyOutcome
from tank_node.cluster.iggy.parts import IggyGroupView
from tank_node.cluster.view import TopicView
from tank_node.coordinators.machine.iggy_requests import IggyMemberName
from tank_node.iggy.consumers import wire_id
from tank_node.iggy.coordinator_wait import Heard, ask_for_error, ask_patiently
from tank_node.iggy.numbers import group_of, iggy_view, topic_of
from tank_node.iggy.records import group_record
from tank_node.iggy.refusals import of_code
from tank_node.iggy.streams import answer_missing, chosen_number, iggy_name
from tank_node.peers.iggy.iggy_memberships import memberships_of
from tank_node.users.rights import IggyAction
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.iggy import (
    CreateConsumerGroupRequest,
    DeleteConsumerGroupRequest,
    GetConsumerGroupRequest,
    GetConsumerGroupsRequest,
    GetConsumerGroupsResponse,
    GroupDetails,
    IggyGroupMember,
    JoinConsumerGroupRequest,
    LeaveConsumerGroupRequest,
    SyncConsumerGroupRequest,
    SyncConsumerGroupResponse,
)
from tank_protos.generated.tank import IggyMemberListed
from tank_protos.iggy.eras import B3, SEED
from tank_protos.iggy.errors import IggyError, IggyRefusal

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall

_Named: TypeAlias = (
    DeleteConsumerGroupRequest
    | GetConsumerGroupRequest
    | JoinConsumerGroupRequest
    | LeaveConsumerGroupRequest
)


def _find(call: "IggyCall", request: _Named) -> tuple[TopicView, IggyGroupView]:
    """The group that a request names, and its topic. Raises IggyRefusal."""
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.READ_TOPIC)
    return topic, group_of(call, topic, wire_id(call, request.number, request.group))


def get_consumer_group(call: "IggyCall", payload: memoryview) -> None:
    """Shows a group with its members. One that is not there is an empty answer from era A3 on."""
    request = GetConsumerGroupRequest.decode(payload, call.era.version)
    try:
        topic, group = _find(call, request)
    except IggyRefusal as refused:
        answer_missing(call, refused)
        return
    _show(call, topic, group)


class _Members:
    """Asks the coordinator of one group for its members."""

    __slots__ = ("_born", "_call", "_found")

    def __init__(self, call: "IggyCall", born: int) -> None:
        self._call = call
        self._born = born
        self._found: Sequence[IggyMemberListed] = ()

    def ask(self, done: Callable[[ErrorCode, Sequence[IggyMemberListed]], None]) -> None:
        """Calls `done` with the members, when the coordinator is there."""
        ask_patiently(self._call, self._describe, partial(self._described, done))

    def _describe(self, heard: Heard) -> None:
        session = self._call.session
        memberships_of(session.broker).describe(self._born, session, partial(self._told, heard))

    def _told(self, heard: Heard, error: ErrorCode, members: Sequence[IggyMemberListed]) -> None:
        self._found = members
        heard(error, None)

    def _described(
        self,
        done: Callable[[ErrorCode, Sequence[IggyMemberListed]], None],
        error: ErrorCode,
        nothing: int | None,
    ) -> None:
        done(error, self._found)


def _show(call: "IggyCall", topic: TopicView, group: IggyGroupView) -> None:
    _Members(call, group.born).ask(partial(_show_with, call, topic, group))


def _show_with(
    call: "IggyCall",
    topic: TopicView,
    group: IggyGroupView,
    error: ErrorCode,
    members: Sequence[IggyMemberListed],
) -> None:
    if call.session.closed:
        return
    if error and error is not ErrorCode.UNKNOWN_GROUP:
        call.fail(of_code(error))
        return
    base = call.era.base
    details = GroupDetails(
        group=group_record(call, group, topic, len(members)),
        members=[
            IggyGroupMember(id=member.client_id, partitions=[number + base for number in member.partitions])
            for member in members
        ],
    )
    call.answer(details.encode(call.era.version))


class _Listing:
    """The groups of a topic, whose members their coordinators tell one by one."""

    __slots__ = ("_call", "_groups", "_left", "_members", "_topic")

    def __init__(self, call: "IggyCall", topic: TopicView, groups: list[IggyGroupView]) -> None:
        self._call = call
        self._topic = topic
        self._groups = groups
        self._left = len(groups)
        self._members: dict[int, int] = {}

    def begin(self) -> None:
        if not self._groups:
            self._finish()
        for group in self._groups:
            _Members(self._call, group.born).ask(partial(self._told, group.number))

    def _told(self, number: int, error: ErrorCode, members: Sequence[IggyMemberListed]) -> None:
        self._members[number] = 0 if error else len(members)
        self._left -= 1
        if not self._left and not self._call.session.closed:
            self._finish()

    def _finish(self) -> None:
        call = self._call
        records = [
            group_record(call, group, self._topic, self._members[group.number]) for group in self._groups
        ]
        call.answer(GetConsumerGroupsResponse(groups=records).encode(call.era.version))


def get_consumer_groups(call: "IggyCall", payload: memoryview) -> None:
    """Lists the groups of a topic, by number."""
    request = GetConsumerGroupsRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.READ_TOPIC)
    _Listing(call, topic, iggy_view(call).groups(topic.topic_id)).begin()


def create_consumer_group(call: "IggyCall", payload: memoryview) -> None:
    """Makes a group. Era S knows groups by numbers alone: there the number is the name, too."""
    request = CreateConsumerGroupRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.READ_TOPIC)
    name = str(request.group_id) if call.era is SEED else request.name
    name = iggy_name(call, name, IggyError.INVALID_CONSUMER_GROUP_NAME)
    number = chosen_number(call, request.group_id, IggyError.INVALID_CONSUMER_GROUP_ID)
    requests = call.session.broker.link.requests.iggy
    requests.create_group(topic, name, partial(_created, call, topic), number=number)


def _created(call: "IggyCall", topic: TopicView, outcome: IggyOutcome) -> None:
    if call.session.closed:
        return
    group = iggy_view(call).group(topic.topic_id, outcome.number)
    if outcome.error is ErrorCode.NUMBER_TAKEN:
        call.fail(IggyError.CONSUMER_GROUP_NAME_ALREADY_EXISTS)
    elif outcome.error is ErrorCode.INVALID_NAME:
        call.fail(IggyError.INVALID_CONSUMER_GROUP_NAME)
    elif outcome.error:
        call.fail(of_code(outcome.error))
    elif not call.era.creates_answer:
        call.answer()
    elif group is None:  # deleted since
        call.fail(IggyError.CONSUMER_GROUP_ID_NOT_FOUND)
    else:  # nobody can have joined it before the client has heard of it
        _show_with(call, topic, group, ErrorCode.NONE, ())


def delete_consumer_group(call: "IggyCall", payload: memoryview) -> None:
    """Deletes a group with its offsets."""
    _, group = _find(call, DeleteConsumerGroupRequest.decode(payload, call.era.version))
    call.session.broker.link.requests.iggy.delete_group(group, partial(_deleted, call))


def _deleted(call: "IggyCall", outcome: IggyOutcome) -> None:
    _end(call, outcome.error)


def _end(call: "IggyCall", error: ErrorCode) -> None:
    if call.session.closed:
        return
    if error:
        call.fail(of_code(error))
    else:
        call.answer()


def join_consumer_group(call: "IggyCall", payload: memoryview) -> None:
    """Makes the connection a member of a group; it is one until it leaves or ends."""
    _, group = _find(call, JoinConsumerGroupRequest.decode(payload, call.era.version))
    session = call.session
    memberships = memberships_of(session.broker)
    session.endings["memberships"] = partial(memberships.ended, session.serial)
    is_sticky = call.era.version >= B3.version
    member = IggyMemberName(session.serial, session.client_number, is_sticky)
    ask_for_error(call, partial(memberships.join, group.born, member), partial(_end, call))


def leave_consumer_group(call: "IggyCall", payload: memoryview) -> None:
    """Ends the connection's membership."""
    _, group = _find(call, LeaveConsumerGroupRequest.decode(payload, call.era.version))
    session = call.session
    memberships_of(session.broker).leave(group.born, session.serial, partial(_end, call))


def sync_consumer_group(call: "IggyCall", payload: memoryview) -> None:
    """Shows the partitions that the connection has to read; empty for one that is no member."""
    request = SyncConsumerGroupRequest.decode(payload, call.era.version)
    _, topic = topic_of(call, request.stream, request.topic, IggyAction.READ_TOPIC)
    group = group_of(call, topic, request.group)
    session = call.session
    found = memberships_of(session.broker).assignment(group.born, session.serial)
    if found is ErrorCode.UNKNOWN_MEMBER:
        call.answer()
    elif isinstance(found, ErrorCode):
        call.fail(of_code(found))
    else:
        response = SyncConsumerGroupResponse(
            generation=found.generation, partitions=[number + call.era.base for number in found.partitions]
        )
        call.answer(response.encode(call.era.version))
