"""What the broker that leads a partition does with stored batches.

- `appending`: batches appended
- `reading`: batches read, and `read_wait`, until there are enough
- `measuring`: the ends and the size of a partition
- `control`: `flushing` to the disk, and `deletion` of segments
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
