"""The bounds of the core, in one place, each with its reason. Pure."""

from dataclasses import dataclass

MESSAGE_BYTES = 4 * 1024 * 1024
"""gRPC's default bound of one message."""


@dataclass(slots=True, frozen=True)
class Settings:
    """Times are in ticks: how long one lasts is the driver's."""

    election_ticks: int = 10
    """Without a leader for one to two times as long, a voter asks for an election."""
    heartbeat_ticks: int = 2
    gone_ticks: int = 6
    """Where the stream from the leader broke, and it is not heard again within so long, the first voter asks
    for an election: longer than a leader that lives takes to open it again."""
    gone_apart_ticks: int = 3
    """The other voters, one after the other, so much later each: two at once would share the votes."""
    max_entry_bytes: int = 1024 * 1024 + 64 * 1024
    """One command (tank_controller.limits.MAX_COMMAND_BYTES) and room around it."""
    max_append_bytes: int = 1024 * 1024
    """One message's entries; a single larger entry goes alone. So a message has at most 2.1 MiB."""
    chunk_bytes: int = 1024 * 1024
    in_flight_appends: int = 2
    """To one follower, unanswered: one is on its disk, the next on the way. What is proposed meanwhile
    gathers for the one after it: messages of one entry each would cost far more than their entries."""
    in_flight_bytes: int = 8 * 1024 * 1024
    promote_within_entries: int = 64
    """A learner that lacks more becomes no voter yet: it could hold up commits. In entries: under load one
    append gathers many, so a learner that keeps up lacks more entries than there are appends on the way."""
    uncommitted_bytes: int = 64 * 1024 * 1024
    """A leader without a quorum refuses proposals beyond this, instead of growing."""
    ready_bytes: int = 4 * 1024 * 1024
    """Applied at one stroke: the event loop is not held for longer than that takes."""
    outbox_messages: int = 8192
    """Those that wait for the disk: while it stalls, the oldest are lost. In one tick there are far fewer."""
    pending_reads: int = 4096
    max_snapshot_bytes: int = 1024 * 1024 * 1024
    """A million partitions take some tens of megabytes."""
    max_level: int = 0
    """The newest feature level that this process knows, told to each leader. It is the state machine's
    business: Raft's own messages and files know no levels."""
    trailing_entries: int = 10_000
    """Kept behind a snapshot, so that a follower that is a little late needs no snapshot."""

    def __post_init__(self) -> None:
        assert 0 < self.heartbeat_ticks < self.election_ticks
        assert self.heartbeat_ticks < self.gone_ticks
        assert self.max_entry_bytes + self.max_append_bytes < MESSAGE_BYTES
        assert self.chunk_bytes < MESSAGE_BYTES // 2
