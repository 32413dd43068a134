"""Consumer groups: who reads which partitions, and how far a group has read. Knows no client's protocol.

The machines of groups are pure, and have rooms: `classic`, `consumer` and `iggy` by the protocol of a group's
members, `machine` for what all have in common; `offsets`: how far groups have read; `records`: how all that
is stored. Beside the rooms lies the shell: it keeps the groups of each led partition of the internal topic.
`view`: the view of the cluster, as machines see it.

- `groups`: what protocols ask of a broker's coordinator; `groups_at_start`: whether it is needed at once;
  `offsets_topic`: which broker coordinates a group
- `group_partition`, `group`: the groups of one led partition, in memory; `waiting_member`, `group_timer`,
  `partition_watch`: who waits there, until when, and what is heard of the partition
- `group_log`, `group_load`, `group_images`: how groups are written into its log, and read from there
- `offset_changes`, `offset_sweep`: how offsets are committed, deleted and forgotten
- `group_room`: whether there is room for more; `long_work`, `group_listing`: what is done in slices; `bugs`:
  how mistakes of ours are reported
- `positions_move`: positions that the controllers kept; `loading_wait`: requests that wait while groups are
  read
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
