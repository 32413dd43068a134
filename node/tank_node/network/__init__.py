"""The node's sockets: accepting, receiving, sending, dialling, and the loop that serves them in ticks."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
