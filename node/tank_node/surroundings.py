"""What a node knows of the processes around it, for clients that ask."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _no_controllers() -> Sequence[str]:
    return ()


def _no_addresses(host: str) -> Sequence[str]:
    return ()


@dataclass(slots=True, frozen=True)
class Surroundings:
    """Of a broker of its own: nothing. A cluster's broker is given its own by the composition root."""

    controllers: Callable[[], Sequence[str]] = _no_controllers
    """host:port of each."""
    addresses: Callable[[str], Sequence[str]] = _no_addresses
    """A name's last addresses, without a lookup; empty: they are not known."""
