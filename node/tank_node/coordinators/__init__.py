"""Consumer groups: who reads which partitions, and how far a group has read. Knows no client's protocol.

- `group_error`, `group_requests`, `consumer_requests`: what is asked of a group's coordinator, and what it
  answers
- `group_settings`, `group_limits`: what an operator chooses; what bounds it all
- `group_machine`: what the shell needs of a group's machine, whatever its members' protocol;
  `group_machines`, `group_migration`: how one is made, and becomes one of the other protocol;
  `group_actions`: what it wants done
- `classic_group`: the machine of a group whose members share work by a leader of their own: requests and
  times in, answers and images out; `joins`, `replacements`, `rebalance`, `generation`, `answers`: from one
  generation to the next; `members`, `member`, `named_members`, `group_state`, `group_image`, `subscription`:
  what it knows, and how that is stored
- `consumer_group`: the machine of a group whose members the coordinator gives their partitions (KIP-848);
  `consumer_heartbeats`, `classic_members`, `member_refused`: what members of both protocols ask of it;
  `consumer_sharing`, `consumer_members`, `consumer_member`, `consumer_targets`, `assignors`: who has what,
  and is to have what; `consumer_outbox`, `consumer_records`: how that is stored, and answered when it is;
  `topics`, `topic_pattern`, `view_topics`: what there is to read
- `groups`: what protocols ask of a broker's coordinator; `offsets_topic`, `group_hash`: which broker that is
- `group_partition`, `group`: the groups of one led partition of the internal topic, in memory;
  `waiting_member`, `group_timer`, `partition_watch`: who waits there, until when, and what is heard of the
  partition
- `group_log`, `group_load`, `group_images`, `group_records`, `stored_record`, `record_reader`: how they are
  written into its log, and read from there
- `committed_offset`, `committed_offsets`, `offset_changes`: how far a group has read; `offset_sweep`,
  `offset_expiry`, `deletion`: when that is forgotten
- `group_memory`, `group_room`: what all this takes, and whether there is room for more; `long_work`,
  `group_listing`: what is done in slices; `bugs`: how mistakes of ours are reported
- `commit_order`: commits that come late by way of other brokers; `positions_move`: positions that the
  controllers kept; `loading_wait`: requests that wait while groups are read
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
