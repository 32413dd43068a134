"""The stored offsets of Iggy's consumers and groups in the partitions that this broker leads.

The leader is their only writer: it asks their coordinator once, answers from memory, and writes through under
its leader epoch. What clients have stored as they polled is written a little later, the newest of each
consumer and partition alone.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.group_timer import GroupTimer
from tank_node.coordinators.iggy.consumer_ids import committed_of, offset_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.partition.partition import Partition
from tank_node.peers.group_errors import error_code
from tank_node.peers.group_router import GroupRouter, router_of
from tank_node.peers.iggy.iggy_service import DELETE, GET, STORE
from tank_node.peers.iggy.position_cache import IggyPlace, PositionCache, Remembered
from tank_node.replication.role import Role
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    IggyOffsetRequest,
    IggyOffsetResponse,
    IggyPositionChange,
    IggyPositionResult,
    IggyPositionsRequest,
    IggyPositionsResponse,
)
from tank_protos.wire.message import Message

SOON: Final = 3
"""In 92: the offset is stored soon, and answered at once."""
SOON_BEHIND: Final = 4
"""The same, if what is stored is still what it was when the messages were asked for."""
_NOTHING: Final = -1
_MOST_CHANGES: Final = 1_000
"""The most positions of one message to a coordinator."""
_LOST: Final = frozenset(
    (
        ErrorCode.STALE_EPOCH,
        ErrorCode.UNKNOWN_TOPIC,
        ErrorCode.UNKNOWN_GROUP,
        ErrorCode.LIMIT_REACHED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_NAME,
    )
)
"""Refusals of what was to be stored soon after which it is not tried again."""

Offset = Callable[[ErrorCode, int | None], None]
Done = Callable[[ErrorCode], None]


class IggyPositions:
    """The positions in all partitions that one broker leads."""

    def __init__(self, broker: Broker, router: GroupRouter) -> None:
        self._broker = broker
        self._router = router
        self._cache = PositionCache(broker.limits.iggy_positions)
        self._sender = Session()
        """Stands for this broker where the way to a coordinator wants a client's connection."""
        self._timer = GroupTimer(broker, self._flush, _ignore)

    # --- what clients ask ------------------------------------------------------------------------

    def get(self, place: IggyPlace, done: Offset) -> None:
        """The offset of the last message that the consumer has stored; None: it has stored none."""
        led = self._led(place)
        if isinstance(led, ErrorCode):
            done(led, None)
            return
        found = self._at(place, led)
        if found.is_known:
            done(ErrorCode.NONE, None if found.committed is None else offset_of(found.committed))
            return
        found.readers.append(partial(_as_offset, done))
        if len(found.readers) == 1:
            self._send(place, [(place, found)], [GET], partial(self._got, place, found))

    def store(self, place: IggyPlace, offset: int, done: Done, *, is_auto: bool = False) -> None:
        """Stores an offset. is_auto: it is stored soon, and counts from now on; a crash may lose that.
        Errors: OFFSET_ABOVE_END, and those of the coordinator."""
        led = self._led(place)
        if isinstance(led, ErrorCode):
            done(led)
            return
        if committed_of(offset) > led.high_water_mark:
            done(ErrorCode.OFFSET_ABOVE_END if led.end_known else ErrorCode.NO_LEADER)
            return
        found = self._at(place, led)
        readers = found.set(committed_of(offset))
        if is_auto:
            self._cache.soil(place, found)
            self._timer.by(self._broker.tick.monotonic_ms + self._broker.limits.iggy_commit_ms)
            done(ErrorCode.NONE)
        else:
            self._cache.clean(place, found)
            self._send(place, [(place, found)], [STORE], partial(self._stored, place, found, done))
        for reader in readers:
            reader(ErrorCode.NONE, found.committed)

    def advance(self, place: IggyPlace, seen: int | None, offset: int, done: Done) -> None:
        """Stores an offset soon, if the stored one is still `seen`, behind which the consumer has polled.
        Else the consumer has gone on by another poll, or was set elsewhere: a late answer changes nothing,
        and is no error."""
        self.get(place, partial(self._advance, place, seen, offset, done))

    def _advance(
        self,
        place: IggyPlace,
        seen: int | None,
        offset: int,
        done: Done,
        error: ErrorCode,
        stored: int | None,
    ) -> None:
        if error or stored != seen:
            done(error)
        else:
            self.store(place, offset, done, is_auto=True)

    def delete(self, place: IggyPlace, done: Done) -> None:
        """Forgets what the consumer has stored."""
        led = self._led(place)
        if isinstance(led, ErrorCode):
            done(led)
            return
        found = self._at(place, led)
        readers = found.set(None)
        self._cache.clean(place, found)
        self._send(place, [(place, found)], [DELETE], partial(self._stored, place, found, done))
        for reader in readers:
            reader(ErrorCode.NONE, None)

    def serve(self, request: IggyOffsetRequest, done: Callable[[Message], None]) -> None:
        """Answers another broker, to which a client of Iggy's is connected."""
        place = IggyPlace(request.consumer, request.topic_id, request.partition)
        match request.kind:
            case 0:
                self.get(place, partial(_told, done))
            case 1 | 3:
                answered = partial(_told_alone, done)
                self.store(place, request.offset, answered, is_auto=request.kind == SOON)
            case 2:
                self.delete(place, partial(_told_alone, done))
            case 4:
                seen = None if request.seen < 0 else request.seen
                self.advance(place, seen, request.offset, partial(_told_alone, done))
            case _:
                done(IggyOffsetResponse(ErrorCode.INVALID_REQUEST))

    # --- what is remembered ----------------------------------------------------------------------

    def _led(self, place: IggyPlace) -> Partition | ErrorCode:
        """The partition, which this broker leads, or why nothing is known of it here."""
        view = self._broker.link.view
        topic = view.topic_by_id(place.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC
        if place.partition >= len(topic.partitions):
            return ErrorCode.UNKNOWN_PARTITION
        served = self._broker.topics.get(topic.name)
        partition = None if served is None else served.partitions.get(place.partition)
        if partition is None or partition.role is not Role.LEADER:
            return ErrorCode.OTHER_LEADER
        return partition

    def _at(self, place: IggyPlace, led: Partition) -> Remembered:
        found = self._cache.at(place, led.leader_epoch)
        excess = self._cache.excess()
        if excess is not None:
            old = self._cache.known(excess)
            if old is not None and old.is_dirty:
                self._flush()
            self._cache.forget(excess)
        return found

    def _got(self, place: IggyPlace, found: Remembered, results: Sequence[IggyPositionResult]) -> None:
        """The coordinator has said what is stored, unless it was set meanwhile."""
        if found.is_known:
            return
        (result,) = results
        if result.error:
            readers, found.readers = found.readers, []
            if self._cache.known(place) is found:
                self._cache.forget(place)
        else:
            readers = found.set(None if result.committed < 0 else result.committed)
        for reader in readers:
            reader(ErrorCode(result.error), found.committed)

    def _stored(
        self, place: IggyPlace, found: Remembered, done: Done, results: Sequence[IggyPositionResult]
    ) -> None:
        """The coordinator has stored what a client waits for, or has not: then it says anew what is so."""
        (result,) = results
        if result.error and self._cache.known(place) is found:
            self._cache.forget(place)
        done(ErrorCode(result.error))

    # --- the way to the coordinators ---------------------------------------------------------------

    def _flush(self) -> None:
        """Stores what is to be stored soon: one message for each coordinator."""
        by_broker: dict[int, list[tuple[IggyPlace, Remembered]]] = defaultdict(list)
        for place, found in self._cache.take_dirty():
            by_broker[self._router.leader_of(place.consumer)].append((place, found))
        for leader, dirty in by_broker.items():
            for first in range(0, len(dirty), _MOST_CHANGES):
                part = dirty[first : first + _MOST_CHANGES]
                self._send_to(leader, part, [STORE] * len(part), partial(self._flushed, part))

    def _flushed(
        self, sent: Sequence[tuple[IggyPlace, Remembered]], results: Sequence[IggyPositionResult]
    ) -> None:
        """What was not stored is tried again, unless it is not this leader's any more, or was deleted
        meanwhile."""
        for (place, found), result in zip(sent, results, strict=True):
            if not result.error or self._cache.known(place) is not found:
                continue
            if result.error in _LOST:
                self._cache.forget(place)
            elif found.committed is not None:
                self._cache.soil(place, found)
        if self._cache.dirty:
            self._timer.by(self._broker.tick.monotonic_ms + self._broker.limits.iggy_commit_ms)

    def _send(
        self,
        place: IggyPlace,
        changes: Sequence[tuple[IggyPlace, Remembered]],
        kinds: Sequence[int],
        done: Callable[[Sequence[IggyPositionResult]], None],
    ) -> None:
        """Asks the coordinator of a consumer; has the internal topic created at its first use."""
        leader = self._router.leader_of(place.consumer)
        if leader != NO_LEADER:
            self._send_to(leader, changes, kinds, done)
            return
        self._router.service.groups.coordinator_of(
            place.consumer, partial(self._sent_later, changes, kinds, done)
        )

    def _sent_later(
        self,
        changes: Sequence[tuple[IggyPlace, Remembered]],
        kinds: Sequence[int],
        done: Callable[[Sequence[IggyPositionResult]], None],
        error: GroupError,
        leader: int,
    ) -> None:
        if error:
            done([IggyPositionResult(error_code(error))] * len(changes))
        else:
            self._send_to(leader, changes, kinds, done)

    def _send_to(
        self,
        leader: int,
        changes: Sequence[tuple[IggyPlace, Remembered]],
        kinds: Sequence[int],
        done: Callable[[Sequence[IggyPositionResult]], None],
    ) -> None:
        request = IggyPositionsRequest(
            [
                IggyPositionChange(
                    place.consumer, place.topic_id, place.partition, found.epoch, kind, found.committed or 0
                )
                for (place, found), kind in zip(changes, kinds, strict=True)
            ]
        )
        self._router.ask_broker(leader, request, self._sender, partial(_results, len(changes), done))


def _results(
    count: int, done: Callable[[Sequence[IggyPositionResult]], None], answer: Message | GroupError
) -> None:
    if isinstance(answer, IggyPositionsResponse) and len(answer.results) == count:
        done(answer.results)
    else:
        error = answer if isinstance(answer, GroupError) else GroupError.NOT_AVAILABLE
        done([IggyPositionResult(error_code(error))] * count)


def _as_offset(done: Offset, error: ErrorCode, committed: int | None) -> None:
    done(error, None if committed is None else offset_of(committed))


def _told(done: Callable[[Message], None], error: ErrorCode, offset: int | None) -> None:
    done(IggyOffsetResponse(error, _NOTHING if offset is None else offset))


def _told_alone(done: Callable[[Message], None], error: ErrorCode) -> None:
    done(IggyOffsetResponse(error))


def _ignore() -> None:
    """Nothing is left to do when the broker stops: what was to be stored soon is delivered again."""


def positions_of(broker: Broker) -> IggyPositions:
    """Returns the positions of Iggy's consumers in the partitions that this broker leads; makes them at the
    first call."""
    return shared(broker, IggyPositions, _made)


def _made(broker: Broker) -> IggyPositions:
    return IggyPositions(broker, router_of(broker))
