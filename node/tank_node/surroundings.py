"""The addresses of other processes that a node can tell to its clients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _no_controllers() -> Sequence[str]:
    return ()


def _no_addresses(host: str) -> Sequence[str]:
    return ()


@dataclass(slots=True, frozen=True)
class Surroundings:
    """The addresses that a broker knows. By default none, for a broker without a cluster; the composition
    root gives a cluster's broker the real ones."""

    controllers: Callable[[], Sequence[str]] = _no_controllers
    """Returns host:port of each controller."""
    addresses: Callable[[str], Sequence[str]] = _no_addresses
    """Returns a name's last known addresses, without a look-up; empty when none are known."""
