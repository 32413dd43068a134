"""Connections to the cluster that a query's options name, and the errors when no broker answers there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark_tank.errors import ServersError, SinkError

if TYPE_CHECKING:
    from tank_client.model import Features
    from tank_client.sync import Client

# The longest wait of the driver's first request, so that wrong servers are noticed soon. A running query
# waits longer, as the client does.
FIRST_ANSWER_MS = 10_000


# Servers that the sink can use. Spark makes a stream's writer twice for each batch: only the first one asks
# the servers, and waits no longer than this.
_take_writes: set[str] = set()


def connect(servers: str) -> Client:
    """Returns the driver's client once a broker has answered. Raises ServersError after 10 s."""
    from tank_client.sync import Client

    _first_answer(servers)
    return Client(servers)


def _first_answer(servers: str) -> Features:
    from tank_client.settings import ClientSettings
    from tank_client.sync import Client

    first = Client(servers, ClientSettings(request_timeout_ms=FIRST_ANSWER_MS))
    try:
        with options_named():
            return first.admin.features()
    finally:
        first.close()


def require_idempotence(servers: str) -> None:
    """Checks, in a write's driver before any task runs, that the brokers recognize repeats. Raises
    ServersError after 10 s, and SinkError when a repeated task would store its messages a second time.
    """
    from tank_client.wire.operations import has

    if servers in _take_writes:
        return
    server = _first_answer(servers)
    if not (has(server, "init_producer") and has(server, "idempotent_produce")):
        kind = {0: "a broker of the old TANK document", 400: "the C++ broker"}.get(server.version, "too old")
        raise SinkError(
            f"the broker at {servers} is {kind} (version {server.version}) and can't recognize a repeat: "
            "the messages of a task would be stored a second time when Spark runs it again. Name brokers of "
            "Tank Cluster by .option('servers', 'HOST:PORT,HOST:PORT'); to write here nevertheless, use "
            "tank_client in foreachBatch, where each message may come more than once"
        )
    _take_writes.add(servers)


def reserve_producer_ids(servers: str) -> range:
    """Returns producer ids for an unnamed batch write, one for each task that it may have. Called in the
    driver. Raises ServersError, and the client's errors.
    """
    from tank_client.sync import Client
    from tank_client.wire.operations import has
    from tank_protos.wire.names import MAX_BLOCK_IDS

    with options_named(), Client(servers) as client:
        if not has(client.admin.features(), "reserve_producer_ids"):
            return range(0)
        return client.admin.reserve_producer_ids(MAX_BLOCK_IDS)


@contextmanager
def options_named() -> Iterator[None]:
    """Turns the client's error that no broker answers into a ServersError, which names Spark's options."""
    from tank_client.errors import ServerUnreachable

    try:
        yield
    except ServerUnreachable as error:
        raise ServersError(
            f"no broker answers at {error.servers} ({error.reason}): name the cluster's Service, or some of "
            "its brokers, by .option('servers', 'HOST:PORT,HOST:PORT'), and see that the driver and the "
            "executors reach them"
        ) from error
