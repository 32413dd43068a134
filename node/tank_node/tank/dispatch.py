"""What a broker does with each of TANK's messages. Above the session and the handlers: it brings them
together."""

from typing import Final

from tank_node.broker.broker import Broker
from tank_node.metrics import OK
from tank_node.peers import inbound
from tank_node.tank import (
    describe_broker,
    describe_cluster,
    extensions,
    forwarded_fetch,
    metadata,
    produce,
    topics,
)
from tank_node.tank.fetch_fast import fetch_again
from tank_node.tank.session import Api, TankSession
from tank_protos.wire.errors import WireError


def open_session(broker: Broker, *, is_outside: bool = False) -> TankSession:
    """A conversation with a client of TANK's protocol. is_outside: it came by the address for clients outside
    of the cluster's network."""
    return TankSession(broker, APIS, fetch_again, is_outside=is_outside)


def _ping(session: TankSession, payload: memoryview) -> None:
    """Accepted, never answered."""
    if len(payload):
        raise WireError("a ping has no payload")
    session.metrics.requests[3, OK] += 1


def _open_peer(session: TankSession, payload: memoryview) -> None:
    """The connection of another broker."""
    inbound.open_peer(session, session.broker, payload)


APIS: Final[dict[int, Api]] = {
    1: Api(produce.produce, carries_bundles=True),
    2: Api(forwarded_fetch.consume),
    3: Api(_ping),
    4: Api(_open_peer),
    5: Api(produce.produce_with_numbers, carries_bundles=True),
    6: Api(topics.discover_partitions),
    7: Api(topics.create_topic),
    8: Api(topics.reload_conf),
    10: Api(topics.status),
    11: Api(topics.discover_topics),
    12: Api(topics.discover_topology),
    64: Api(extensions.features),
    65: Api(metadata.init_producer),
    66: Api(extensions.idempotent_produce, carries_bundles=True),
    67: Api(extensions.find_by_time),
    68: Api(extensions.describe_topics),
    69: Api(metadata.create_topics),
    70: Api(metadata.alter_topic),
    71: Api(metadata.delete_topic),
    72: Api(metadata.commit_positions),
    73: Api(metadata.fetch_positions),
    74: Api(metadata.list_groups),
    75: Api(extensions.await_ends),
    76: Api(describe_broker.describe_broker),
    77: Api(describe_cluster.describe_cluster),
    78: Api(metadata.reserve_producer_ids),
}
"""By message id."""
