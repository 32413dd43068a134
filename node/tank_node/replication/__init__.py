"""How the replicas of a partition come to hold the same: the leader's side, and the follower's."""
