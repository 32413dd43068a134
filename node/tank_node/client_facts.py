"""What is known of a connected client: by its session, and by the server that has its connection."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tank_protos.error_codes import ConnectionProtocol

NO_VERSION: Final = -1
"""The version of a request whose protocol has none, or which is not kept."""
UNKNOWN_BYTES: Final = -1
"""Stands for a number of bytes that the system does not tell."""


@dataclass(slots=True, frozen=True)
class ClientFacts:
    """What a session knows of its client."""

    protocol: ConnectionProtocol
    client_id: str
    """The name that the client gives itself; empty: none so far."""
    software: str
    """The client's library; empty: it has not said so."""
    software_version: str
    requests: Mapping[str, int]
    """The kinds of requests that came, with the version in which each came last, or NO_VERSION."""


@dataclass(slots=True, frozen=True)
class ServedClient:
    """One connection of a client."""

    number: int
    """Rises from one connection to the next, so that pages of a list can go by it."""
    host: str
    port: int
    connected_ms: int
    received_bytes: int
    """As the system counts them, or UNKNOWN_BYTES."""
    sent_bytes: int
    """Those that the client has confirmed, likewise."""
    in_flight: int
    facts: ClientFacts
