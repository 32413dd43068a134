"""Telling a session what became of its request."""

from collections.abc import Callable
from typing import TypeVar

from tank_node.broker.broker import Broker
from tank_node.session import Session
from tank_protos.wire.errors import WireError

R = TypeVar("R")

_UNREADABLE = "unreadable_result"


def tell(broker: Broker, sender: Session, done: Callable[[R], None], result: R) -> None:
    """Calls `done`, unless `sender` was closed. When it can't read the result, the sender's connection ends,
    whose request would have no answer, and not the connection to the leader, which others share."""
    if sender.closed:
        return
    try:
        done(result)
    except WireError as error:
        broker.refusals.note(_UNREADABLE, str(error), broker.tick.monotonic_ms)
        sender.hang_up(_UNREADABLE)
