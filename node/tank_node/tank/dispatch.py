"""The handler of each of TANK's messages. Makes sessions that call these handlers."""

from collections.abc import Callable
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.metrics import OK
from tank_node.peers import inbound
from tank_node.security.gate import Gate, Operation, Resource
from tank_node.tank import (
    describe_broker,
    describe_cluster,
    describe_connections,
    describe_topics,
    ends,
    features,
    fetch,
    forwarded_fetch,
    idempotent,
    metadata,
    produce,
    record_batches,
    topics,
)
from tank_node.tank.fetch_fast import fetch_again
from tank_node.tank.session import Api, TankSession
from tank_protos.wire.errors import WireError

_OPEN: Final = Gate()


def open_session(broker: Broker, gate: Gate | None = None, *, is_outside: bool = False) -> TankSession:
    """Makes the session of a connection with a client of TANK's protocol. gate: without one all is allowed.
    is_outside: whether the client connected at the address for clients outside the network."""
    return TankSession(broker, APIS, fetch_again, gate or _OPEN, is_outside=is_outside)


def _consume(session: TankSession, payload: memoryview) -> None:
    """Consumes, also from other brokers when this one forwards requests."""
    if session.broker.forwarding.is_on:
        forwarded_fetch.consume(session, payload)
    else:
        fetch.consume(session, payload)


def _ping(session: TankSession, payload: memoryview) -> None:
    """Accepts a ping, which has no answer."""
    if len(payload):
        raise WireError("a ping has no payload")
    session.metrics.requests[3, OK] += 1


def _open_peer(session: TankSession, payload: memoryview) -> None:
    """Makes this connection another broker's."""
    inbound.open_peer(session, session.broker, payload)


def _of_groups(name: str) -> Callable[[TankSession, memoryview], None]:
    """Returns the handler of this name in `groups`, which is imported at the first request: most brokers have
    no groups, and what coordinates them takes 4 MB."""

    def handle(session: TankSession, payload: memoryview) -> None:
        from tank_node.tank import groups

        handler: Callable[[TankSession, memoryview], None] = getattr(groups, name)
        handler(session, payload)

    return handle


def _of_stored(name: str) -> Callable[[TankSession, memoryview], None]:
    """Returns the handler of this name in `stored`, which is imported at the first request: most clusters
    have no clients of a protocol that needs it."""

    def handle(session: TankSession, payload: memoryview) -> None:
        from tank_node.tank import stored

        handler: Callable[[TankSession, memoryview], None] = getattr(stored, name)
        handler(session, payload)

    return handle


APIS: Final[dict[int, Api]] = {
    1: Api(produce.produce, Operation.WRITE, Resource.TOPIC, carries_bundles=True),
    2: Api(_consume, Operation.READ, Resource.TOPIC),
    3: Api(_ping, Operation.CONNECT, Resource.CLUSTER),
    4: Api(_open_peer, Operation.CLUSTER_ACTION, Resource.CLUSTER),
    5: Api(produce.produce_with_numbers, Operation.WRITE, Resource.TOPIC, carries_bundles=True),
    6: Api(topics.discover_partitions, Operation.DESCRIBE, Resource.TOPIC),
    7: Api(topics.create_topic, Operation.CREATE, Resource.TOPIC),
    8: Api(topics.reload_conf, Operation.ALTER, Resource.TOPIC),
    10: Api(topics.status, Operation.DESCRIBE, Resource.CLUSTER),
    11: Api(topics.discover_topics, Operation.DESCRIBE, Resource.TOPIC),
    12: Api(topics.discover_topology, Operation.DESCRIBE, Resource.CLUSTER),
    64: Api(features.features, Operation.CONNECT, Resource.CLUSTER),
    65: Api(metadata.init_producer, Operation.WRITE, Resource.PRODUCER),
    66: Api(idempotent.idempotent_produce, Operation.WRITE, Resource.TOPIC, carries_bundles=True),
    67: Api(ends.find_by_time, Operation.DESCRIBE, Resource.TOPIC),
    68: Api(describe_topics.describe_topics, Operation.DESCRIBE, Resource.TOPIC),
    69: Api(metadata.create_topics, Operation.CREATE, Resource.TOPIC),
    70: Api(metadata.alter_topic, Operation.ALTER, Resource.TOPIC),
    71: Api(metadata.delete_topic, Operation.DELETE, Resource.TOPIC),
    72: Api(_of_groups("commit_positions"), Operation.READ, Resource.GROUP),
    73: Api(_of_groups("fetch_positions"), Operation.READ, Resource.GROUP),
    74: Api(_of_groups("list_groups"), Operation.DESCRIBE, Resource.GROUP),
    75: Api(ends.await_ends, Operation.DESCRIBE, Resource.TOPIC),
    76: Api(describe_broker.describe_broker, Operation.DESCRIBE, Resource.CLUSTER),
    77: Api(describe_cluster.describe_cluster, Operation.DESCRIBE, Resource.CLUSTER),
    78: Api(metadata.reserve_producer_ids, Operation.WRITE, Resource.PRODUCER),
    79: Api(record_batches.produce_record_batches, Operation.WRITE, Resource.TOPIC, carries_bundles=True),
    80: Api(_of_groups("group_heartbeat"), Operation.READ, Resource.GROUP),
    81: Api(_of_groups("describe_groups"), Operation.DESCRIBE, Resource.GROUP),
    82: Api(_of_groups("delete_groups"), Operation.DELETE, Resource.GROUP),
    83: Api(_of_groups("delete_positions"), Operation.DELETE, Resource.GROUP),
    84: Api(_of_groups("group_request"), Operation.CLUSTER_ACTION, Resource.CLUSTER, carries_bundles=True),
    85: Api(describe_connections.describe_connections, Operation.DESCRIBE, Resource.CLUSTER),
    86: Api(_of_stored("fetch_stored"), Operation.CLUSTER_ACTION, Resource.CLUSTER),
    87: Api(_of_stored("append_stored"), Operation.CLUSTER_ACTION, Resource.CLUSTER, carries_bundles=True),
    88: Api(_of_stored("partition_control"), Operation.CLUSTER_ACTION, Resource.CLUSTER),
    89: Api(_of_stored("partition_sizes"), Operation.CLUSTER_ACTION, Resource.CLUSTER),
}
"""By message id."""
