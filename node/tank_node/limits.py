"""The bounds of a node, each with its reason. Sizes are bytes, times are milliseconds.

The composition root builds one `Limits`, in which the configuration changes single fields, for the server,
the sessions and the broker.
"""

from dataclasses import dataclass

from tank_protos.bundle import MAX_MESSAGE_SET_BYTES

KIB = 1024
MIB = 1024 * KIB

TANK_FRAME_BYTES = 256 * MIB
"""The most bytes of a frame: a TANK broker closes a connection that announces more. No configuration exceeds
it."""

RENUMBERED_MESSAGES = 16_384
"""The most messages of a dense bundle behind a gap in the numbers, which the event loop decodes and writes
anew, for some 80 ms. A compressed bundle of a few KB may have millions."""

RENUMBERED_BYTES = 8 * MIB
"""The most bytes of such a bundle when decompressed: memory holds it several times while it is written
anew."""

TRANSCODED_RECORDS = 262_144
"""The most records of a Kafka client's request that become bundles: decoded into objects, where a record has
a part that TANK's format can't hold, they take some 64 MiB. A batch of Kafka's default size holds 150,000 of
the smallest."""

COMPACTED_MESSAGES = 262_144
"""The most messages of a batch that compaction decodes, into some 64 MiB of memory. A larger batch stays
unchanged."""

WALKED_BATCHES = 64
WALKED_BYTES = 8 * MIB
WALKED_MESSAGES = 262_144
"""How much of a log a search for a time reads behind the place that the index names; it decodes one batch at
least, unless that alone has too many messages. The index is right about most batches, but not about those
whose header names a later time than their messages."""

WALKED_BACK_BATCHES = 8
"""How many batches before the place that the index names such a search begins in TANK's bundles: the index
has the time of a bundle's first message alone, and bundles of several producers may overlap in time."""

SEARCHED_MESSAGES = 16_384
SEARCHED_PARTITIONS = 64
"""How many messages the searches of one request for times decode, and how many partitions they look into,
before others get their turn: some 20 ms."""

LOOKED_UP_PARTITIONS = 4_096
"""How many ends of partitions one request of a Kafka client looks up before others get their turn: some 20
ms."""

DESCRIBED_PRODUCERS = 100_000
"""The most producers in one answer to a Kafka client, as many as one partition remembers: some 4 MB. A
request could name any number of partitions."""

FETCHED_OFFSETS = 100_000
"""The most committed offsets in one answer to a Kafka client that asks for all of its groups: some 15 MB of
objects, and the event loop is held up for half a second. A client that names partitions gets more."""

FETCHED_NOTE_BYTES = 32 * MIB
"""The most bytes of the clients' notes beside committed offsets in one answer to a Kafka client: it may name
one partition, with a note of 4 KiB, as often as it likes."""

DESCRIBED_MEMBER_BYTES = 32 * MIB
"""The most bytes of subscriptions and assignments in one answer about groups, if it has several: a request
could name all groups of a broker."""

DESCRIBED_CONNECTIONS = 500
"""The most connections in one answer: asking the system about each takes some 5 us, so that the event loop is
held up for a few milliseconds."""

DESCRIBED_PARTITIONS = 1_000_000
"""The most partitions of members, and members, in one answer about groups of the consumer protocol, if it has
several: some 8 MB, and the event loop is held up for half a second."""

STORED_BATCHES = 16_384
"""The most batches in one answer to a read of stored batches: each takes an object at two brokers."""

SIZED_PARTITIONS = 1_000
"""The most partitions of one request for their sizes, which the leader's event loop measures for a
millisecond or two."""

CACHED_SIZES = 100_000
"""The most partitions whose sizes are remembered, some 20 MB; beyond it all are measured anew."""

SNAPSHOT_BYTES = 16 * MIB
"""The longest file for diagnosis that an Iggy client gets. It is packed and sent from memory."""

SNAPSHOT_LOG_LINES = 1_000
"""The newest lines of the broker's own log that are kept for it, at a broker that serves Iggy's clients."""

SNAPSHOT_LOG_CHARS = 2_000
"""What is kept of each; a traceback has that many."""

UNCOMMITTED_WRITES = 1024
"""The most writes of one partition whose sizes are remembered until the high-water mark passes them, which
may take days; further ones count as one."""

DAMAGED_NAMED = 50_000
"""The most damaged replicas that a registration names, because a command to the controllers has at most 1
MiB. A broker with more of them says that all its replicas are damaged."""

BELIEF_MS = 1000
"""How long a leader epoch that was heard in a push may be missing in the view before the controllers are
asked. The view is normally late by one message from the controllers."""

FULL_BYTES = 64 * MIB
FULL_PART = 100
"""A volume is full when less than FULL_BYTES and less than one FULL_PART-th of it are free: enough for some
seconds of writing, in which other brokers begin to lead."""
ROOM_BYTES = 1024 * MIB
ROOM_PART = 10
"""A full volume has room again when ROOM_BYTES, or one ROOM_PART-th of it, are free: more than retention
frees by one segment."""


class LimitError(ValueError):
    """A limit that is out of range, or contradicts another; the message says what to do."""


@dataclass(slots=True, frozen=True)
class Limits:
    """The configurable bounds of one node. Raises LimitError when they contradict each other."""

    frame_bytes: int = 64 * MIB
    """The most bytes of a frame's payload. A frame must fit into memory as a whole."""

    bundle_bytes: int = 32 * MIB
    """The most bytes of a bundle. Consumers get whole bundles, so each must be able to hold the largest
    one."""

    request_bytes: int = 2 * MIB
    """The most bytes of a frame without bundles. Decoded, it takes many times as much memory."""

    produce_entries: int = 255 * 255
    """The most bundles in one idempotent produce: as many as TANK's own produce can name by its one-byte
    counts."""

    connections: int = 4096
    """The most open client connections. Above it the oldest one that never sent anything is closed; if there
    is none, the new one is refused."""

    files_kept_free: int = 256
    """Descriptors kept free of clients for logs, the flusher and the HTTP port, when the process may open few
    files."""

    in_flight: int = 4096
    """The most unanswered requests of one connection. Above it the connection is not read until some are
    answered."""

    learned_paths: int = 64
    """The most partitions of which a connection remembers the form of a produce request, and as many of a
    consume request, so that the next one need not be decoded; and as many lengths of a Fetch of Kafka's.
    One takes some 300 bytes for produce, 900 for consume, 1,300 for a request of Kafka's protocol."""

    waits_per_partition: int = 16_384
    """The most long polls on one partition, because each append visits all of them. Further ones are answered
    at once, without messages."""

    wait_entries: int = 65_536
    """The most partitions that the waiting requests of one connection may name; each takes some 300 bytes."""

    all_wait_entries: int = 400_000
    """The most partitions that the waiting requests of all connections may name."""

    memory_bytes: int = 160 * MIB
    """The memory for incomplete frames and unsent answers of all connections. Above it clients are not read,
    and large frames wait, but for one at a time. Up to receive_bytes for each connection, and a frame for
    each other broker, may come on top."""

    unsent_bytes: int = 1 * MIB
    """The unsent bytes of one connection above which no more of its requests are taken: small requests may
    have large answers. Chunks, which are sent from files, don't count."""

    receive_bytes: int = 256 * KIB
    """The most bytes read from one client's connection in one tick, so that the others don't wait."""

    peer_receive_bytes: int = 512 * KIB
    """The most bytes read from another broker's connection in one tick, enough for a whole push. A quarter of
    `arena_bytes` at most."""

    arena_bytes: int = 2 * MIB
    """The size of the buffer into which all connections of a tick are read. The tick's batches are written
    when less than three receives fit into the rest, so this bounds one write. More batches share the cost of
    a write: 64 KiB bundles in plain Python took 1.5 times C's time with 1.5 MiB at once, 1.75 times with 256
    KiB."""

    reused_frame_bytes: int = 1280 * KIB
    """The size of a buffer for a large frame, which is kept for the next one. Kafka's clients send requests
    of 1 MiB under load. A new mapping costs a page fault for every 4 KiB: receiving 1 MB took 900 µs with
    one, 200 µs without."""

    reused_buffers: int = 6
    """The most such buffers that are kept while no frame needs them."""

    send_once_bytes: int = 4 * MIB
    """The most bytes sent to one connection in one go, so that the others don't wait for a chunk of 64
    MiB."""

    socket_send_bytes: int = 0
    """The size of the kernel's send buffer for each connection; 0: the system chooses."""

    answer_bytes: int = 128 * MIB
    """The most bytes of all chunks in one answer to a consume: below TANK's limit for a frame. The client
    gets the rest by its next request."""

    fetch_bytes: int = 64 * MIB
    """The upper limit of a consume's fetch_size and min_bytes, as in TANK."""

    kafka_fetch_bytes: int = 55 * MIB
    """The upper limit of max_bytes in a Fetch of a Kafka client, and of its min_bytes; Kafka's
    fetch.max.bytes has the same default."""

    converted_answer_bytes: int = 4 * MIB
    """The most bytes of an answer that are converted from another batch format, but for its first batch:
    they lie in memory until the client has read them."""

    tick_unpacked_bytes: int = 64 * MIB
    """What requests of Kafka clients may unpack in one tick before the others wait for the next one: as much
    as one request alone may, some 0.1 s. Without it a thousand clients with a few KiB each, that unpack to as
    much, would hold the loop for minutes."""

    converted_kept_bytes: int = 4 * MIB
    """The converted batches that are kept for the next consumer of the same partition."""

    fetch_sessions: int = 1_000
    """The most fetch sessions of Kafka clients, as in Kafka. A client without one names all its partitions in
    each request."""

    fetch_session_entries: int = 100_000
    """The most partitions in all fetch sessions together; each takes some 300 bytes."""

    fetch_session_unused_ms: int = 120_000
    """A fetch session that was not used for this long may be ended for another one."""

    max_wait_ms: int = 3_600_000
    """The upper limit of a consumer's wait, as in TANK."""

    deaf_wait_ms: int = 1_000
    """The longest wait of an old client on a partition that can't be read here now. Nothing would wake it
    when the partition becomes readable, so it has to ask again."""

    iggy_request_bytes: int = 10 * MIB
    """The most bytes of a request of an Iggy client that sends no messages, as in Iggy."""

    described_partitions: int = 2_000
    """The most partitions in one answer to Kafka's DescribeTopicPartitions, as in Kafka: the event loop is
    held up for some milliseconds."""

    metadata_slice: int = 2_000
    """The partitions and topics of an answer to Kafka's Metadata that are described in one go, some 10 ms of
    the event loop; a cluster may have a million."""

    kept_metadata_bytes: int = 4 * MIB
    """The most bytes of answers to Kafka's Metadata that are kept for clients that ask alike: ten with 10,000
    partitions."""

    auto_created_topics: int = 256
    """The most topics that one metadata request of a Kafka client creates, each a change of the cluster's
    metadata. The client asks again for the others."""

    changed_topics: int = 4096
    """The most topics that one administration request of a Kafka client changes: a quarter of the requests
    that may wait for the controllers. Each takes 33 µs here, and a change of the cluster's metadata."""

    described_resources: int = 10_000
    """The most topics and brokers whose settings one answer to a Kafka client has. Each takes 17 to 33 µs,
    and 1 to 4.4 KB of the answer."""

    auto_create_wait_ms: int = 1_000
    """How long such a request waits for the topics and their leaders. Some clients give up when the answer
    lacks them, and a change takes some milliseconds."""

    group_slice_ms: int = 5
    """How long a coordinator reads its groups, or looks through them, in one go: the event loop is held up so
    long."""

    group_batch_bytes: int = 1 * MIB
    """The records above which the changes of groups in one tick are several batches: Kafka's readers take 1
    MiB, and a compaction keeps a batch in memory."""

    group_change_bytes: int = 24 * MIB
    """The most bytes of one change of a group: all members, with what they say and what they get, are in one
    record. Members of Kafka Streams say some MB."""

    group_sweep_ms: int = 600_000
    """How often a coordinator looks for unused committed offsets, as Kafka's
    offsets.retention.check.interval.ms."""

    cut_off_ms: int = 2_000
    """How long a coordinator of groups that hears neither the controllers nor enough of its followers goes on
    answering: as long as the controllers wait before they have another broker lead."""

    group_append_ms: int = 5_000
    """How long a change of a group waits for replicas, as Kafka's offsets.commit.timeout.ms."""

    group_forward_ms: int = 8_000
    """How long another broker that coordinates a group may take for a request: longer than `group_append_ms`,
    so that its own answer comes first."""

    iggy_members: int = 10_000
    """The most memberships in Iggy's groups of one broker's connections: 20 bytes a second each."""
    iggy_positions: int = 100_000
    """The most stored offsets of Iggy's consumers that a broker remembers as a leader: some 40 MB."""
    iggy_heartbeat_ms: int = 18_000
    """After how long without a ping an Iggy client's connection is closed, if its broker wants pings: clients
    ping every 5 s."""
    iggy_commit_ms: int = 100
    """How long an offset that an Iggy client stores as it polls waits to be written with others."""

    group_topic_wait_ms: int = 2_000
    """How long a request for a group's coordinator waits for the internal topic and its leader, when it is
    first used. Clients ask again."""

    lost_leader_wait_ms: int = 500
    """How long, after the connections with a broker have broken, an answer to Kafka's Metadata that would
    name it as a leader waits for another leader. Controllers that run name one after some 250 ms. A client
    that is told of a dead leader may believe it for seconds; but the connection's next requests wait, too."""

    lost_leader_notice_ms: int = 10
    """How long any answer to Kafka's Metadata waits at first, in a cluster. The sockets of a process that
    dies close one after the other, those of its clients before those of other brokers, and on a busy machine
    some milliseconds pass between the two: a client's question may come before this broker knows."""

    lost_broker_listed_ms: int = 4_000
    """How long, after the connections with a broker have broken, Kafka's Metadata lists it although it is
    fenced by then. librdkafka 2.16 gives up a broker that is not listed any more, and with it, for a second,
    the partitions that it has just moved from that broker to the new leader. It must not be listed for long:
    franz-go 1.18 asks for a group's coordinator anew only when the one that it knows is not listed."""

    ack_timeout_ms: int = 8_000
    """How long a produce request waits for replicas when it has no timeout of its own, as in TANK."""

    unused_connection_ms: int = 16_000
    """A connection that never sent anything is closed after this, as in TANK."""

    kafka_unused_connection_ms: int = 600_000
    """The same for a Kafka client, as in Kafka: clients connect ahead of their first request, and log an
    error when a broker closes such a connection early."""

    stalled_frame_ms: int = 30_000
    """A connection with an incomplete frame and no new byte for this long is closed."""

    slowest_bytes_per_s: int = 64 * KIB
    """A frame must arrive within stalled_frame_ms plus its size at this rate, or its connection is closed."""

    stalled_send_ms: int = 300_000
    """A client that takes no byte of its answers for this long is closed, because they pin a segment's
    file."""

    heartbeat_ms: int = 30_000
    """How often a client that has asked for features, or a broker that forwards, gets a ping. Also the
    silence after which TCP's keepalive begins to probe a connection."""

    keepalive_probes: int = 3
    """The number of TCP's keepalive probes, a third of `heartbeat_ms` apart, that go unanswered before a
    connection is closed: a machine that is gone holds waits for a minute at most."""

    housekeeping_ms: int = 500
    """How often the deadlines of connections, and those of unacknowledged produce requests, are checked."""

    maintenance_ms: int = 1_000
    """How often partitions get a turn of retention, compaction and checkpoint."""

    reopen_ms: int = 30_000
    """How often partitions that could not be opened are tried again. Each try logs why it failed, and may
    read much of the log."""

    maintenance_slice_ms: int = 5
    """How long one turn of maintenance may block the event loop."""

    scrub_ms: int = 50
    """How often the scrub makes a step: with the beats of replication, because each wake-up costs more."""

    scrub_bytes: int = 6 * KIB
    """The stored bytes that each step of the scrub checks, at least one batch: some 11 GB a day. With batches
    of one message of 100 bytes a step blocks the event loop for less than a millisecond."""

    scrub_turn_bytes: int = MIB
    """The bytes that the scrub checks of one partition before the next one's turn: reading neighbouring bytes
    of a disk is cheap."""

    scrub_passes: int = 100
    """The most partitions with nothing to check that one step of the scrub skips."""

    replicated_sync_ms: int = 5_000
    """How often a topic with flush=replicated is fsynced when it has no setting for that."""

    fsync_hangs_ms: int = 10_000
    """An fsync under way for longer than this is reported as a problem; a slow disk under load takes a second
    or two."""

    replica_lag_ms: int = 3_000
    """A follower whose oldest unmatched append is older than this leaves the in-sync set (Kafka's
    replica.lag.time.max.ms)."""

    push_window_bytes: int = 4 * MIB
    """The most unanswered bytes pushed to one follower: what a fast network holds for some milliseconds."""

    short_pushes: int = 16
    """The most unanswered pushes to one follower while they are short; further batches wait and are pushed
    together. With 2, at 10,000 messages a second, pushes came later and cost no less."""

    catch_up_from_bytes: int = 8 * MIB
    """A replica out of sync that is further behind than this catches up on a separate connection."""

    catch_up_bytes_per_s: int = 64 * MIB
    """The rate of a catch-up connection: it shares the network and the disk with live pushes."""

    forwarded_requests: int = 65_536
    """The most unanswered requests that one broker has forwarded to another, most of them long polls. Above
    it clients get the answer that no broker leads."""

    forwarded_bytes: int = 16 * MIB
    """The unanswered bytes forwarded to one broker above which clients that forward more there are not read.
    Requests of clients that are gone count until they are answered: they may be unsent."""

    forwarded_most_bytes: int = 64 * MIB
    """The most unanswered bytes forwarded to all brokers, a part of `memory_bytes`; above it nothing is
    forwarded. Each client may exceed `forwarded_bytes` by one request, so that bound alone would not do."""

    forwarded_fetch_bytes: int = 1 * MIB
    """The bytes that one forwarded consume asks for, shared by its partitions, because they pass through the
    memory of two brokers. Also the most that one of its partitions returns, but for a longer first bundle."""

    forwarded_share_bytes: int = 64 * KIB
    """The smallest share of `forwarded_fetch_bytes` for one partition of a forwarded consume, however many
    there are, so that none waits for the others."""

    forwarded_answer_bytes: int = 4 * MIB
    """The most that all partitions of a forwarded consume return together, but for the last one's first
    bundle: up to 255 large bundles would take too much memory when clients don't read."""

    forwarded_fetch_cost_bytes: int = 128 * KIB
    """The bytes that a forwarded consume counts for among a client's unanswered forwarded requests, which may
    be `request_bytes` together: so 16 of them may be under way, because their answers may lie in memory. With
    a smaller bound a client with many waiting consumes could send nothing else."""

    forwarded_wait_ms: int = 30_000
    """The longest wait of one forwarded consume, after which it is forwarded again: it would outlive a client
    that is gone."""

    forwarded_answer_ms: int = 8_000
    """How long a leader may take for a forwarded consume beyond its wait, because answers to many clients
    share one connection. A later answer is dropped, and the consume is forwarded again."""

    forwarded_pause_ms: int = 100
    """The first pause of a consume that found no messages at several brokers, or no leader, before it asks
    again. It doubles while none come."""

    forwarded_pause_most_ms: int = 1_000
    """The longest such pause: each attempt of an idle client costs work at all those brokers."""

    iggy_poll_bytes: int = 4 * MIB
    """The most bytes of the batches that one read of stored batches brings, but for its first batch. They are
    made into messages of another protocol, and pass through the memory of two brokers."""

    stored_leader_wait_ms: int = 5_000
    """How long a request for stored batches waits for a leader that is unknown or moving: longer than an
    election takes, and well below the 30 s that Iggy's clients wait for an answer."""

    stored_pause_ms: int = 50
    """How long such a request waits for news of the leader before it asks the same one again, which may know
    the end of its log by then, or may have heard of its lead."""

    stored_held_bytes: int = 64 * MIB
    """The bytes of appends that wait for their leader, a part of `memory_bytes`, above which further ones are
    refused as not stored."""

    stored_sizes_ms: int = 1_000
    """How old the sizes of partitions may be that a client is told: clients that watch ask again and again,
    and each answer would cost requests to all leaders."""

    stored_sizes_wait_ms: int = 2_000
    """How long a question for sizes waits for a leader; it is answered without those that are late."""

    forwarded_idle_ms: int = 60_000
    """A connection for forwarding without requests for this long is closed."""

    forwarded_silence_ms: int = 65_000
    """A connection for forwarding on which nothing came for this long, more than two heartbeats, is made
    anew."""

    peer_heartbeat_ms: int = 500
    """How often a frame without partitions is sent on an idle connection to a follower."""

    peer_silence_ms: int = 6_000
    """A connection with a push unanswered for this long is made anew. It is longer than the lag that ends
    membership, so that a slow disk doesn't cost connections too. It holds for a forwarded request's answer as
    well, when nothing else came."""

    redial_ms: int = 100
    """The first pause before a follower is dialled again; it doubles."""

    redial_most_ms: int = 2_000
    """The longest such pause."""

    replication_beat_ms: int = 50
    """How often high-water marks that no batch has carried are sent: followers have them within 100 ms."""

    frozen_ms: int = 1_000
    """A process that stood still for this long reads its sockets before it calls others silent or lagging."""

    in_sync_check_ms: int = 200
    """How often a leader checks which followers should join or leave the in-sync set."""

    propose_again_ms: int = 2_000
    """A proposal without a known outcome is sent again after this."""

    changes_per_proposal: int = 1_000
    """The most changes in one command to the controllers: some 60 KB."""

    accepts_per_tick: int = 128
    """The most connections accepted in one tick."""

    tick_events: int = 512
    """The most ready sockets handled in one tick."""

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
        """The limits that clients should know, by name, for the features message."""
        return [
            ("frame_bytes", self.frame_bytes),
            ("bundle_bytes", self.bundle_bytes),
            ("decompressed_bytes", MAX_MESSAGE_SET_BYTES),
            ("request_bytes", self.request_bytes),
            ("fetch_bytes", self.fetch_bytes),
            ("max_wait_ms", self.max_wait_ms),
            ("in_flight", self.in_flight),
        ]
