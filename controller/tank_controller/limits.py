"""What the cluster's state may grow to. The bounds are the state machine's own: the same everywhere."""

from tank_protos.wire.names import MAX_PARTITIONS_OF_A_TOPIC

MAX_TOPICS = 100_000
MAX_PARTITIONS = 1_000_000
"""Of all topics together: what the state is built to hold in memory."""
MAX_PARTITIONS_PER_TOPIC = MAX_PARTITIONS_OF_A_TOPIC
MAX_REPLICATION_FACTOR = 64
DEFAULT_REPLICATION_FACTOR = 3
"""Where nobody says: so many, or as many as there are brokers."""
MAX_BROKER_ID = 0xFFFE
"""A u16 on the wire, where 0xffff stands for nobody; 0 is nobody in here."""

MAX_BROKERS = 10_000
MAX_REPLICAS_PER_BROKER = 100_000
"""On the average: fencing a broker changes all that it is in sync with in one command, some 5 µs each."""
MAX_PARTITIONS_PER_COMMAND = 1_000
"""Of elections, moves and in-sync changes: a command stays a matter of milliseconds."""

SNAPSHOT_PART = 500
"""Partitions, or positions, that are written into a snapshot in one piece: a few milliseconds' work. Part of
its format: the same state is the same bytes, and a topic's parts have so many."""

VIEW_PART = 2_000
"""Partitions that the leader writes down in one piece for a broker that lacks the whole state: some 20 ms'
work at each tick."""

MAX_NAMED_PRODUCERS = 100_000
PRODUCER_NAME_KEPT_MS = 7 * 86_400_000
"""A full table forgets names unused for so long: brokers' memory of what a producer wrote is as long."""
MAX_ENDED_IDS_PER_NAME = 64
"""How many earlier generations of a name stay refused."""

MAX_GROUPS = 10_000
GROUP_KEPT_MS = 30 * 86_400_000
"""A full table forgets the group that committed nothing for so long: Kafka's brokers do so after 7 days, and
always."""
MAX_POSITIONS = 1_000_000
"""Of all groups together."""
MAX_POSITIONS_PER_COMMAND = 10_000
MAX_POSITIONS_IN_ORDER = 100_000
"""Of which the leader remembers who set them last: 31 MB were measured where each is a command of its own,
139 with the longest names. Of the others the newest counts, for all."""
MAX_POSITION_METADATA_BYTES = 4096
MAX_METADATA_BYTES = 64 * 1024 * 1024
"""Of all positions' notes together."""

MAX_WAITING_PROPOSALS = 16_384
"""Commands that wait for their outcome on one controller; their bytes have a bound of their own
(raft.settings). More are refused: whoever asks gets OVERLOADED, and asks again later."""
MAX_COMMAND_BYTES = 1024 * 1024
"""A log entry stays well below what a gRPC message may hold."""

SESSION_TIMEOUT_MS = 2_000
"""How long a broker may be silent before it is fenced: longer than a busy machine's worst pause. Where one is
fenced that was only slow, writes pause for an election, and nothing is lost."""
BROKEN_STREAM_GRACE_MS = 200
"""How long a broker whose stream broke may take to connect again: a crashed one can't. One that lives tries
at once, and needs some 20 ms."""
ARRIVALS_IN_A_SESSION = 4
"""A leader that was elected just now waits such a part of a session after the last broker that came, for the
next: 500 ms. Brokers that live leave a silent leader at the same time, wait where they get to, and come when
one is elected, within some 50 ms."""
MAX_FENCES_PER_TICK = 16
"""Each may change many thousand partitions."""

CLOCK_SKEW_MAX_MS = 10_000
"""How far a broker's clock may be from those of most (clock.skew.max): thousands of times what time servers
leave, and ten leap seconds, so that what is beyond it is a fault. Less than retention and searches by time go
by."""
CLOCKS_JUDGED_EVERY_MS = 1_000

LEADERSHIP_SETTLES_MS = 3_000
"""How long a broker must have been unfenced before leadership goes back to it: one that crashes at once again
would make its partitions change leaders twice for nothing."""
GONE_AFTER_MS = 600_000
"""A broker that was fenced for so long is not waited for: moves to it are taken back. Longer than a machine
takes to start."""
DUTIES_EVERY_MS = 500
"""How often leaders are restored, moves begun and brokers balanced."""
MAX_MOVING = 100
"""Partitions that are being moved at a time, in the whole cluster; what an operator began counts, too."""
MAX_MOVING_TO_BROKER = 10
MAX_PROBES_PER_TICK = 2_000
"""Partitions that are looked at for something to balance: a part of a millisecond's work each tick."""
BALANCED_FOR_MS = 60_000
"""When nothing could be made better, nothing is tried for so long, unless brokers came or went."""
MAX_STATES_READ = 4
"""Clients that read the whole state at a time: each keeps an image, and that what changes meanwhile, for as
long as its client takes: up to 232 MB at a million partitions."""
ASK_ENDS_AGAIN_MS = 2_000
CASE_IN_VAIN_MS = 10_000
"""A lossy election that is not decided by then makes room for others: a bounded number is under way."""
WAIT_FOR_ENDS_MS = 1_000
"""For the ends of replicas that needn't say it before a lossy election; those that must are waited for."""

MAX_HTTP_CONNECTIONS = 64
"""To a controller's HTTP port: more than probes, scrapers and MAX_API_REQUESTS need, so few that they don't
take the descriptors of Raft's log and of the brokers' streams. Above it the oldest go: most likely
somebody's who sends nothing. A burst may pass it by the listener's backlog."""
HTTP_KEEPALIVE_S = 15.0
"""How long such a connection may be idle."""
MAX_API_BODY_BYTES = 64 * 1024
"""Of a request to the HTTP API: a topic with every setting there is has a few KiB."""
MAX_API_REQUESTS = 32
"""That one controller works on at a time; more are refused with 503. Each may hold a page of a list."""
API_PAGE = 100
MAX_API_PAGE = 1_000
"""Items of a list in one answer of the HTTP API: partitions, some 400 bytes each."""
API_PAGE_PARTITIONS = 10_000
"""A page of topics ends behind so many of their partitions, which are all looked at: a fifth of a second's
work. One topic may have more."""
API_BODY_S = 10.0
"""How long a client may take for its body."""
API_ANSWER_S = 30.0
"""How long an answer of the HTTP API may take: an election's seconds, and reading."""
API_LEADER_S = 5.0
"""How long the HTTP API waits for a controller that leads: an election takes a second or two."""
API_DESCRIBE_S = 2.0
"""How long another controller may take to say how it is."""
MIN_API_TOKEN_CHARS = 16
MAX_API_TOKEN_BYTES = 4096
MAX_CONTROLLERS = 5
"""More make every change slower, and hardly anything surer."""
