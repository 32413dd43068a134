"""Which requests are forwarded, and which are redirected."""

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_protos.error_codes import ConsumeFlag
from tank_protos.generated.tank import FeaturesRequest
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.nodes.forwarded import (
    NEW,
    OLD,
    consume_request,
    fetched,
    flags,
    produce_request,
    stored,
)


@pytest.mark.parametrize(
    ("policy", "version", "host", "reached_at", "is_forwarded"),
    [
        (ForwardingPolicy.AUTO, OLD, "127.0.0.1", "127.0.0.1", True),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "127.0.0.1", False),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "::ffff:127.0.0.1", False),
        (ForwardingPolicy.AUTO, NEW, "broker-1.tank", "127.0.0.1", True),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "10.0.0.9", True),
        (ForwardingPolicy.AUTO, NEW, "127.0.0.1", "", True),
        (ForwardingPolicy.AUTO, 0x101, "broker-1.tank", "10.0.0.9", False),
        (ForwardingPolicy.ALWAYS, NEW, "127.0.0.1", "127.0.0.1", True),
        (ForwardingPolicy.NEVER, OLD, "127.0.0.1", "127.0.0.1", False),
        (ForwardingPolicy.NEVER, NEW, "broker-1.tank", "127.0.0.1", False),
    ],
)
def test_who_is_forwarded(
    cell: BrokerCell,
    policy: ForwardingPolicy,
    version: int,
    host: str,
    reached_at: str,
    *,
    is_forwarded: bool,
) -> None:
    cell.nodes[2].broker.forwarding.policy = policy
    cell.nodes[2].controller.view.brokers[1].host = host
    client = cell.nodes[2].client(reached_at)
    client.send(consume_request((0, 1), version=version))
    cell.run(200)
    (answer,) = fetched(client)
    assert (flags(answer) == [ConsumeFlag.DATA]) is (is_forwarded or version == OLD)
    client.send(produce_request((0, b"x"), version=version))
    cell.run(400)
    assert bool(stored(cell.nodes[1], 0)) is is_forwarded


@pytest.mark.parametrize("policy", [ForwardingPolicy.AUTO, ForwardingPolicy.ALWAYS])
def test_a_client_that_knows_brokers_by_name_is_not_forwarded_unless_all_are(
    cell: BrokerCell, policy: ForwardingPolicy
) -> None:
    cell.nodes[2].broker.forwarding.policy = policy
    cell.nodes[2].controller.view.brokers[1].host = "broker-1.tank"
    client = cell.nodes[2].client()
    client.ask(FeaturesRequest(0, 1))
    client.send(consume_request((0, 1), version=NEW))
    cell.run(200)
    (answer,) = fetched(client)
    is_forwarded = policy is ForwardingPolicy.ALWAYS
    assert flags(answer) == [ConsumeFlag.DATA if is_forwarded else ConsumeFlag.NO_LEADER]


def test_a_client_that_knows_leaders_hears_that_there_is_none_at_once(cell: BrokerCell) -> None:
    cell.nodes[3].broker.forwarding.policy = ForwardingPolicy.ALWAYS
    cell.disconnect(1, 3)
    client = cell.nodes[3].client()
    client.send(consume_request((0, 1), (1, 1), version=NEW, wait_ms=60_000))
    cell.run(200)
    (answer,) = fetched(client)
    assert flags(answer) == [ConsumeFlag.NO_LEADER, ConsumeFlag.DATA]
