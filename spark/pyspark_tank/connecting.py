"""Connections to the cluster that a query's options name, and what is said when nothing answers there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark_tank.errors import ServersError, SinkError

if TYPE_CHECKING:
    from tank_client.model import Features
    from tank_client.sync import Client

# So long the driver's first question waits for a broker: wrong servers are noticed soon. A query that runs
# waits longer, as the client does, for a broker that was there before.
FIRST_ANSWER_MS = 10_000


# Servers that were found fit for the sink. Spark makes a stream's writer twice for each batch: only the first
# is to ask, and to wait no longer than this for an answer.
_take_writes: set[str] = set()


def connect(servers: str) -> Client:
    """The driver's client, when a broker has answered. Raises ServersError after 10 s."""
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
    """For the driver of a write, before any task runs. Raises ServersError after 10 s, and SinkError where
    a repeat of what a task wrote would be stored a second time."""
    from tank_client.wire.operations import has

    if servers in _take_writes:
        return
    server = _first_answer(servers)
    if not (has(server, "init_producer") and has(server, "idempotent_produce")):
        kind = {0: "a broker of the old TANK document", 400: "the C++ broker"}.get(server.version, "too old")
        raise SinkError(
            f"the broker at {servers} is {kind} (version {server.version}) and can't tell a repeat: what "
            "a task wrote would be stored a second time when Spark runs the task again. Name brokers of Tank "
            "Cluster by .option('servers', 'HOST:PORT,HOST:PORT'); to write here nevertheless, use "
            "tank_client in foreachBatch, where each message may come more than once"
        )
    _take_writes.add(servers)


def reserve_producer_ids(servers: str) -> range:
    """Producer ids for a batch write that has no name, one for each task that it may have; for its driver.
    An older broker has none to reserve, and a cluster at an older feature level gives one. Raises
    ServersError, and what the client raises.
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
