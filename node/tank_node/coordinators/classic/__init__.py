"""Groups of the classic protocol: one member, the leader, assigns the partitions in each generation.

- `classic_group`: the machine; `joins`, `replacements`, `rebalance`, `generation`, `answers`: from one
  generation to the next
- `members`, `member`, `subscription`: who is in the group, and what each one reads; `group_image`: how that
  is stored
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
