"""How the replicas of a partition come to hold the same: the leader's side, and the follower's.

Pure, and of one partition each:

- `role`: leader, follower or neither, as the partition sees it
- `in_sync`: which replicas are in sync, and what is committed
- `stream`, `progress`: what a leader sends to one follower, and how far that one is
- `push_frame`: the bytes of a push
- `append_check`: what a follower makes of a push before it touches its log
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
