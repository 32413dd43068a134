"""What a leader knows of one follower, and how much it may send to it. Pure."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from tank_controller.raft.messages import Snapshot
from tank_controller.raft.settings import Settings


class Flow(Enum):
    """How a follower is sent the log."""

    PROBE = 0
    """Where the logs agree is not known: one append at a time."""
    REPLICATE = 1
    """They agree: appends follow each other without waiting, within the window."""
    SNAPSHOT = 2
    """What it needs is compacted away: it gets the snapshot, chunk by chunk."""


@dataclass(slots=True)
class Transfer:
    """A snapshot on its way. One chunk is unanswered at a time: that alone bounds what is in flight."""

    snapshot: Snapshot
    offset: int = 0
    """The follower has everything before it."""
    waiting: bool = False
    idle_ticks: int = 0
    """Since the chunk left or its last answer came; then it is sent again."""


@dataclass(slots=True)
class Progress:
    """Of one follower, in the leader's term."""

    next_index: int
    """The next entry to send. matched < next_index."""
    matched: int = 0
    """It said, in this term, that its log agrees up to here, durably. Never goes back."""
    flow: Flow = Flow.PROBE
    paused: bool = False
    """While probing: an append is unanswered."""
    ask_anyway: bool = False
    """An append is due, even an empty one: what was in flight may be lost."""
    active: bool = False
    """Heard from since the last check of the quorum, or since it was asked for its vote."""
    start: int = 0
    """Of the process that matched it; 0: not known."""
    told_commit: int = 0
    acked_round: int = 0
    """The last round of reads that it confirmed."""
    max_level: int = 0
    """The newest feature level that it knows, by the last heartbeat that it answered."""
    transfer: Transfer | None = None
    in_flight: deque[tuple[int, int]] = field(default_factory=deque)
    """(last index, bytes) of each unanswered append while replicating."""
    in_flight_bytes: int = 0

    def may_send(self, settings: Settings) -> bool:
        """Whether another append may leave now."""
        if self.flow is Flow.PROBE:
            return not self.paused
        if self.flow is Flow.SNAPSHOT:
            return False
        return (
            len(self.in_flight) < settings.in_flight_appends
            and self.in_flight_bytes < settings.in_flight_bytes
        )

    def sent(self, last_index: int, size: int) -> None:
        """An append with entries up to `last_index` left."""
        if self.flow is Flow.PROBE:
            self.paused = True
            return
        self.in_flight.append((last_index, size))
        self.in_flight_bytes += size
        self.next_index = last_index + 1

    def accepted(self, index: int) -> bool:
        """It matches up to `index`; whether that is news."""
        news = index > self.matched
        self.matched = max(self.matched, index)
        self.next_index = max(self.next_index, index + 1)
        while self.in_flight and self.in_flight[0][0] <= index:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        return news

    def rejected(self, index: int, next_index: int) -> bool:
        """An append behind `index` didn't fit; False when the answer is to an old one and says nothing."""
        if index <= self.matched:
            return False
        if self.flow is Flow.PROBE and index != self.next_index - 1:
            return False
        self.probe(max(self.matched + 1, min(index, next_index)))
        return True

    def probe(self, next_index: int | None = None) -> None:
        """Back to one append at a time."""
        self._enter(Flow.PROBE)
        self.next_index = self.matched + 1 if next_index is None else next_index

    def replicate(self) -> None:
        """The logs agree up to `matched`."""
        self._enter(Flow.REPLICATE)
        self.next_index = self.matched + 1

    def send_snapshot(self, snapshot: Snapshot) -> None:
        """Begins to send one."""
        self._enter(Flow.SNAPSHOT)
        self.transfer = Transfer(snapshot)

    def _enter(self, flow: Flow) -> None:
        self.flow = flow
        self.paused = False
        self.transfer = None
        self.in_flight.clear()
        self.in_flight_bytes = 0
