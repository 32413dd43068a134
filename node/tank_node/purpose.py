"""The purposes of connections between brokers."""

from enum import IntEnum


class Purpose(IntEnum):
    """The purpose of a connection, which the broker that connects names in its ReplicaId message (4)."""

    LIVE = 0
    """A leader's pushes of partitions in which the follower keeps up."""
    CATCH_UP = 1
    """A leader's pushes of partitions in which the follower has much to copy."""
    REQUESTS = 2
    """Clients' requests, forwarded to the broker that leads."""
