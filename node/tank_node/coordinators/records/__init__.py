"""Groups as the records of the internal topic, in Kafka's own formats where it has some.

- `group_records`: records of offsets and of groups of the classic protocol; `consumer_records`,
  `consumer_member`: of groups of the consumer protocol, and what is stored of a member
- `iggy_records`: of groups of Iggy's clients, in a format of ours
- `kept_offset`: a committed offset as it is held in memory; `record_reader`: reads the records of a batch
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
