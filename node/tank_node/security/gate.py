"""The gate that every request of a client passes before its handler. It allows all requests so far."""

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Final

from tank_protos.wire.errors import WireError


class Resource(Enum):
    """The kind of resource that a request is about."""

    CLUSTER = "cluster"
    TOPIC = "topic"
    GROUP = "group"
    PRODUCER = "producer"


class Operation(Enum):
    """What a request does with the resource."""

    READ = "read"
    WRITE = "write"
    CREATE = "create"
    DELETE = "delete"
    ALTER = "alter"
    DESCRIBE = "describe"
    CLUSTER_ACTION = "cluster_action"
    """Requests between brokers."""
    CONNECT = "connect"
    """Requests that every connection may begin with: pings, and the question for this broker's features."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The client that a connection belongs to."""

    name: str


ANONYMOUS: Final = Principal("anonymous")
"""A client without a proven identity: so far, every client."""


class NotAllowed(WireError):
    """The gate doesn't allow this client's request."""

    reason: ClassVar[str] = "not_allowed"


class Gate:
    """Decides on requests, for all sessions of a node."""

    def __init__(self) -> None:
        self.version = 0
        """Rises with each change of permissions. A session keeps decisions only for the version in which it
        asked for them."""

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        """Whether this client may do this operation on resources of this kind."""
        return True
