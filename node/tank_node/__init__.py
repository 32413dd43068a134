"""A broker node: sockets, sessions, partitions and their logs."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
