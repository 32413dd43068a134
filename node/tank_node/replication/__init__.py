"""How the replicas of a partition come to hold the same: the leader's side, and the follower's."""

from tank_node.kernel import compiled_path

__path__[:0] = compiled_path(__name__)
