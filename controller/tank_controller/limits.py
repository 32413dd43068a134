"""The bounds of the cluster's state, which are part of the state machine and the same on every controller;
and the bounds of a controller's work.
"""

from tank_protos.wire.names import MAX_PARTITIONS_OF_A_TOPIC

MAX_TOPICS = 100_000
MAX_PARTITIONS = 1_000_000
"""Partitions of all topics together: as many as the state is built to hold in memory."""
MAX_PARTITIONS_PER_TOPIC = MAX_PARTITIONS_OF_A_TOPIC
MAX_REPLICATION_FACTOR = 64
DEFAULT_REPLICATION_FACTOR = 3
"""The default replication factor: this, or the number of brokers where there are fewer."""
MAX_BROKER_ID = 0xFFFE
"""A broker id is a u16 on the wire, where 0xffff means no broker; in the state, 0 means no broker."""

MAX_BROKERS = 10_000
MAX_REPLICAS_PER_BROKER = 100_000
"""Replicas of one broker, on the average: fencing a broker changes all its partitions in one command, some 5
µs each.
"""
MAX_PARTITIONS_PER_COMMAND = 1_000
"""Partitions in one command of elections, moves and in-sync changes: it takes some milliseconds."""

SNAPSHOT_PART = 500
"""Partitions, or positions, that are written into a snapshot in one piece: a few milliseconds' work. Part of
the snapshot's format: the same state gives the same bytes, and large topics are cut into parts of this size.
"""

VIEW_PART = 2_000
"""Partitions that the leader writes down in one piece for a broker that needs the whole state: some 20 ms of
work at each tick.
"""

MAX_NAMED_PRODUCERS = 100_000
PRODUCER_NAME_KEPT_MS = 7 * 86_400_000
"""A full table forgets names that were unused for so long; brokers remember a producer's last bundles for the
same time.
"""
MAX_ENDED_IDS_PER_NAME = 64
"""How many earlier generations of a producer's name are remembered, and refused."""

MAX_GROUPS = 10_000
GROUP_KEPT_MS = 30 * 86_400_000
"""A full table forgets a group that committed nothing for so long. Kafka forgets every group after 7 days."""
MAX_POSITIONS = 1_000_000
"""Committed positions of all groups together."""
MAX_POSITIONS_PER_COMMAND = 10_000
MAX_POSITIONS_IN_ORDER = 100_000
"""For how many positions the leader remembers the stream that set them last: 31 MB where each is a command of
its own, 139 MB with the longest names. For the others, the leader remembers one entry: the newest.
"""
MAX_POSITION_METADATA_BYTES = 4096
MAX_METADATA_BYTES = 64 * 1024 * 1024
"""The metadata of all groups' positions together."""

MAX_STREAMS = 10_000
"""Streams of Iggy's clients; the lowest free number is looked for one by one."""
MAX_IGGY_GROUPS_OF_A_TOPIC = 1_000
MAX_IGGY_GROUPS = 100_000
"""Groups of Iggy's clients in all topics together, some 200 bytes each."""
MAX_IGGY_PARTITIONS = 1_000
"""Iggy's own bound for a topic; a topic of another protocol may have more when it is exposed."""
MAX_IGGY_NAME_BYTES = 255
"""The wire has one byte for a name's length."""
MAX_IGGY_OPTIONS = 64
MAX_IGGY_OPTION_BYTES = 1_024
"""An option's key and value; Iggy's are numbers and words."""
MAX_ALL_IGGY_OPTION_BYTES = 32 * 1024 * 1024
"""The options of all topics together, which every broker holds, too: all that Iggy has, for each of
MAX_TOPICS.
"""
MAX_PURGED_IDS = 64
"""How many earlier ids of a purged topic are remembered, for brokers that were away. The folders of older ids
are set aside there instead of deleted.
"""
MAX_USERS = 10_000
"""Users of Iggy's clients; the lowest free number is looked for one by one."""
MAX_TOKENS_PER_USER = 100
MAX_TOKENS = 100_000
"""Tokens of all users together, some 200 bytes each, at every broker, too."""
MAX_PERMISSIONS_BYTES = 32 * 1024 * 1024
"""The documents of all users' permissions together; of one user they have at most 64 KiB."""
GOING_PARTITIONS_PER_TICK = MAX_PARTITIONS_PER_COMMAND
"""Partitions of streams that are being deleted in steps, at each of the leader's ticks."""

MAX_WAITING_PROPOSALS = 16_384
"""Commands that wait for their outcome on one controller; their bytes have a bound of their own
(raft.settings). More are refused with OVERLOADED: the client asks again later."""
MAX_COMMAND_BYTES = 1024 * 1024
"""The greatest command: its log entry is well below the greatest gRPC message."""

SESSION_TIMEOUT_MS = 2_000
"""How long a broker may be silent before it is fenced: longer than a busy machine's worst pause. If a broker
was only slow, writes pause for an election, and nothing is lost.
"""
BROKEN_STREAM_GRACE_MS = 200
"""How long a broker whose stream broke may take to connect again: a crashed broker can't; a live one tries at
once, and needs some 20 ms.
"""
ARRIVALS_IN_A_SESSION = 4
"""A new leader waits this part of a session timeout (500 ms) after the last broker that connected for the
next one. Live brokers leave a silent leader at the same time, wait at another controller, and connect within
some 50 ms after an election.
"""
MAX_FENCES_PER_TICK = 16
"""Brokers that one tick fences or unfences; each may change many thousand partitions."""

CLOCK_SKEW_MAX_MS = 10_000
"""How far a broker's clock may be from those of most (clock.skew.max): thousands of times the usual error of
a time server, and ten leap seconds, so that a greater difference is a fault; and less than what matters for
retention and searches by time.
"""
CLOCKS_JUDGED_EVERY_MS = 1_000

LEADERSHIP_SETTLES_MS = 3_000
"""How long a broker must have been unfenced before leadership goes back to it: a broker that crashes again at
once would make its partitions change leaders twice.
"""
GONE_AFTER_MS = 600_000
"""Moves to a broker that was fenced for so long are cancelled. Longer than a machine takes to start."""
LEADER_TASKS_EVERY_MS = 500
"""How often leaders are restored, moves begun and brokers balanced."""
MAX_MOVING = 100
"""Partitions that are being moved at a time, in the whole cluster; moves that an operator began count,
too.
"""
MAX_MOVING_TO_BROKER = 10
MAX_PROBES_PER_TICK = 2_000
"""Partitions that the balancer looks at in one tick: a part of a millisecond's work."""
BALANCED_FOR_MS = 60_000
"""When the balancer found nothing to improve, it waits so long before it looks again, unless brokers came or
went.
"""
MAX_STATES_READ = 4
"""Clients that may read the whole state at the same time: each holds an image, and what changes meanwhile,
until its client has read it: up to 232 MB with a million partitions.
"""
ASK_ENDS_AGAIN_MS = 2_000
CASE_IN_VAIN_MS = 10_000
"""A lossy election that is not decided after so long makes room for others, because a bounded number is under
way.
"""
WAIT_FOR_ENDS_MS = 1_000
"""How long a lossy election waits for the ends of replicas that were only behind; for eligible ones it waits
without limit.
"""

MAX_HTTP_CONNECTIONS = 64
"""Connections to a controller's HTTP port: more than probes, scrapers and MAX_API_REQUESTS need, and so few
that file descriptors remain for Raft's log and the brokers' streams. Beyond it the oldest connections are
closed, which are most likely idle. A burst may exceed it by the listener's backlog.
"""
HTTP_KEEPALIVE_S = 15.0
"""How long an HTTP connection may be idle."""
MAX_API_BODY_BYTES = 64 * 1024
"""The size of a request's body at the HTTP API; a topic with all settings takes a few KiB."""
MAX_API_REQUESTS = 32
"""HTTP API requests that one controller handles at a time; further ones are refused with 503. Each may hold a
page of a list.
"""
API_PAGE = 100
MAX_API_PAGE = 1_000
"""Items of a list in one answer of the HTTP API: partitions, some 400 bytes each."""
API_PAGE_PARTITIONS = 10_000
"""A page of the list of topics ends when its topics have so many partitions, which are all counted: a fifth
of a second's work. A single topic may have more.
"""
API_BODY_S = 10.0
"""How long a client of the HTTP API may take to send its body."""
API_ANSWER_S = 30.0
"""How long an answer of the HTTP API may take: some seconds for an election, and the time for reading."""
API_LEADER_S = 5.0
"""How long the HTTP API waits for a controller that leads: an election takes a second or two."""
API_DESCRIBE_S = 2.0
"""How long the HTTP API waits for another controller's description of itself."""
MAX_CONTROLLERS = 5
"""The most controllers of a cluster: more would make every change slower, with little gain in
availability.
"""
