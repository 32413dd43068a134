"""Consumer groups: who reads which partitions, and how far a group has read. Knows no client's protocol.

- `group_error`, `group_requests`: what is asked of a group's coordinator, and what it answers
- `group_state`: the states of a group
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
