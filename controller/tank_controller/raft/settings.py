"""The bounds of the core, in one place, each with its reason. Pure."""

from dataclasses import dataclass

MESSAGE_BYTES = 4 * 1024 * 1024
"""gRPC's default limit of one message."""


@dataclass(slots=True, frozen=True)
class Settings:
    """The limits of the core. Times are in ticks; the driver says how long a tick lasts."""

    election_ticks: int = 10
    """A voter that hears no leader for one to two times as long asks for an election."""
    heartbeat_ticks: int = 2
    gone_ticks: int = 6
    """After the stream from the leader broke and the leader is not heard for so long, the first voter asks
    for an election. Longer than a leader that lives takes to open the stream again.
    """
    gone_apart_ticks: int = 3
    """Each further voter asks so much later than the one before it: two at once would split the votes."""
    max_entry_bytes: int = 1024 * 1024 + 64 * 1024
    """One command (tank_controller.limits.MAX_COMMAND_BYTES) and room for its envelope."""
    max_append_bytes: int = 1024 * 1024
    """The entries of one message; a single larger entry goes alone. So a message has at most 2.1 MiB."""
    chunk_bytes: int = 1024 * 1024
    in_flight_appends: int = 2
    """Unanswered appends to one follower: one is on its disk, the next on the way. Proposals that come
    meanwhile gather for the append after it, because messages of one entry each would cost far more.
    """
    in_flight_bytes: int = 8 * 1024 * 1024
    promote_within_entries: int = 64
    """A learner that lacks more entries is not made a voter yet: it could hold up commits. It counts entries,
    of which one append gathers many under load, so a learner that keeps up lacks more than the unanswered
    appends.
    """
    uncommitted_bytes: int = 64 * 1024 * 1024
    """A leader without a quorum refuses proposals beyond this many bytes, so that its memory stays
    bounded.
    """
    ready_bytes: int = 4 * 1024 * 1024
    """Entries applied in one turn of the event loop, which they hold for that time."""
    outbox_messages: int = 8192
    """Messages that wait for the disk. When the disk stalls, the oldest are dropped; one tick has far
    fewer.
    """
    pending_reads: int = 4096
    max_snapshot_bytes: int = 1024 * 1024 * 1024
    """The size of a snapshot; a million partitions take some tens of megabytes."""
    max_level: int = 0
    """The newest feature level that this process knows, sent to each leader. Only the state machine uses it:
    Raft's own messages and files have no levels.
    """
    trailing_entries: int = 10_000
    """Entries kept behind a snapshot, so that a follower that is a little late needs no snapshot."""

    def __post_init__(self) -> None:
        assert 0 < self.heartbeat_ticks < self.election_ticks
        assert self.heartbeat_ticks < self.gone_ticks
        assert self.max_entry_bytes + self.max_append_bytes < MESSAGE_BYTES
        assert self.chunk_bytes < MESSAGE_BYTES // 2
