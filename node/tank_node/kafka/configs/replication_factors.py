"""How many replicas a topic gets whose creator does not say."""

from typing import Final

from tank_node.cluster.view import ClusterView

_DEFAULT: Final = 3


def default_replication_factor(view: ClusterView) -> int:
    """The replication factor of topics that are created without one, as the controllers choose it."""
    brokers = sum(not broker.draining for broker in view.brokers.values())
    return min(brokers, _DEFAULT)
