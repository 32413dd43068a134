"""The controller: the cluster's metadata as a pure state machine, and the journal that keeps it."""
