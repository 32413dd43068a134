"""The topics and partitions of this node, and their shared tick.

- `broker`: topics, partitions, the tick
- `wait_list`: deadlines of all that waits
- `maintenance`, `scrubber`: retention, compaction, checks of the disk
- `replica_removal`: replicas that moved to other brokers
- `problems`: partitions that can't be used as they should
- `forwarding`: requests that another broker is asked to answer
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
