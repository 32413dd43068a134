"""Groups of the consumer protocol (KIP-848): the coordinator assigns the partitions. Members of the classic
protocol may be in them, and a group may change from one protocol to the other.

- `consumer_group`: the machine; `consumer_heartbeats`, `classic_members`: what members of both protocols ask
  of it
- `consumer_sharing`, `consumer_members`, `consumer_targets`: who has which partitions, and who is to have
  them; `consumer_outbox`: answers wait until what they say is stored
- `group_migration`: a group comes from the classic protocol, and goes back; `group_machines`: the machine of
  a group, by its records
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
