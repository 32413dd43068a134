"""When this controller leads, and the commands that it then proposes on its own. No I/O.

This controller leads when Raft elected it and its state holds everything that was ever committed. The
commands come from liveness, clocks, volumes, feature levels and the leader's tasks. The next ones are
proposed only when the last ones have an outcome.
"""

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tank_controller import limits
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.leader.brokers.clocks import BrokerClocks
from tank_controller.leader.brokers.liveness import BrokerLiveness, Loss
from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.brokers.volumes import BrokerRooms
from tank_controller.leader.commit_order import PositionOrder
from tank_controller.leader.log_ends import LogEndQuery
from tank_controller.leader.proposals import Proposals
from tank_controller.leader.raising import Raising
from tank_controller.leader.scaling import Scaling
from tank_controller.leader.tasks import LeaderTasks
from tank_protos.generated import control_pb2 as pb

STALLED_MS = 1000
"""A tick that is later than this was held up, so brokers' heartbeats may wait unread: every broker gets a
full session timeout again.
"""
PEER_KEY_BYTES = 16

_log = logging.getLogger("tank.controller")


class ControllerClock(Protocol):
    """Two clocks, in milliseconds."""

    def now_ms(self) -> int:
        """Wall-clock time since the epoch."""

    def monotonic_ms(self) -> int:
        """A clock that never goes back."""


@dataclass(slots=True)
class LeaderParts:
    """The parts of a controller that propose commands while it leads, and outlive a term."""

    raising: Raising = field(default_factory=Raising)
    clocks: BrokerClocks = field(default_factory=BrokerClocks)
    scaling: Scaling = field(default_factory=Scaling)
    volumes: BrokerRooms = field(default_factory=BrokerRooms)


@dataclass(slots=True)
class LeaderTerm:
    """One term of this controller as leader; a later term begins with a new one."""

    term: int
    liveness: BrokerLiveness
    tasks: LeaderTasks
    proposed: int = 0
    """The leader's own commands that have no outcome yet."""
    positions: PositionOrder = field(default_factory=PositionOrder)
    """The order in which committed positions were taken in this term."""
    told_in_the_way: tuple[str, ...] = ()
    """The topics and groups that hold up the next feature level, as the last log line about them named
    them."""

    def is_busy(self) -> bool:
        """Whether the leader's next commands must wait for the outcome of its last ones."""
        return self.proposed > 0


class ControllerLeadership:
    """The leadership of one controller. All calls on the driver's thread."""

    def __init__(
        self,
        proposals: Proposals,
        clock: ControllerClock,
        random_bytes: Callable[[int], bytes],
        session_timeout_ms: int,
        parts: LeaderParts,
    ) -> None:
        self.proposals = proposals
        self.clock = clock
        self.session_timeout_ms = session_timeout_ms
        self.parts = parts
        self.fences: Counter[Loss] = Counter()
        """How many brokers this controller fenced since its process began, by the reason."""
        self.term: LeaderTerm | None = None
        """The term that `look` saw last; None while this controller doesn't lead."""
        self.on_end: Callable[[], None] = lambda: None
        """Called when a term as leader has ended."""
        self._metadata = proposals.metadata
        self._random_bytes = random_bytes
        self._last_tick_ms = clock.monotonic_ms()
        self._judged = True
        """Whether the last tick judged the brokers' silence."""

    def look(self) -> LeaderTerm | None:
        """The present term as leader; None while this controller doesn't lead. Ends and begins terms."""
        driver = self.proposals.driver
        number = driver.raft.term if driver.ready else None
        if self.term is not None and self.term.term != number:
            self.term = None
            self.parts.clocks.begin_term()
            self.parts.volumes.begin_term()
            self.parts.raising.held.begin_term()
            self.on_end()
        if self.term is None and number is not None:
            liveness = BrokerLiveness(self.session_timeout_ms)
            self.term = LeaderTerm(number, liveness, LeaderTasks(self.parts.scaling))
            liveness.lead(self.clock.monotonic_ms())
            self._found_cluster(self.term)
        return self.term

    def measure_tick(self) -> int:
        """By how many milliseconds this tick is behind the last one."""
        now_ms = self.clock.monotonic_ms()
        late_ms, self._last_tick_ms = now_ms - self._last_tick_ms, now_ms
        return late_ms

    def tick(self, term: LeaderTerm, streams: Mapping[int, Stream], late_ms: int) -> Sequence[LogEndQuery]:
        """Proposes what is due, and returns the queries to send. `late_ms` is the result of
        `measure_tick`.
        """
        now_ms = self.clock.monotonic_ms()
        if late_ms > STALLED_MS:
            term.liveness.lead(now_ms)
        # A broker whose stream broke meanwhile may have registered again: its registration is read before the
        # next tick.
        self._judged = late_ms <= limits.BROKEN_STREAM_GRACE_MS or not self._judged
        if not self._judged or term.is_busy():
            return ()
        self._found_cluster(term)
        if (higher := self.parts.raising.command(self._metadata.state, streams)) is not None:
            self._propose(term, higher)
        state = self._metadata.state
        raising = self.parts.raising
        self._tell_in_the_way(term, raising.topics_in_the_way(state), raising.groups_in_the_way(state))
        for command in term.liveness.tick(state, now_ms):
            self._count(term, command)
            self._propose(term, command)
        for command in self.parts.clocks.tick(state, now_ms, self.clock.now_ms()):
            self._propose(term, command)
        for command in self.parts.volumes.tick(state):
            self._propose(term, command)
        if term.is_busy():
            return ()
        work = term.tasks.tick(self._metadata.state, now_ms)
        for command in work.commands:
            self._propose(term, command)
        return work.asks

    def _tell_in_the_way(self, term: LeaderTerm, topics: Sequence[str], groups: Sequence[str]) -> None:
        """Logs, once for each change, which topics and groups hold up the next feature level."""
        names = *topics, *groups
        if names == term.told_in_the_way:
            return
        term.told_in_the_way = names
        level = self._metadata.state.feature_level + 1
        if topics:
            _log.warning(
                "feature level %d is not raised: brokers need the name %s for a topic of their own; copy "
                "what you need of it to a topic of another name, and delete it",
                level,
                " and the name ".join(topics),
            )
        if groups:
            _log.warning(
                "feature level %d is not raised: Iggy's clients need the name of group %s; copy its "
                "positions to a group of another name, and delete it",
                level,
                " and that of group ".join(groups),
            )

    def _count(self, term: LeaderTerm, command: pb.Command) -> None:
        """Logs that a broker is fenced, or no longer fenced, and counts the fences."""
        if command.WhichOneof("command") == "unfence_broker":
            _log.info("broker %d is heard again, and no longer fenced", command.unfence_broker.broker_id)
            return
        broker_id = command.fence_broker.broker_id
        loss = term.liveness.loss(broker_id)
        self.fences[loss] += 1
        if loss is Loss.SILENT:
            _log.warning(
                "broker %d is fenced: it was silent for %d ms: its process is frozen, cut off from the "
                    "network, or gets no processor time",
                broker_id, self.session_timeout_ms,
            )  # fmt: skip
        elif loss is Loss.STAYED_AWAY:
            _log.warning(
                "broker %d is fenced: it did not connect to this controller since it began to lead", broker_id
            )
        else:
            _log.warning("broker %d is fenced: its stream broke, and it did not connect again", broker_id)

    def _found_cluster(self, term: LeaderTerm) -> None:
        """The cluster's first leader proposes the key with which brokers authenticate to each other."""
        if not self._metadata.state.peer_key:
            key = self._random_bytes(PEER_KEY_BYTES)
            self._propose(term, pb.Command(found_cluster=pb.FoundCluster(peer_key=key)))

    def _propose(self, term: LeaderTerm, command: pb.Command) -> None:
        command.now_ms = self.clock.now_ms()
        term.proposed += 1

        def done(outcome: CommandOutcome) -> None:
            term.proposed -= 1
            if outcome.rejection is not None:
                _log.debug("%s: %s", command.WhichOneof("command"), outcome.rejection.message)

        self.proposals.propose(command, done)
