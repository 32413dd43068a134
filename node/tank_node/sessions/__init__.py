"""Conversations: one module a protocol. Frames in, calls to the broker, answers out; no I/O."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
