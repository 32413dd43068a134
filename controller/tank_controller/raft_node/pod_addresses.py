"""Addresses of controllers that are pods of one StatefulSet, derived from their ordinals. Pure."""

import re
from collections.abc import Iterator, Mapping

from tank_controller.limits import MAX_CONTROLLERS


class PodAddresses(Mapping[int, str]):
    """host:port by ordinal: of the controllers that are named, and of any other pod of the same StatefulSet.

    Iterates over the named controllers and this one.
    """

    def __init__(self, named: Mapping[int, str], own: int) -> None:
        """Raises ValueError when the addresses are not those of one StatefulSet's pods."""
        made = {_parts(ordinal, address) for ordinal, address in named.items()}
        if len(made) != 1 or ("", "") in made:
            raise ValueError(
                "the addresses are not those of one StatefulSet's pods, such as name-0.service:9090"
            )
        ((self._before, self._after),) = made
        self._known = sorted({*named, own})

    def __getitem__(self, ordinal: int) -> str:
        """Raises KeyError for an ordinal that no pod can have."""
        if not 0 <= ordinal < MAX_CONTROLLERS and ordinal not in self._known:
            raise KeyError(ordinal)
        return f"{self._before}{ordinal}{self._after}"

    def __iter__(self) -> Iterator[int]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)


def _parts(ordinal: int, address: str) -> tuple[str, str]:
    match = re.fullmatch(r"([^.:]*-)(\d+)([.:].*)", address)
    return (match[1], match[3]) if match and int(match[2]) == ordinal else ("", "")
