"""How many Iggy clients a broker has, by the era of Iggy's protocol that each speaks."""

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tank_client.sync import Client

_SOFTWARE: Final = "iggy "
"""The broker says the era as the client's software: `iggy B3`."""
UNKNOWN: Final = "unknown"
"""Of connections that have not shown their era yet."""


def iggy_eras(client: "Client") -> dict[str, int]:
    """The broker's connections of Iggy clients, by era; empty: there are none. Raises FeatureMissing."""
    from tank_client.model import ClientProtocol

    found: Counter[str] = Counter()
    after: int | None = 0
    while after is not None:
        page = client.admin.describe_connections(after)
        found.update(
            each.software.removeprefix(_SOFTWARE) or UNKNOWN
            for each in page.connections
            if each.protocol is ClientProtocol.IGGY
        )
        after = page.next_after
    return dict(sorted(found.items()))


def eras_text(eras: dict[str, int]) -> str:
    """For people: `5 of Iggy clients: 3 B3, 2 V11`; empty: there are none."""
    if not eras:
        return ""
    return f"{sum(eras.values()):,} of Iggy clients: " + ", ".join(f"{n:,} {era}" for era, n in eras.items())
