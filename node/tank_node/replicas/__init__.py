"""What this broker is to each of its partitions, leader or follower, and the duties of both."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
