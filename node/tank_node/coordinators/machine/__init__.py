"""What all machines of groups have in common, whatever protocol their members speak. A machine is pure:
requests and times in, actions out.

- `group_machine`: what the shell needs of a machine; `group_actions`: what a machine wants done
- `group_error`, `group_requests`, `consumer_requests`, `iggy_requests`: what is asked of a group's
  coordinator, and what it answers; `member_refused`: a refusal, raised
- `group_state`, `group_memory`: what is shown and counted of a group; `committed_offset`: how far it has read
  one partition; `named_members`: members by their names; `stored_record`: a record's key and value;
  `group_hash`: which partition of the internal topic a group belongs to
- `group_settings`, `group_limits`: what an operator chooses; what bounds it all
- `topics`, `topic_pattern`: what there is to read, and subscriptions by pattern; `assignors`: who is to read
  which partitions
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
