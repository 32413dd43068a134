"""How far groups have read.

- `committed_offsets`: the offsets of a group; `commit_order`: commits that come late by way of other brokers
- `offset_expiry`, `deletion`: when offsets are forgotten, and which may be deleted
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
