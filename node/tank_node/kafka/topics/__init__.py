"""Requests of administration clients about topics and their partitions.

- `create_topics`, `create_partitions`, `delete_topics`; `assignments`: brokers that clients choose
- `delete_records`: raising the first offset
- `elect_leaders`, `alter_partition_reassignments`: `replica_changes` proposes them to the controllers
- `describe_log_dirs`, `describe_producers`, `list_partition_reassignments`: what a broker has, and what moves
"""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
