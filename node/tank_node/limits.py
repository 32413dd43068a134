"""Every bound of the node's network side, in one place, each with its reason.

Whoever starts a node builds one `Limits` (configuration changes single fields) and gives it to the
server, which shares it with its sessions and the broker. Sizes are bytes, times are milliseconds.
"""

from dataclasses import dataclass

from tank_protos.bundle import MAX_MESSAGE_SET_BYTES

KIB = 1024
MIB = 1024 * KIB

TANK_FRAME_BYTES = 256 * MIB
"""A TANK broker drops a connection that announces more; no configuration goes beyond it."""

RENUMBERED_MESSAGES = 16_384
"""A dense bundle behind a gap in the numbers is decoded and written anew, in the event loop: so many messages
take some 80 ms there. A compressed one may have millions in a few KB."""

RENUMBERED_BYTES = 8 * MIB
"""The same, unpacked: it is held several times while it is written anew."""

COMPACTED_MESSAGES = 262_144
"""Of one batch, which compaction decodes as a whole: some 64 MiB. One with more stays as it is."""

UNCOMMITTED_WRITES = 1024
"""Of one partition, told apart until the high-water mark passes them: it may stand still for days."""


DAMAGED_NAMED = 50_000
"""Damaged replicas that a registration names, some 12 bytes each: a command has at most 1 MiB. With more of
them all replicas are said to be damaged, which is nearly true."""

BELIEF_MS = 1000
"""A leader epoch that a push told of is looked for in the view after so long: the view is behind its leader's
by the way of one message from the controllers, which a busy machine may hold up."""

FULL_BYTES = 64 * MIB
FULL_PART = 100
"""A volume with less free than this, and less than one part in so many, is full: some seconds of writing are
left, in which others begin to lead."""
ROOM_BYTES = 1024 * MIB
ROOM_PART = 10
"""A full one has room again with so much free, or one part in so many: a segment that retention deletes is
not enough."""


class LimitError(ValueError):
    """A limit that makes no sense, alone or beside another one; the message says what to do."""


@dataclass(slots=True, frozen=True)
class Limits:
    """What one node takes on. Raises `LimitError` when the values contradict each other."""

    frame_bytes: int = 64 * MIB
    """A frame's payload. Large enough for any sensible batch; one frame has to fit into memory as a whole."""

    bundle_bytes: int = 32 * MIB
    """One bundle. A consumer gets whole bundles, so every consumer has to be able to hold the largest one."""

    request_bytes: int = 2 * MIB
    """A frame that carries no bundles. Decoding makes objects many times the size of their bytes."""

    produce_entries: int = 255 * 255
    """Bundles in one request of ours: what TANK's own produce can name by its one-byte counts."""

    connections: int = 4096
    """Open client connections. Above it the oldest that never sent anything is closed, else the new one
    is refused."""

    files_kept_free: int = 256
    """Descriptors left for the log, the flusher and the HTTP port when the process may open few files."""

    in_flight: int = 4096
    """Unanswered requests of one connection; above it the connection is not read until some are answered."""

    learned_paths: int = 64
    """Partitions of which a connection knows what a produce request for them looks like, so that the next one
    need not be decoded, and as many for consume: a large topic's share of one broker. One of produce costs
    some 300 bytes, one of consume some 900."""

    waits_per_partition: int = 16_384
    """Long polls on one partition; above it they are answered at once, empty, because each append
    visits all of them."""

    wait_entries: int = 65_536
    """Partitions that the waiting requests of one connection may name; each costs some 300 bytes."""

    all_wait_entries: int = 400_000
    """The same of all connections together."""

    memory_bytes: int = 160 * MIB
    """Memory held for all connections; above it clients are not read, and the next large frames wait in line,
    one being let through at any time. What smaller frames hold comes to it: receive_bytes at most for each
    connection; and a frame of each other broker's, because brokers are always read."""

    unsent_bytes: int = 1 * MIB
    """Unsent answers of one connection, above which its next requests are not taken: small requests may have
    large answers. Chunks do not count: they are sent from the file."""

    receive_bytes: int = 256 * KIB
    """What one connection is read in one tick, so that a busy one does not make the others wait."""

    peer_receive_bytes: int = 512 * KIB
    """The same of another broker's connection: a leader's push is taken in one piece. A quarter of
    `arena_bytes` at most."""

    arena_bytes: int = 2 * MIB
    """The buffer that all connections of a tick are read into. The tick's batches are written when what is
    left of it might not hold three receives; so this bounds what is written at once. More bytes share the
    price of an append: bundles of 64 KiB in plain Python cost 1.5 x C with 1.5 MiB at once, 1.75 with 256
    KiB."""

    send_once_bytes: int = 4 * MIB
    """What one connection is sent in one go, so that a chunk of 64 MiB does not make the others wait."""

    socket_send_bytes: int = 0
    """The kernel's send buffer for each connection; 0: the system's own tuning."""

    answer_bytes: int = 128 * MIB
    """All chunks of one answer to a consume together: below TANK's limit of a frame. A client that asks for
    more gets the rest next time."""

    fetch_bytes: int = 64 * MIB
    """TANK's clamp of fetch_size and min_bytes."""

    max_wait_ms: int = 3_600_000
    """TANK's cap of a consumer's wait."""

    deaf_wait_ms: int = 1_000
    """The longest wait of an old client for what can't be read here now: it may be soon, and nothing would
    wake who waits for it. It asks again."""

    ack_timeout_ms: int = 8_000
    """TANK's default for a produce request that does not say how long it waits for replicas."""

    unused_connection_ms: int = 16_000
    """A connection that never sent anything is closed after this, as TANK does."""

    stalled_frame_ms: int = 30_000
    """Half a frame and no byte more for this long: the connection is closed."""

    slowest_bytes_per_s: int = 64 * KIB
    """A frame may take stalled_frame_ms plus its size at this rate; whoever sends a byte a second is
    closed in the end."""

    stalled_send_ms: int = 300_000
    """A client that takes nothing of what is being sent for this long is closed: it pins a segment's file."""

    heartbeat_ms: int = 30_000
    """How often a client that has asked for features, or a broker that forwards, gets a ping. Also how long a
    connection is silent before TCP asks whether its other end is there (`keepalive_probes`)."""

    keepalive_probes: int = 3
    """So many questions of TCP's, a third of `heartbeat_ms` apart, go without an answer before a connection
    is closed: a machine that is gone holds a client's waits for a minute at most."""

    housekeeping_ms: int = 500
    """How often deadlines of connections are looked at. None of them is a client's own deadline."""

    maintenance_ms: int = 1_000
    """How often partitions get a turn of retention, compaction and checkpoint."""

    maintenance_slice_ms: int = 5
    """What one turn of maintenance may keep the loop."""

    scrub_ms: int = 30
    """How often some stored bytes are checked."""

    scrub_bytes: int = 4 * KIB
    """Stored bytes that each step of the scrub checks, or one batch: some 11 GB a day. Where batches are as
    small as one message of 100 bytes it takes less than half a millisecond of everybody's time."""

    scrub_turn_bytes: int = MIB
    """Checked of one partition before the next one's turn: neighbours on a disk are read together."""

    scrub_passes: int = 100
    """Partitions without anything to check that a step of the scrub passes over."""

    replicated_sync_ms: int = 5_000
    """How often a topic with flush=replicated that doesn't say is fsynced."""

    fsync_hangs_ms: int = 10_000
    """An fsync that was asked for so long ago and has not ended is told of: also a slow disk under load ends
    one within a second or two."""

    replica_lag_ms: int = 3_000
    """replica.lag.time.max.ms: a follower whose oldest unmatched stretch is older leaves the in-sync set."""

    push_window_bytes: int = 4 * MIB
    """Pushed to one follower and not answered: what a fast network holds for some milliseconds."""

    short_pushes: int = 16
    """So many pushes to one follower may be unanswered while they are short: what comes meanwhile leaves
    together, with the next answer. With 2, 10,000 messages a second came no cheaper, and later."""

    catch_up_from_bytes: int = 8 * MIB
    """A replica that is no member and so far behind catches up on a connection of its own."""

    catch_up_bytes_per_s: int = 64 * MIB
    """What that connection may take for each follower: live pushes share the network and the disk with it."""

    forwarded_requests: int = 65_536
    """Requests that one broker has forwarded to another and that are not answered; above it those of clients
    are answered as if nobody led. Long polls are most of them."""

    forwarded_bytes: int = 16 * MIB
    """The same in bytes; above it clients that forward more to that broker are not read. What nobody waits
    for any more counts, too, until it is answered: it may still lie here unsent."""

    forwarded_most_bytes: int = 64 * MIB
    """Of all brokers together, a part of `memory_bytes`; above it nothing is forwarded. Each client may be a
    request over the former bound."""

    forwarded_fetch_bytes: int = 1 * MIB
    """What one forwarded consume brings, shared by its partitions: it goes through the memory of two
    brokers. And what a single partition of it brings at most, but for its first bundle."""

    forwarded_share_bytes: int = 64 * KIB
    """What each of its partitions may bring, however many there are: none is to wait for others."""

    forwarded_answer_bytes: int = 4 * MIB
    """What all its partitions bring together, but for the last one's first bundle: 255 of them, with a large
    bundle each, would be more than memory should hold, many times over where clients don't read."""

    forwarded_fetch_cost_bytes: int = 128 * KIB
    """What a forwarded consume counts as among the requests of a client that others have not answered; those
    may be `request_bytes` together. So 16 are under way: their answers go through this process's memory, and
    lie there if the client doesn't read. Less would keep one that waits for much from being heard."""

    forwarded_wait_ms: int = 30_000
    """The longest wait of one forwarded consume: it outlives a client that goes. Then it is forwarded
    again."""

    forwarded_answer_ms: int = 8_000
    """What a leader may take for a forwarded consume beyond its wait. Answers to many clients stand in one
    line; one that comes too late is thrown away, and asked for again behind the others."""

    forwarded_pause_ms: int = 100
    """How long a consume that finds nothing at several brokers, or no leader, waits before it asks again; it
    doubles while nothing comes."""

    forwarded_pause_most_ms: int = 1_000
    """The longest: an idle client is some work for each of those brokers every time."""

    forwarded_idle_ms: int = 60_000
    """A connection for forwarding that nobody uses is closed."""

    forwarded_silence_ms: int = 65_000
    """One on which nothing comes, not even two heartbeats, is made anew."""

    peer_heartbeat_ms: int = 500
    """A connection to a follower that carries nothing says so as often."""

    peer_silence_ms: int = 6_000
    """A push that is not answered for so long: the connection is made anew. Longer than the lag that takes a
    member out: a slow disk must not cost connections too. And one for forwarding on which an answer is so
    late, and nothing came."""

    redial_ms: int = 100
    """The first pause before a follower is dialed again; it doubles."""

    redial_most_ms: int = 2_000
    """The longest."""

    replication_beat_ms: int = 50
    """How often marks that no batch has carried are told: within 100 ms, as the design says."""

    frozen_ms: int = 1_000
    """A process that did nothing for so long first hears those whom it would find silent or lagging."""

    in_sync_check_ms: int = 200
    """How often it is looked at who is to join or leave an in-sync set."""

    propose_again_ms: int = 2_000
    """A proposal whose outcome nobody has seen is sent again."""

    changes_per_proposal: int = 1_000
    """In one command: some 60 KB."""

    accepts_per_tick: int = 128
    """New connections taken in one tick."""

    tick_events: int = 512
    """Ready sockets handled in one tick."""

    def __post_init__(self) -> None:
        if not 0 < self.frame_bytes <= TANK_FRAME_BYTES:
            raise LimitError(f"frame_bytes must be between 1 and {TANK_FRAME_BYTES}, not {self.frame_bytes}")
        if self.bundle_bytes >= self.frame_bytes:
            raise LimitError("bundle_bytes must be less than frame_bytes, which holds it")
        if self.memory_bytes < self.frame_bytes + 2 * self.receive_bytes:
            raise LimitError(
                "memory_bytes must hold at least one frame: frame_bytes plus twice receive_bytes"
            )
        if self.arena_bytes < 4 * self.receive_bytes:
            raise LimitError("arena_bytes must be at least four times receive_bytes")
        if min(self.connections, self.in_flight, self.waits_per_partition, self.receive_bytes) < 1:
            raise LimitError(
                "connections, in_flight, waits_per_partition and receive_bytes must be at least 1"
            )

    def published(self) -> list[tuple[str, int]]:
        """What a client should know, by name with its unit, for the features message."""
        return [
            ("frame_bytes", self.frame_bytes),
            ("bundle_bytes", self.bundle_bytes),
            ("decompressed_bytes", MAX_MESSAGE_SET_BYTES),
            ("request_bytes", self.request_bytes),
            ("fetch_bytes", self.fetch_bytes),
            ("max_wait_ms", self.max_wait_ms),
            ("in_flight", self.in_flight),
        ]
