"""Groups of Iggy's clients, whose coordinator shares out the partitions: pure.

- `iggy_group`: the machine of a group; `iggy_members`: its members, and the brokers that speak for them;
  `holdings`: who has which partition, and who gets it next
- `shares`: who is to have which partition
- `consumer_ids`: the names under which positions of Iggy's consumers and groups are kept
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
