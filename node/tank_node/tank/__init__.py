"""TANK's protocol: frames in, calls to the broker, answers out. No I/O.

"The old document" in this room is the oldest description of TANK's protocol: its clients (version 0) know one
broker, and no leaders.

- `session`: the protocol state of one connection
- `dispatch`: which handler takes which message; makes sessions
- `produce`, `produce_templates`, `forwarded_produce`, `acks`, `run_acks`: Produce (1, 5)
- `fetch`, `fetch_fast`, `fetch_templates`, `forwarded_fetch`: Consume (2)
- `idempotent`, `record_batches`: produce by a producer's id and sequence: bundles (66), record batches (79)
- `converted_produce`, `converted_chunks`, `converted_chunk`: both for topics of Kafka's format
- `ends`: the ends of partitions, and their first messages from a time on (67, 75)
- `topics`: the other messages of TANK's own clients, about topics and brokers (6 to 12)
- `metadata`: changes of the cluster's metadata (65, 69 to 71, 78)
- `groups`: groups and their positions (72 to 74, 80 to 84); `asking`: requests that others answer
- `stored`: stored batches for sessions of other brokers (86 to 89)
- `features`, `describe_topics`, `describe_broker`, `describe_cluster`, `describe_connections`: descriptions
  (64, 68, 76, 77, 85)
- `template_cache`: which learned requests are forgotten
- `end_waits`: requests that wait until a new leader knows the end of its partition
- `redirect`: whether a request is forwarded, or its client sent to the leader
- `errors`: TANK's error codes for a partition's refusals
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
