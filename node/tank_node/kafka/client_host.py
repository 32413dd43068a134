"""The address of a client, as Kafka's brokers write it."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaSession

_MAPPED: Final = "::ffff:"
"""Before the IPv4 address of a client that came to a socket for both kinds."""


def client_host(session: "KafkaSession") -> str:
    """The client's address as Kafka's tools show it: behind a slash."""
    return f"/{session.came_from().removeprefix(_MAPPED)}"
