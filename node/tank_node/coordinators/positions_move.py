"""The move of the positions that the controllers kept before feature level 4: each coordinator takes those of
its groups over once.

From that level on the controllers take no more positions, so what they still hold only shrinks. A coordinator
stores the positions of its groups in its log, and has the controllers drop them then; before that is done it
answers no request about these groups, so that none is answered without them. A coordinator that begins in
between finds in its log what the one before it has stored, and leaves that as it is.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.cluster.link import ChangeOutcome, GroupsOutcome, Position, PositionsOutcome
from tank_node.coordinators.group_partition import GroupPartition
from tank_node.coordinators.group_timer import GroupTimer
from tank_node.coordinators.groups import Groups
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import CommittedOffset, TopicPartition
from tank_node.coordinators.records.group_records import offset_record
from tank_protos.feature_levels import NATIVE_GROUPS
from tank_protos.wire.errors import WireError
from tank_protos.wire.names import GROUPS_TOPIC

logger = logging.getLogger(__name__)

LASTS_MS: Final = 2**63 - 1
"""The time at which a position goes that stays until it is deleted."""
_MOST_OFFSET: Final = 2**63 - 1
_PAUSE_MS: Final = 1_000
"""How often a broker looks whether the feature level has risen, and asks again what was not answered."""
_SOON_MS: Final = 50
"""How soon it looks again at partitions that are being read."""
_DROPPED: Final = 1_000
"""The most groups that one command drops at the controllers."""


class PositionsMove:
    """Takes positions over for the partitions that one broker leads, one partition after another."""

    def __init__(self, broker: Broker, groups: Groups) -> None:
        self._broker = broker
        self._groups = groups
        self._moved: dict[int, GroupPartition] = {}
        """The partitions whose positions are here, by number."""
        self._is_busy = False
        """Whether the controllers were asked, and the answer has not come, or is being worked on."""
        self._stopped = False
        self._timer = GroupTimer(broker, self._look, self._stop)
        self._timer.by(broker.tick.monotonic_ms)

    @property
    def is_done(self) -> bool:
        """Whether the controllers hold no positions any more. If not, the move goes on soon."""
        self._hurry()
        return self._broker.has_all_positions

    def is_over(self, led: GroupPartition) -> bool:
        """Whether the positions of this partition's groups are in its log. If not, the move goes on soon."""
        if self._broker.has_all_positions or self._moved.get(led.partition.number) is led:
            return True
        self._hurry()
        return False

    def _hurry(self) -> None:
        if not (self._broker.has_all_positions or self._is_busy or self._stopped):
            self._timer.by(self._broker.tick.monotonic_ms)

    # --- time ------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._stopped = True

    def _look(self) -> None:
        if self._broker.has_all_positions or self._is_busy or self._stopped:
            return
        if self._broker.link.view.feature_level < NATIVE_GROUPS:
            self._again(_PAUSE_MS)
            return
        self._is_busy = True
        self._broker.link.requests.groups_to_move(self._named)

    def _again(self, after_ms: int) -> None:
        self._is_busy = False
        if not self._stopped:
            self._timer.by(self._broker.tick.monotonic_ms + after_ms)

    # --- one round -------------------------------------------------------------------------------

    def _named(self, outcome: GroupsOutcome) -> None:
        """The controllers have answered which groups they still hold."""
        broker = self._broker
        broker.begin_tick()
        if outcome.error:
            self._again(_PAUSE_MS)
        elif not outcome.groups:
            broker.has_all_positions, self._is_busy = True, False
            self._moved.clear()
        elif broker.link.view.topic(GROUPS_TOPIC) is None:
            self._groups.coordinator_of(outcome.groups[0], _ignore)  # has the topic created
            self._again(_PAUSE_MS)
        else:
            self._begin_round(outcome.groups)

    def _begin_round(self, names: Sequence[str]) -> None:
        """Looks at all partitions that this broker leads: those without such groups are done, of others the
        first one's positions are fetched."""
        by_number: dict[int, list[str]] = {}
        for name in names:
            number = self._groups.partition_of(name)
            if number is not None:
                by_number.setdefault(number, []).append(name)
        is_reading = False
        for led in self._groups.led():
            if self._moved.get(led.partition.number) is led:
                continue
            if led.state is GroupError.LOADING:
                is_reading = True
            elif not led.is_closed and (mine := by_number.get(led.partition.number)):
                _PartitionMove(self._broker, led, mine, self._ended)
                return
            elif not led.is_closed:
                self._moved[led.partition.number] = led
        self._again(_SOON_MS if is_reading else _PAUSE_MS)

    def _ended(self, led: GroupPartition, is_moved: bool) -> None:
        """One partition was looked at; the next one follows."""
        if is_moved:
            self._moved[led.partition.number] = led
        self._again(0 if is_moved else _PAUSE_MS)


class _PartitionMove:
    """The move of the positions of one partition's groups: each group's are fetched and stored, one after the
    other, and then all are dropped at the controllers."""

    def __init__(
        self,
        broker: Broker,
        led: GroupPartition,
        names: Sequence[str],
        ended: Callable[[GroupPartition, bool], None],
    ) -> None:
        """ended: called once, with whether all is moved."""
        self._broker = broker
        self._led = led
        self._ended = ended
        self._left = list(names)
        self._stored: list[str] = []
        """Groups that the controllers are to drop."""
        self._count = 0
        self._next()

    def _next(self) -> None:
        if self._led.is_closed:
            self._end(False)
        elif self._left:
            self._broker.link.requests.positions_to_move(self._left[-1], self._fetched)
        elif self._stored:
            part = self._stored[:_DROPPED]
            self._broker.link.requests.drop_positions(part, self._dropped)
        else:
            partition = self._led.partition
            logger.info(
                "%s/%d: took %d positions over from the controllers",
                partition.topic_name,
                partition.number,
                self._count,
            )
            self._end(True)

    def _fetched(self, outcome: PositionsOutcome) -> None:
        self._broker.begin_tick()
        if outcome.error or self._led.is_closed:
            self._end(False)
            return
        name = self._left[-1]
        held = self._led.groups.get(name)
        offsets: dict[TopicPartition, CommittedOffset] = {}
        for each in outcome.positions:
            place = each.topic, each.partition
            if held is not None and held.offsets.is_changing(place):
                self._end(False)  # an earlier attempt may be on its way still
                return
            if held is None or held.offsets.get(place) is None:
                offset = _offset(each)
                if _can_be_stored(name, place, offset):
                    offsets[place] = offset
        self._count += len(offsets)
        self._led.store_offsets(name, offsets, self._kept)

    def _kept(self, error: GroupError) -> None:
        if error:
            self._end(False)
            return
        self._stored.append(self._left.pop())
        self._broker.do_early(self._next)  # not from here: there may be thousands of groups

    def _dropped(self, outcome: ChangeOutcome) -> None:
        self._broker.begin_tick()
        if outcome.error:
            self._end(False)
            return
        del self._stored[:_DROPPED]
        self._next()

    def _end(self, is_moved: bool) -> None:
        self._ended(self._led, is_moved)


def _offset(position: Position) -> CommittedOffset:
    number = min(position.sequence_number, _MOST_OFFSET)
    return CommittedOffset(
        number - 1, metadata=position.metadata, commit_ms=position.committed_ms, expire_ms=LASTS_MS
    )


def _can_be_stored(name: str, place: TopicPartition, offset: CommittedOffset) -> bool:
    try:
        offset_record(name, *place, offset)
    except WireError:
        logger.warning("group %a: its position in %a/%d can't be stored, and is left out", name[:60], *place)
        return False
    return True


def _ignore(error: GroupError, leader: int) -> None:
    """The next look finds the topic."""
