"""The way of an Iggy client's request about one stored offset to the leader of the partition, which may be
this broker."""

from collections.abc import Callable
from functools import partial
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.cluster.view import NO_LEADER
from tank_node.coordinators.group_timer import GroupTimer
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.peers.group_errors import error_code
from tank_node.peers.group_router import GroupRouter, router_of
from tank_node.peers.iggy.iggy_positions import (
    SOON,
    SOON_BEHIND,
    IggyPositions,
    positions_of,
)
from tank_node.peers.iggy.iggy_service import DELETE, GET, STORE
from tank_node.peers.iggy.position_cache import IggyPlace
from tank_node.session import Session
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated.tank import IggyOffsetRequest, IggyOffsetResponse
from tank_protos.wire.message import Message

_LONGEST_NAME: Final = 255
"""The most bytes of a consumer's name in our own messages."""
LONGEST_MS: Final = 5_000
"""How long a request is tried again while leaders and coordinators change."""
_PAUSE_MS: Final = 100
_MOST_WAITING: Final = 1_000
"""The most requests that wait to be tried again; a further one has its answer at once."""
_PASSING: Final = frozenset(
    (
        ErrorCode.COORDINATOR_LOADING,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NO_LEADER,
        ErrorCode.OTHER_LEADER,
        ErrorCode.STALE_EPOCH,
        ErrorCode.TIMED_OUT,
    )
)
"""Refusals that another leader or coordinator may not give. To try again does no harm: what was stored is
stored once more."""

Offset = Callable[[ErrorCode, int | None], None]
Ask = Callable[[Offset], None]


class _OffsetAttempt:
    """A request that is tried until it has an answer that counts, or its connection has ended: the client may
    have another one, which goes on from what this one would undo."""

    __slots__ = ("_again", "_ask", "_done", "_sender", "until_ms")

    def __init__(
        self,
        ask: Ask,
        sender: Session,
        until_ms: int,
        again: "Callable[[_OffsetAttempt], bool]",
        done: Offset,
    ) -> None:
        """ask: asks once. again: has `begin` called soon, or says False: there is no time, or no room."""
        self._ask = ask
        self._sender = sender
        self._again = again
        self._done = done
        self.until_ms = until_ms

    def begin(self) -> None:
        """Asks."""
        if self._sender.closed:
            self._done(ErrorCode.TIMED_OUT, None)  # nobody hears it
        else:
            self._ask(self._told)

    def _told(self, error: ErrorCode, offset: int | None) -> None:
        if error not in _PASSING or not self._again(self):
            self._done(error, offset)


class IggyOffsets:
    """What the sessions of one broker ask. Offsets are Iggy's: the first message of a partition has 0, and
    what is stored is the offset of the last message that was consumed. Below feature level 5 other brokers
    don't know these requests."""

    def __init__(self, broker: Broker, router: GroupRouter, positions: IggyPositions) -> None:
        self._broker = broker
        self._router = router
        self._positions = positions
        self._waiting: list[_OffsetAttempt] = []
        self._stopped = False
        self._timer = GroupTimer(broker, self._look, self._stop)

    def get(self, place: IggyPlace, sender: Session, done: Offset) -> None:
        """The stored offset; None: nothing is stored."""
        self._begin(partial(self._get, place, sender), sender, done)

    def store(
        self,
        place: IggyPlace,
        offset: int,
        sender: Session,
        done: Callable[[ErrorCode], None],
        *,
        is_auto: bool = False,
    ) -> None:
        """Stores an offset; answered when it is safe, or with is_auto when the leader goes by it. Errors:
        OFFSET_ABOVE_END."""
        self._begin(partial(self._store, place, offset, is_auto, sender), sender, partial(_alone, done))

    def advance(
        self,
        place: IggyPlace,
        seen: int | None,
        offset: int,
        sender: Session,
        done: Callable[[ErrorCode], None],
    ) -> None:
        """Stores an offset soon, unless `seen` is not stored any more: see `IggyPositions.advance`."""
        self._begin(partial(self._advance, place, seen, offset, sender), sender, partial(_alone, done))

    def delete(self, place: IggyPlace, sender: Session, done: Callable[[ErrorCode], None]) -> None:
        """Forgets a stored offset."""
        self._begin(partial(self._delete, place, sender), sender, partial(_alone, done))

    # --- until it has an answer that counts ----------------------------------------------------------

    def _begin(self, ask: Ask, sender: Session, done: Offset) -> None:
        until_ms = self._broker.tick.monotonic_ms + LONGEST_MS
        _OffsetAttempt(ask, sender, until_ms, self._again, done).begin()

    def _again(self, attempt: _OffsetAttempt) -> bool:
        now_ms = self._broker.tick.monotonic_ms
        if self._stopped or now_ms >= attempt.until_ms or len(self._waiting) >= _MOST_WAITING:
            return False
        self._waiting.append(attempt)
        self._timer.by(now_ms + _PAUSE_MS)
        return True

    def _look(self) -> None:
        waiting, self._waiting = self._waiting, []
        for attempt in waiting:
            attempt.begin()

    def _stop(self) -> None:
        """The broker stops: each has its last answer."""
        self._stopped = True
        self._look()

    # --- once ----------------------------------------------------------------------------------------

    def _get(self, place: IggyPlace, sender: Session, done: Offset) -> None:
        self._at_leader(place, partial(self._positions.get, place, done), GET, sender, done)

    def _store(self, place: IggyPlace, offset: int, is_auto: bool, sender: Session, done: Offset) -> None:
        stored = partial(_with_none, done)
        here = partial(self._positions.store, place, offset, stored, is_auto=is_auto)
        self._at_leader(place, here, SOON if is_auto else STORE, sender, done, offset)

    def _advance(
        self, place: IggyPlace, seen: int | None, offset: int, sender: Session, done: Offset
    ) -> None:
        here = partial(self._positions.advance, place, seen, offset, partial(_with_none, done))
        self._at_leader(place, here, SOON_BEHIND, sender, done, offset, -1 if seen is None else seen)

    def _delete(self, place: IggyPlace, sender: Session, done: Offset) -> None:
        here = partial(self._positions.delete, place, partial(_with_none, done))
        self._at_leader(place, here, DELETE, sender, done)

    def _at_leader(
        self,
        place: IggyPlace,
        here: Callable[[], None],
        kind: int,
        sender: Session,
        done: Offset,
        offset: int = 0,
        seen: int = -1,
    ) -> None:
        """Asks the partition's leader: by `here` if that is this broker, else by a request of this kind."""
        leader = self._leader(place)
        if isinstance(leader, ErrorCode):
            done(leader, None)
        elif leader == self._broker.link.view.broker_id:
            here()
        else:
            where = place.consumer, place.topic_id, place.partition
            request = IggyOffsetRequest(*where, kind, offset, seen)
            self._router.ask_broker(leader, request, sender, partial(_told, done))

    def _leader(self, place: IggyPlace) -> int | ErrorCode:
        view = self._broker.link.view
        if view.feature_level < IGGY:
            return ErrorCode.LEVEL_TOO_LOW
        topic = view.topic_by_id(place.topic_id)
        if topic is None:
            return ErrorCode.UNKNOWN_TOPIC
        if not 0 <= place.partition < len(topic.partitions):
            return ErrorCode.UNKNOWN_PARTITION
        if len(place.consumer.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
            return ErrorCode.INVALID_NAME
        leader = topic.partitions[place.partition].leader
        return ErrorCode.NO_LEADER if leader == NO_LEADER else leader


def _told(done: Offset, answer: Message | GroupError) -> None:
    if isinstance(answer, IggyOffsetResponse):
        done(ErrorCode(answer.error), None if answer.offset < 0 else answer.offset)
    else:
        error = answer if isinstance(answer, GroupError) else GroupError.NOT_AVAILABLE
        done(error_code(error), None)


def _with_none(done: Offset, error: ErrorCode) -> None:
    done(error, None)


def _alone(done: Callable[[ErrorCode], None], error: ErrorCode, offset: int | None) -> None:
    done(error)


def offsets_of(broker: Broker) -> IggyOffsets:
    """Returns the way to stored offsets of one broker's sessions; makes it at the first call."""
    return shared(broker, IggyOffsets, _made)


def _made(broker: Broker) -> IggyOffsets:
    return IggyOffsets(broker, router_of(broker), positions_of(broker))
