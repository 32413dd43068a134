"""The rules of replication, for the leader and for the follower, without I/O:

- `role`: leader, follower or neither, as the partition sees it
- `in_sync`: which followers are in sync, and up to which number messages are committed
- `stream`, `progress`: what a leader sends to one follower next, and how far the follower is
- `push_frame`: the bytes of a push
- `append_check`: whether a follower takes a stretch of a push
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
