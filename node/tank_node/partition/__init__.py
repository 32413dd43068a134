"""One partition: appends, the high-water mark, its waiters, and its role as leader or follower.

- `partition`, `reads`: the partition
- `leader`, `follower`, `roles`, `follower_reads`: what it does in each role
- `beliefs`: leader epochs that were heard before the view had them
- `acks`, `waiters`: who waits for it
- `numbering`: sequence numbers
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
