"""Our own messages about groups (72 to 74, 80 to 83), as the coordinator answers them, for its own clients
and for those of other brokers.

A position is Kafka's offset + 1: the number of the next message to read, where numbers begin at 1. All calls
come within a tick of the broker.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.loading_wait import LoadingWait
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommitRequest,
    CommittedOffset,
    MemberName,
    TopicPartition,
)
from tank_node.coordinators.machine.group_requests import ListedGroup as Listed
from tank_node.coordinators.offsets.commit_order import CommitOrder
from tank_node.coordinators.positions_move import LASTS_MS, PositionsMove
from tank_node.limits import FETCHED_OFFSETS
from tank_node.peers.described_groups import described
from tank_node.peers.group_errors import OF_ALL, error_code, telling
from tank_node.peers.group_heartbeats import heartbeat
from tank_node.peers.iggy.iggy_service import IGGYS, IggyService
from tank_protos.error_codes import ErrorCode, GroupStateCode
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    CommitResult,
    CommittedPosition,
    DeletedGroup,
    DeletedPosition,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeletePositionsRequest,
    DeletePositionsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC

Answered = Callable[[Message], None]
_LEADERLESS_MS: Final = 2_000
"""Without a word of a leading controller for so long, a broker can't ask whether it still coordinates."""
_MOST_NUMBER: Final = 2**63 - 1
_EXPIRES_BY_SETTINGS: Final = -1
_LATE: Final = "the group has committed by way of another broker meanwhile: commit again"
_LATE_BEAT: Final = "the member was heard by way of another broker meanwhile: send a heartbeat again"
_WHOLE_MEMBER: Final = 0
"""In place of a partition: a member's standing is set as a whole."""
_UNSURE: Final = (
    "neither the controllers nor enough replicas have said that this broker still coordinates the group: "
    "try again"
)


@dataclass(slots=True, frozen=True)
class Asker:
    """The connection by which a request came, and what its client could know."""

    connection: int
    """The serial number of the session: one for all requests that come in the order in which their clients
    sent them."""
    heard: int | None
    """The high-water mark that the client's broker had heard of when it asked; None: it asks here, now."""
    lasts: bool = True
    """Whether committed positions stay until they are deleted. Others expire by the settings of groups."""
    host: str = ""


class _Orders:
    """The orders in which one coordination took what clients set."""

    __slots__ = ("led", "members", "positions")

    def __init__(self, led: GroupPartition) -> None:
        began = led.partition.high_water_mark
        self.led = led
        self.positions = CommitOrder(began)
        self.members = CommitOrder(began)
        """In place of a topic it has a member's id. A heartbeat that comes late would say that a member has
        given up what it was given since."""


class GroupService:
    """Answers for the groups that one broker coordinates."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.groups = groups_of(broker)
        self.move = PositionsMove(broker, self.groups)
        self._iggy = IggyService(broker, self.groups, self._confirm)
        self._loading = LoadingWait(broker)
        self._orders: dict[int, _Orders] = {}
        """Those of each partition that this broker coordinates, by number."""

    def serve(self, request: Message, asker: Asker, done: Answered) -> None:
        """Answers a request of one of these kinds, at once or later; the answer has no request id yet. While
        the groups are read it waits for a short time, unless it is a broker's own, which asks again."""
        if isinstance(request, IGGYS):
            self._iggy.serve(request, done)
            return
        if asker.heard is None and self._is_loading(request):
            asker = replace(asker, heard=self._heard(request))
        self._loading.wait(partial(self._is_loading, request), partial(self._serve, request, asker, done))

    def _is_loading(self, request: Message) -> bool:
        match request:
            case DescribeGroupsRequest() | DeleteGroupsRequest():
                return any(self._error_of(name) is GroupError.LOADING for name in request.groups)
            case (
                CommitPositionsRequest()
                | FetchPositionsRequest()
                | DeletePositionsRequest()
                | GroupHeartbeatRequest()
            ):
                return self._error_of(request.group) is GroupError.LOADING
            case _:
                return self._leads_unread()

    def _heard(self, request: Message) -> int:
        """What the client could know that asks this broker itself, and is to wait."""
        if not isinstance(request, CommitPositionsRequest | DeletePositionsRequest | GroupHeartbeatRequest):
            return 0
        number = self.groups.partition_of(request.group)
        return 0 if number is None else self.mark(number)

    def _serve(self, request: Message, asker: Asker, done: Answered) -> None:
        match request:
            case CommitPositionsRequest():
                self._commit(request, asker, done)
            case FetchPositionsRequest():
                self._fetch(request, done)
            case ListGroupsRequest():
                self._list(done)
            case DescribeGroupsRequest():
                self._describe(request, done)
            case DeleteGroupsRequest():
                self._delete_groups(request, asker, done)
            case GroupHeartbeatRequest():
                self._heartbeat(request, asker, done)
            case DeletePositionsRequest():
                self._delete_positions(request, asker, done)
            case _:
                raise AssertionError(f"message {request.ID} is not about groups")

    def _heartbeat(self, request: GroupHeartbeatRequest, asker: Asker, done: Answered) -> None:
        led = self._coordination(request.group)
        if isinstance(led, GroupError):
            done(GroupHeartbeatResponse(0, error_code(led), telling(led)))
            return
        members = self._orders_of(led).members
        place = [(request.member_id, _WHOLE_MEMBER)]
        ended = self._taken(led, members, request.group, place, asker, "late_heartbeat")
        if ended is None:
            done(GroupHeartbeatResponse(0, ErrorCode.TIMED_OUT, _LATE_BEAT))
            return

        def answered(answer: GroupHeartbeatResponse) -> None:
            ended()
            done(answer)

        heartbeat(self.groups.consumer_heartbeat, request, asker.host, answered)

    def mark(self, number: int) -> int:
        """The high-water mark of this partition of the internal topic, as far as this broker knows it by a
        replica; 0: it has none."""
        topic = self._broker.topics.get(GROUPS_TOPIC)
        partition = None if topic is None else topic.partitions.get(number)
        return 0 if partition is None else partition.high_water_mark

    def _coordination(self, group_id: str) -> GroupPartition | GroupError:
        """What answers for a group, or why nothing does now."""
        number = self.groups.partition_of(group_id)
        led = None if number is None else self.groups.led_by_number(number)
        if led is None:
            return GroupError.NOT_COORDINATOR
        if not led.state and not self.move.is_over(led):
            return GroupError.LOADING
        return led.state or led

    # --- positions -------------------------------------------------------------------------------

    def _commit(self, request: CommitPositionsRequest, asker: Asker, done: Answered) -> None:
        led = self._coordination(request.group) if request.group else GroupError.INVALID_GROUP_ID
        if isinstance(led, GroupError):
            done(CommitPositionsResponse(0, error_code(led), telling(led)))
            return
        places = [(each.topic, each.partition) for each in request.positions]
        ended = self._taken(led, self._orders_of(led).positions, request.group, places, asker)
        if ended is None:
            done(CommitPositionsResponse(0, ErrorCode.TIMED_OUT, _LATE))
            return
        now_ms = self._broker.tick.now_ms
        expire_ms = LASTS_MS if asker.lasts else _EXPIRES_BY_SETTINGS
        offsets = {
            (each.topic, each.partition): CommittedOffset(
                each.sequence_number - 1, metadata=each.metadata, commit_ms=now_ms, expire_ms=expire_ms
            )
            for each in request.positions
            if each.sequence_number <= _MOST_NUMBER
        }

        def stored(results: Mapping[TopicPartition, GroupError]) -> None:
            ended()
            done(self._committed(request, results))

        commit = CommitRequest(
            MemberName(request.group, request.member_id),
            request.member_epoch,
            offsets,
            GroupError.UNKNOWN_GROUP,
        )
        self.groups.commit(commit, stored)

    def _committed(
        self, request: CommitPositionsRequest, results: Mapping[TopicPartition, GroupError]
    ) -> CommitPositionsResponse:
        for error in results.values():
            if error in OF_ALL:
                return CommitPositionsResponse(0, error_code(error), telling(error))
        codes = [
            self._position_code(each.topic, results.get((each.topic, each.partition)))
            for each in request.positions
        ]
        return CommitPositionsResponse(0, ErrorCode.NONE, "", [CommitResult(code) for code in codes])

    def _position_code(self, topic: str, error: GroupError | None) -> ErrorCode:
        """The code of one position; None: its number is greater than any."""
        if error is None:
            return ErrorCode.INVALID_REQUEST
        if error is GroupError.UNKNOWN_TOPIC and self._broker.link.view.topic(topic) is not None:
            return ErrorCode.UNKNOWN_PARTITION
        return error_code(error)

    def _orders_of(self, led: GroupPartition) -> _Orders:
        number = led.partition.number
        found = self._orders.get(number)
        if found is None or found.led is not led:
            found = self._orders[number] = _Orders(led)
        return found

    def _taken(
        self,
        led: GroupPartition,
        order: CommitOrder,
        group_id: str,
        places: Iterable[TopicPartition],
        asker: Asker,
        reason: str = "late_position",
    ) -> Callable[[], None] | None:
        """Takes a request that sets these places of an order. Returns what is to be called when the request
        has its result; None: another connection may have set one of the places since the client asked.
        reason: of the refusal, for the metrics."""
        places = list(places)
        if asker.heard is not None and order.is_late(group_id, places, asker.connection, asker.heard):
            self._broker.metrics.refused[reason] += 1
            return None
        tail = led.partition.log.tail
        setting = order.taken(group_id, places, asker.connection, tail.last + 1)
        return lambda: order.ended(setting, tail.last)

    def _fetch(self, request: FetchPositionsRequest, done: Answered) -> None:
        """Answers when the controllers have said that no other broker coordinates the group by now: else a
        broker that was replaced, and has not heard of it, would show a position from before. While they say
        nothing, its replicas are asked."""
        led = self._coordination(request.group)
        if isinstance(led, GroupError):
            done(FetchPositionsResponse(0, error_code(led), telling(led)))
            return

        def confirmed(error: GroupError) -> None:
            if error or self._coordination(request.group) is not led:
                done(FetchPositionsResponse(0, ErrorCode.TIMED_OUT, _UNSURE))
            else:
                done(self._fetched(request))

        self._confirm(led, confirmed)

    def _confirm(self, led: GroupPartition, confirmed: Callable[[GroupError], None]) -> None:
        """Finds out whether the controllers, or this broker's replicas, know of no other coordinator."""

        def asked(is_new: bool) -> None:
            self._broker.begin_tick()
            if is_new:
                confirmed(GroupError.NONE)
            else:
                led.confirm(confirmed)

        if self._broker.link.silence_ms > _LEADERLESS_MS:
            led.confirm(confirmed)
        else:
            self._broker.link.requests.await_view(asked)

    def _fetched(self, request: FetchPositionsRequest) -> FetchPositionsResponse:
        for name in request.topics:
            if self._broker.link.view.topic(name) is None:
                return FetchPositionsResponse(0, ErrorCode.UNKNOWN_TOPIC, "there is no such topic")
        error, committed = self.groups.committed(request.group, None)
        if error:
            return FetchPositionsResponse(0, error_code(error), telling(error))
        if not committed:
            return FetchPositionsResponse(0, ErrorCode.UNKNOWN_GROUP, "the group has no positions yet")
        wanted = frozenset(request.topics)
        found = sorted((place, each) for place, each in committed.items() if not wanted or place[0] in wanted)
        if len(found) > FETCHED_OFFSETS:
            return FetchPositionsResponse(
                0, ErrorCode.TOO_LARGE, "ask for the positions of some topics alone"
            )
        positions = [
            CommittedPosition(
                topic, partition, max(each.offset + 1, 0), each.metadata, max(each.commit_ms, 0)
            )
            for (topic, partition), each in found
        ]
        return FetchPositionsResponse(0, ErrorCode.NONE, "", positions)

    # --- administration --------------------------------------------------------------------------

    def _list(self, done: Answered) -> None:
        """Lists the groups of all partitions that the view says this broker leads."""
        if self._leads_unread():
            loading = GroupError.LOADING
            done(ListGroupsResponse(0, error_code(loading), telling(loading)))
            return

        def listed(error: GroupError, found: Sequence[Listed]) -> None:
            if error:
                done(ListGroupsResponse(0, error_code(error), telling(error)))
                return
            groups = [
                ListedGroup(each.group_id, each.protocol_type, GroupStateCode[each.state.name], each.members)
                for each in found
            ]
            done(ListGroupsResponse(0, ErrorCode.NONE, "", listed=groups))

        self.groups.list_all(listed)

    def _leads_unread(self) -> bool:
        """Whether this broker leads a partition, as the view says, whose groups are not all here yet."""
        view = self._broker.link.view
        topic = view.topic(GROUPS_TOPIC)
        for placed in () if topic is None else topic.partitions:
            if placed.leader == view.broker_id:
                led = self.groups.led_by_number(placed.partition)
                if led is None or led.state or not self.move.is_over(led):
                    return True
        return False

    def _describe(self, request: DescribeGroupsRequest, done: Answered) -> None:
        groups = [described(self.groups, name, self._error_of(name)) for name in request.groups]
        done(DescribeGroupsResponse(0, groups))

    def _error_of(self, group_id: str) -> GroupError:
        led = self._coordination(group_id)
        return led if isinstance(led, GroupError) else GroupError.NONE

    def _delete_groups(self, request: DeleteGroupsRequest, asker: Asker, done: Answered) -> None:
        refused: dict[str, DeletedGroup] = {}
        wanted: dict[str, Callable[[], None]] = {}
        for name in dict.fromkeys(request.groups):
            led = self._coordination(name)
            if isinstance(led, GroupError):
                refused[name] = _deleted(led)
                continue
            places = led.committed(name, None)
            ended = self._taken(led, self._orders_of(led).positions, name, places, asker)
            if ended is None:
                refused[name] = DeletedGroup(ErrorCode.TIMED_OUT, _LATE)
            else:
                wanted[name] = ended

        def deleted(results: Mapping[str, GroupError]) -> None:
            for ended in wanted.values():
                ended()
            told = {**refused, **{name: _deleted(error) for name, error in results.items()}}
            done(DeleteGroupsResponse(0, [told[name] for name in request.groups]))

        self.groups.delete(list(wanted), deleted)

    def _delete_positions(self, request: DeletePositionsRequest, asker: Asker, done: Answered) -> None:
        led = self._coordination(request.group)
        if isinstance(led, GroupError):
            done(DeletePositionsResponse(0, error_code(led), telling(led)))
            return
        places = [(topic.topic, number) for topic in request.topics for number in topic.partitions]
        ended = self._taken(led, self._orders_of(led).positions, request.group, places, asker)
        if ended is None:
            done(DeletePositionsResponse(0, ErrorCode.TIMED_OUT, _LATE))
            return

        def deleted(error: GroupError, results: Mapping[TopicPartition, GroupError]) -> None:
            ended()
            if error:
                done(DeletePositionsResponse(0, error_code(error), telling(error)))
                return
            codes = [self._position_code(place[0], results.get(place, GroupError.NONE)) for place in places]
            done(DeletePositionsResponse(0, ErrorCode.NONE, "", [DeletedPosition(code) for code in codes]))

        self.groups.delete_offsets(request.group, places, deleted)


def _deleted(error: GroupError) -> DeletedGroup:
    return DeletedGroup(error_code(error), telling(error))
