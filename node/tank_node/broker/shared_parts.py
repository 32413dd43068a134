"""What the sessions of a broker share: each part belongs to the room that makes it; the broker keeps them."""

from collections.abc import Callable
from typing import TypeVar

from tank_node.broker.broker import Broker

Part = TypeVar("Part")


def shared(broker: Broker, kind: type[Part], make: Callable[[Broker], Part]) -> Part:
    """Returns the one object of this class that the broker's sessions share; makes it at the first call."""
    part = broker.shared.get(kind)
    if part is None:
        part = broker.shared[kind] = make(broker)
    assert isinstance(part, kind)
    return part
