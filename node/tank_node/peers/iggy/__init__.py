"""Groups and positions of Iggy's clients, between brokers.

- `iggy_memberships`: a broker speaks for the members that are connected to it; `iggy_group_here`: those of
  one group; `iggy_membership`: one of them, and what it polls next
- `iggy_offsets`: the way of a stored offset to the partition's leader; `iggy_positions`: what a leader
  remembers and writes through; `position_cache`: its memory
- `iggy_service`: the coordinator's end; `epoch_fence`: leaders that were deposed
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
