"""The node's line to the controllers: the stream, what goes over it, and what waits for an answer."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
