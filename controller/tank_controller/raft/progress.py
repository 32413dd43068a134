"""What a leader knows of each follower, and how much it may send to it. Pure."""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum

from tank_controller.raft.messages import Snapshot
from tank_controller.raft.settings import Settings


class Flow(Enum):
    """How a leader sends the log to a follower."""

    PROBE = 0
    """It is not known where the logs agree: the leader sends one append at a time."""
    REPLICATE = 1
    """The logs agree: appends follow each other without waiting, within the window."""
    SNAPSHOT = 2
    """The entries that the follower needs are compacted away: it gets the snapshot, chunk by chunk."""


@dataclass(slots=True)
class Transfer:
    """A snapshot on its way to a follower. One chunk is unanswered at a time, which bounds the bytes in
    flight.
    """

    snapshot: Snapshot
    offset: int = 0
    """The offset up to which the follower has the snapshot."""
    waiting: bool = False
    idle_ticks: int = 0
    """Ticks since the chunk left or its last answer came; after some, the chunk is sent again."""


@dataclass(slots=True)
class MemberProgress:
    """The leader's record of one member, for the leader's term."""

    next_index: int
    """The next entry to send. Invariant: matched < next_index."""
    matched: int = 0
    """The follower said in this term that its log agrees up to here, durably. Falls only when a new process
    of the follower answers.
    """
    flow: Flow = Flow.PROBE
    paused: bool = False
    """While probing: an append is unanswered."""
    ask_anyway: bool = False
    """An append is due, even an empty one, because what was in flight may be lost."""
    active: bool = False
    """The member was heard since the last check of the quorum, or since the leader asked for its vote."""
    start: int = 0
    """The number of the follower's process that `matched` belongs to; 0: not known."""
    told_commit: int = 0
    acked_round: int = 0
    """The last round of reads that the member confirmed."""
    max_level: int = 0
    """The newest feature level that the member knows, from its last heartbeat answer."""
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
        """Notes that the follower's log agrees up to `index`; returns whether that is news."""
        news = index > self.matched
        self.matched = max(self.matched, index)
        self.next_index = max(self.next_index, index + 1)
        while self.in_flight and self.in_flight[0][0] <= index:
            self.in_flight_bytes -= self.in_flight.popleft()[1]
        return news

    def rejected(self, index: int, next_index: int) -> bool:
        """Handles a rejected append behind `index`. Returns False for an answer to an old append, which says
        nothing.
        """
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
        """Begins to send appends without waiting, because the logs agree up to `matched`."""
        self._enter(Flow.REPLICATE)
        self.next_index = self.matched + 1

    def send_snapshot(self, snapshot: Snapshot) -> None:
        """Begins to send a snapshot."""
        self._enter(Flow.SNAPSHOT)
        self.transfer = Transfer(snapshot)

    def _enter(self, flow: Flow) -> None:
        self.flow = flow
        self.paused = False
        self.transfer = None
        self.in_flight.clear()
        self.in_flight_bytes = 0
