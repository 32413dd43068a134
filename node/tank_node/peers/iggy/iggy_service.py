"""The coordinator's end of what brokers ask each other about Iggy's groups and positions (90, 91, 93)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.groups import Groups
from tank_node.coordinators.iggy.consumer_ids import born_of, group_consumer
from tank_node.coordinators.machine.committed_offset import CommittedOffset
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.machine.iggy_requests import BrokerSaid, IggyAnswer, IggyMemberName, Release
from tank_node.peers.group_errors import error_code
from tank_node.peers.iggy.epoch_fence import EpochFence
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated.tank import (
    IggyGroupRequest,
    IggyGroupResponse,
    IggyGroupSaid,
    IggyGroupTold,
    IggyMemberListed,
    IggyMembersRequest,
    IggyMembersResponse,
    IggyMemberTold,
    IggyPositionChange,
    IggyPositionResult,
    IggyPositionsRequest,
    IggyPositionsResponse,
)
from tank_protos.wire.message import Message
from tank_protos.wire.names import is_iggys_group

GET: Final = 0
STORE: Final = 1
DELETE: Final = 2
"""The kinds of a change in 91."""
_MOST_COMMITTED: Final = 2**63 - 1
_NOTHING: Final = -1
IGGYS: Final = (IggyMembersRequest, IggyPositionsRequest, IggyGroupRequest)
"""The messages that go to coordinators."""

Confirm = Callable[[GroupPartition, Callable[[GroupError], None]], None]
"""Finds out whether this broker still coordinates what it believes to."""


class IggyService:
    """Answers other brokers, and this one itself."""

    def __init__(self, broker: Broker, groups: Groups, confirm: Confirm) -> None:
        self._broker = broker
        self._groups = groups
        self._confirm = confirm
        self._fence = EpochFence()

    def serve(self, request: Message, done: Callable[[Message], None]) -> None:
        """Answers a request of one of these kinds, at once or later."""
        match request:
            case IggyMembersRequest():
                _MembersAsked(self._broker, self._groups, request, done)
            case IggyPositionsRequest():
                self._positions(request, done)
            case IggyGroupRequest():
                done(self._group(request))
            case _:
                raise AssertionError(f"message {request.ID} is not about Iggy's groups")

    def _group(self, request: IggyGroupRequest) -> IggyGroupResponse:
        error, shown = self._groups.iggys_shown(group_consumer(request.born))
        members = [IggyMemberListed(client_id, list(partitions)) for client_id, partitions in shown]
        return IggyGroupResponse(error_code(error), members)

    # --- positions -------------------------------------------------------------------------------

    def _positions(self, request: IggyPositionsRequest, done: Callable[[Message], None]) -> None:
        asked = _PositionsAsked(len(request.changes), done)
        reads: dict[GroupPartition, list[tuple[int, IggyPositionChange, TopicPartition]]] = {}
        unsure: set[GroupPartition] = set()
        """Those in which a change of a position that is asked for is on its way."""
        for place, change in enumerate(request.changes):
            ended = partial(asked.ended, place)
            found = self._found(change)
            if isinstance(found, ErrorCode):
                ended(found)
                continue
            led, where = found
            if change.kind == GET:
                reads.setdefault(led, []).append((place, change, where))
                group = led.groups.get(change.consumer)
                if group is not None and group.offsets.is_changing(where):
                    unsure.add(led)
            elif change.kind == STORE:
                self._store(led, where, change, ended)
            elif change.kind == DELETE:
                led.drop_offsets(change.consumer, [where], partial(_coded, ended))
            else:
                ended(ErrorCode.INVALID_REQUEST)
        for led, wanted in reads.items():
            confirmed = partial(self._read, led, wanted, asked)
            if led in unsure:
                led.confirm(confirmed)  # behind what is on its way
            else:
                self._confirm(led, confirmed)

    def _found(self, change: IggyPositionChange) -> tuple[GroupPartition, TopicPartition] | ErrorCode:
        """Who keeps a position, and under which topic's name; or why it may not be asked for."""
        view = self._broker.link.view
        if view.feature_level < IGGY:
            return ErrorCode.COORDINATOR_LOADING  # the asker's view is newer
        topic = view.topic_by_id(change.topic_id)
        if topic is None:
            is_gone = view.was_deleted(change.topic_id)
            return ErrorCode.UNKNOWN_TOPIC if is_gone else ErrorCode.COORDINATOR_LOADING
        if change.partition >= len(topic.partitions):
            return ErrorCode.UNKNOWN_PARTITION
        if not is_iggys_group(change.consumer):
            return ErrorCode.INVALID_NAME
        born = born_of(change.consumer)
        if born is not None and view.iggy.group_born(born) is None:
            return ErrorCode.UNKNOWN_GROUP if born <= view.index else ErrorCode.COORDINATOR_LOADING
        led = self._groups.coordination_of(change.consumer)
        if isinstance(led, GroupError):
            return error_code(led)
        place = change.topic_id, change.partition
        where = topic.name, change.partition
        in_view = topic.partitions[change.partition].leader_epoch
        if not self._fence.admits(place, change.leader_epoch, in_view):
            return ErrorCode.STALE_EPOCH
        stored = led.committed(change.consumer, (where,)).get(where)
        if stored is not None and stored.topic_id > change.topic_id:
            return ErrorCode.UNKNOWN_TOPIC  # purged: there is another one of its name
        is_same = stored is not None and stored.topic_id == change.topic_id
        if is_same and stored is not None and stored.leader_epoch > change.leader_epoch:
            return ErrorCode.STALE_EPOCH
        return led, where

    def _store(
        self,
        led: GroupPartition,
        where: TopicPartition,
        change: IggyPositionChange,
        ended: Callable[[ErrorCode], None],
    ) -> None:
        if change.committed > _MOST_COMMITTED:
            ended(ErrorCode.INVALID_REQUEST)
            return
        group = led.groups.get(change.consumer)
        is_new = group is None or group.offsets.get(where) is None
        if is_new and not self._groups.room.for_position(led, change.consumer):
            ended(ErrorCode.LIMIT_REACHED)
            return
        offset = CommittedOffset(
            change.committed,
            change.leader_epoch,
            commit_ms=self._broker.tick.now_ms,
            topic_id=change.topic_id,
        )
        led.store_offsets(change.consumer, {where: offset}, partial(_coded, ended))

    def _read(
        self,
        led: GroupPartition,
        wanted: Sequence[tuple[int, IggyPositionChange, TopicPartition]],
        asked: "_PositionsAsked",
        error: GroupError,
    ) -> None:
        """Answers what is stored, when it is known that nobody else coordinates by now."""
        if led.is_closed:
            error = GroupError.NOT_COORDINATOR
        for place, change, where in wanted:
            if error:
                asked.ended(place, error_code(error))
                continue
            stored = led.committed(change.consumer, (where,)).get(where)
            if stored is None or stored.topic_id != change.topic_id:
                asked.ended(place, ErrorCode.NONE)
            else:
                asked.ended(place, ErrorCode.NONE, stored.offset)


class _PositionsAsked:
    """One request about positions, some of whose results are missing."""

    __slots__ = ("_done", "_missing", "_results")

    def __init__(self, count: int, done: Callable[[Message], None]) -> None:
        self._results = [IggyPositionResult() for _ in range(count)]
        self._missing = count
        self._done = done
        if not count:
            done(IggyPositionsResponse())

    def ended(self, place: int, error: ErrorCode, committed: int = _NOTHING) -> None:
        """One of the changes has its result."""
        self._results[place] = IggyPositionResult(error, committed)
        self._missing -= 1
        if not self._missing:
            self._done(IggyPositionsResponse(self._results))


class _MembersAsked:
    """One broker's word about its members, of which some groups have not answered."""

    __slots__ = ("_broker", "_done", "_missing", "_told")

    def __init__(
        self, broker: Broker, groups: Groups, request: IggyMembersRequest, done: Callable[[Message], None]
    ) -> None:
        self._broker = broker
        self._done = done
        self._missing = len(request.groups)
        self._told = [IggyGroupTold() for _ in request.groups]
        if not request.groups:
            done(IggyMembersResponse())
        for place, each in enumerate(request.groups):
            if broker.link.view.index < each.born:  # created after all that this broker has heard of
                self._answered(place, IggyAnswer(GroupError.LOADING))
            else:
                groups.take_iggys(
                    group_consumer(each.born), _said(request, each), partial(self._answered, place)
                )

    def _answered(self, place: int, answer: IggyAnswer) -> None:
        self._told[place] = IggyGroupTold(
            error_code(answer.error),
            answer.generation,
            [
                IggyMemberTold(each.connection, list(each.partitions), list(each.draining))
                for each in answer.members
            ],
        )
        self._missing -= 1
        if not self._missing:
            self._done(IggyMembersResponse(self._told))


def _said(request: IggyMembersRequest, group: IggyGroupSaid) -> BrokerSaid:
    return BrokerSaid(
        request.broker,
        request.epoch,
        request.sequence,
        [IggyMemberName(each.connection, each.client_id, bool(each.is_sticky)) for each in group.members],
        group.generation,
        [Release(each.connection, each.partition) for each in group.released],
    )


def _coded(ended: Callable[[ErrorCode], None], error: GroupError) -> None:
    ended(error_code(error))
