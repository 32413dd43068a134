"""Brokers with a wrong clock: the leading controller compares the brokers' wall clocks. Pure.

A heartbeat carries the broker's wall clock, and names the controller's message that it answers, which limits
how long the heartbeat was under way. So the difference between the broker's clock and the controller's
monotonic one lies between two known bounds, however slow the network or the process. Clocks agree where their
bounds are no more than clock.skew.max apart; a broker is off when a majority agrees without it.

Where no majority of the brokers' clocks agrees, the leading controller's own clock counts as one more. Where
there is still no majority, every broker may lead: a wrong clock does less harm than a cluster that stops.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from tank_controller import limits
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb

ROUNDED_MS = 2
"""Both clocks were rounded down to whole milliseconds."""

_log = logging.getLogger("tank.controller")


@dataclass(slots=True, frozen=True)
class Bounds:
    """By how many ms a clock is ahead of the controller's monotonic one: at least and at most."""

    least_ms: int
    most_ms: int

    def widened(self, by_ms: int) -> "Bounds":
        """The bounds, wider by so much on either side."""
        return Bounds(self.least_ms - by_ms, self.most_ms + by_ms)

    def meets(self, others: Iterable["Bounds"]) -> bool:
        """Whether these bounds overlap one of the others."""
        return any(self.least_ms <= each.most_ms and each.least_ms <= self.most_ms for each in others)

    @property
    def middle_ms(self) -> int:
        """The best estimate."""
        return (self.least_ms + self.most_ms) // 2


class BrokerClocks:
    """The readings of one controller, and its judgements. Times are in ms of a clock that never goes back,
    but for `wall_ms`.
    """

    def __init__(
        self,
        skew_max_ms: int = limits.CLOCK_SKEW_MAX_MS,
        session_timeout_ms: int = limits.SESSION_TIMEOUT_MS,
    ) -> None:
        """`session_timeout_ms`: in this time every live broker is heard several times. A reading is valid for
        this time, and a judgement takes effect when it has held for this time.
        """
        self.skew_max_ms = skew_max_ms
        self.ahead_ms: dict[int, int] = {}
        """By broker: how far its clock is ahead of the majority's. Empty while no majority agrees."""
        self.own_ahead_ms: int | None = None
        """How far this controller's clock is ahead of the majority's; None: not known."""
        self.disagree = False
        """Whether there are several clocks, and no majority agrees."""
        self._half_ms = skew_max_ms // 2
        self._settles_ms = session_timeout_ms
        self._heard: dict[int, tuple[Bounds, int]] = {}
        """By broker: its last reading, and when it came."""
        self._since: dict[int, int] = {}
        """By broker: since when the judgement differs from the mark in the state."""
        self._next_ms = 0
        self._own_is_off = False

    def begin_term(self) -> None:
        """Forgets all readings: this controller began or ceased to lead."""
        self._heard.clear()
        self._since.clear()
        self.ahead_ms, self.own_ahead_ms, self.disagree = {}, None, False

    def heard(self, broker_id: int, heartbeat: pb.BrokerHeartbeat, now_ms: int) -> None:
        """Takes a heartbeat's reading, unless it was under way for too long."""
        if not heartbeat.wall_ms or not heartbeat.answers_ms:
            return
        under_way_ms = now_ms - heartbeat.answers_ms - heartbeat.held_ms + ROUNDED_MS
        if 0 <= under_way_ms <= self.skew_max_ms:
            least_ms = heartbeat.wall_ms - now_ms
            self._heard[broker_id] = Bounds(least_ms, least_ms + under_way_ms), now_ms

    def tick(self, state: ClusterState, now_ms: int, wall_ms: int) -> list[pb.Command]:
        """Returns the commands that keep brokers with wrong clocks from leading, or let them lead again."""
        if now_ms < self._next_ms:
            return []
        self._next_ms = now_ms + limits.CLOCKS_JUDGED_EVERY_MS
        oldest_ms = now_ms - self._settles_ms
        self._heard = {
            broker_id: (bounds, came_ms)
            for broker_id, (bounds, came_ms) in self._heard.items()
            if broker_id in state.brokers and came_ms >= oldest_ms
        }
        clocks = {broker_id: bounds for broker_id, (bounds, _) in self._heard.items()}
        own = Bounds(wall_ms - now_ms, wall_ms - now_ms)
        agreed = self._agreed(clocks, own)
        self._note(clocks, own, agreed)
        return self._changes(state, clocks, agreed, now_ms)

    def report(self, answer: pb.OverviewAnswer) -> None:
        """Adds the clocks' differences, and whether they disagree, to an operator's answer."""
        answer.clock_skew_max_ms = self.skew_max_ms
        answer.clocks_disagree = self.disagree
        if self.own_ahead_ms is not None:
            answer.controller_clock_ahead_ms = self.own_ahead_ms
        for load in answer.brokers:
            ahead_ms = self.ahead_ms.get(load.broker.broker_id)
            if ahead_ms is not None:
                load.clock_ahead_ms = ahead_ms

    def _agreed(self, clocks: dict[int, Bounds], own: Bounds) -> list[Bounds]:
        """The bounds on which a majority of the clocks agrees."""
        brokers = [each.widened(self._half_ms) for each in clocks.values()]
        found = majorities(brokers) if len(brokers) > 1 else []
        return found or majorities([*brokers, own.widened(self._half_ms)])

    def _note(self, clocks: dict[int, Bounds], own: Bounds, agreed: list[Bounds]) -> None:
        disagree = len(clocks) > 0 and not agreed
        if disagree is not self.disagree:
            self.disagree = disagree
            if disagree:
                differ = ", ".join(
                    f"broker {broker_id} {(each.middle_ms - own.middle_ms) / 1000:+.1f} s"
                    for broker_id, each in sorted(clocks.items())
                )
                _log.warning(
                    "the clocks of the brokers disagree, and no majority agrees: set them right; "
                    "ahead of this controller's clock: %s",
                    differ,
                )
            else:
                _log.info("a majority of the clocks agrees again")
        self.ahead_ms, self.own_ahead_ms = {}, None
        if clocks and agreed:
            right_ms = agreed[0].middle_ms
            self.ahead_ms = {broker_id: each.middle_ms - right_ms for broker_id, each in clocks.items()}
            self.own_ahead_ms = own.middle_ms - right_ms
        own_is_off = bool(agreed) and not own.widened(self._half_ms).meets(agreed)
        if own_is_off and not self._own_is_off:
            _log.warning(
                "this controller's clock is off by %+.1f s: set it right", (self.own_ahead_ms or 0) / 1000
            )
        self._own_is_off = own_is_off

    def _changes(
        self, state: ClusterState, clocks: dict[int, Bounds], agreed: list[Bounds], now_ms: int
    ) -> list[pb.Command]:
        commands: list[pb.Command] = []
        since, self._since = self._since, {}
        if not agreed:
            return commands
        for broker_id, bounds in clocks.items():
            broker = state.brokers[broker_id]
            # A wrong clock has to come closer than a right one has to stay: no going back and forth.
            is_off = not bounds.widened(0 if broker.clock_off else self._half_ms).meets(agreed)
            if is_off is broker.clock_off:
                continue
            began_ms = self._since[broker_id] = since.get(broker_id, now_ms)
            if now_ms - began_ms < self._settles_ms:
                continue
            change = pb.SetBroker(broker_id=broker_id, epoch=broker.epoch, clock_off=is_off)
            commands.append(pb.Command(set_broker=change))
            self._say(broker_id, is_off=is_off)
        return commands

    def _say(self, broker_id: int, *, is_off: bool) -> None:
        ahead_s = self.ahead_ms[broker_id] / 1000
        if is_off:
            _log.warning(
                "the clock of broker %s is off by %+.1f s: others lead in its place; set the clock right",
                broker_id,
                ahead_s,
            )
        else:
            _log.info("the clock of broker %s is right again (%+.1f s): it may lead", broker_id, ahead_s)


def majorities(clocks: list[Bounds]) -> list[Bounds]:
    """The bounds that more than half of these clocks share; several where different majorities do."""
    events = sorted(
        [*((each.least_ms, False) for each in clocks), *((each.most_ms, True) for each in clocks)]
    )
    majority = len(clocks) // 2 + 1
    found: list[Bounds] = []
    count = least_ms = 0
    for at_ms, ends in events:
        if ends:
            if count == majority:
                found.append(Bounds(least_ms, at_ms))
            count -= 1
        else:
            count += 1
            if count == majority:
                least_ms = at_ms
    return found
