"""Connections to the cluster that a query's options name, and what is said when nothing answers there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark_tank.errors import ServersError

if TYPE_CHECKING:
    from tank_client.sync import Client

# So long the driver's first question waits for a broker: wrong servers are noticed soon. A query that runs
# waits longer, as the client does, for a broker that was there before.
FIRST_ANSWER_MS = 10_000


def connect(servers: str) -> Client:
    """The driver's client, when a broker has answered. Raises ServersError after 10 s."""
    from tank_client.settings import ClientSettings
    from tank_client.sync import Client

    first = Client(servers, ClientSettings(request_timeout_ms=FIRST_ANSWER_MS))
    try:
        with options_named():
            first.admin.features()
    finally:
        first.close()
    return Client(servers)


@contextmanager
def options_named() -> Iterator[None]:
    """The client's error that no broker answers, in words of Spark's options: raises ServersError for it."""
    from tank_client.errors import ServerUnreachable

    try:
        yield
    except ServerUnreachable as error:
        raise ServersError(
            f"no broker answers at {error.servers} ({error.reason}): name the cluster's Service, or some of "
            "its brokers, by .option('servers', 'HOST:PORT,HOST:PORT'), and see that the driver and the "
            "executors reach them"
        ) from error
