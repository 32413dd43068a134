"""What an operator sees of a node: logs, health, metrics, and the small HTTP server for them."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
