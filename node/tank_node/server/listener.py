"""Where clients of one protocol come in."""

from collections.abc import Callable
from dataclasses import dataclass

from tank_node.session import Session


@dataclass(frozen=True, slots=True)
class Listener:
    """An address that a server listens on, and the protocol that is spoken there."""

    address: tuple[str, int]
    """Host and port; port 0: one that the system chooses."""
    open_session: Callable[[], Session]
    """The conversation of a new connection."""
