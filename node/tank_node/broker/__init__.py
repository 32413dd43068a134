"""The topics and partitions of this node, and their shared tick.

- `broker`: topics, partitions, the tick
- `shared_parts`: what the sessions of each protocol share
- `deadlines`: deadlines of requests that wait for a high-water mark
- `topic_ids`: the 16 bytes by which Kafka's clients, and records of groups, name a topic
- `topic_waits`: requests that wait until topics are created or deleted, or have other leaders
- `lost_brokers`: brokers whose connections have just broken
- `unpacking`: how much the requests of one tick may unpack together, and those that wait for another tick
- `maintenance`, `scrubber`: retention, compaction, fsyncs and checks of stored batches, at intervals
- `replica_removal`: deleting replicas that moved to other brokers
- `removed_partitions`: replicas of partitions and topics that the cluster has removed
- `replica_ends`: where logs end, for lossy elections
- `problems`: sentences on partitions that fail, for the health page and clients
- `forwarding`: requests that are passed on to another broker
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
