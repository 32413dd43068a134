"""What a broker says of partitions that another one leads."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.error_codes import ConsumeFlag, ErrorCode, ProduceError
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    DiscoverPartitionsRequest,
    DiscoverPartitionsResponse,
    DiscoverTopologyRequest,
    DiscoverTopologyResponse,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell

HERE = (bytes((127, 0, 0, 1)), 1)


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 2)
    cell.create(partitions=2)
    cell.change(1, leader=2)
    cell.run(300)
    yield cell
    cell.close()


def test_a_produce_is_sent_to_where_the_partition_is_led(cell: BrokerCell) -> None:
    client = cell.nodes[2].client()
    batch = memoryview(batch_of(b"x"))
    client.send(
        ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [ProducePartition(n, batch) for n in (0, 1)])])
    )
    cell.run(300)
    ((_, payload),) = client.answers()
    first, second = ProduceResponse.decode(payload).results
    assert (first.error, bytes(first.leader_ipv4), first.leader_port) == (ProduceError.OTHER_LEADER, *HERE)
    assert second.error == 0


def test_so_is_an_idempotent_one_by_host_name(cell: BrokerCell) -> None:
    for node in cell.nodes.values():
        node.controller.view.brokers[1].host = "broker-1.tank"
    client = cell.nodes[2].client()
    entry = IdempotentPartition(0, 0, 0, memoryview(batch_of(b"x")))
    answer = client.ask(IdempotentProduceRequest(0, 1, "", 0, 0, 9, 0, [IdempotentTopic("a", [entry])]))
    result = IdempotentProduceResponse.decode(answer).topics[0].partitions[0]
    assert (result.error, result.leader_host, result.leader_port) == (
        ErrorCode.OTHER_LEADER,
        "broker-1.tank",
        1,
    )


@pytest.mark.parametrize("named", [False, True])
def test_a_consume_and_a_question_for_ends_are_sent_there_when_the_protocol_can_carry_it(
    cell: BrokerCell, named: bool
) -> None:
    if named:
        cell.nodes[2].controller.view.brokers[1].host = "broker-1.tank"
    client = cell.nodes[2].client()
    topics = [ConsumeTopic("a", [ConsumePartition(0, 1, 1000)])]
    answer = client.ask(ConsumeRequest(2, 1, "", 0, 0, 0, topics))
    found = ConsumeResponse.decode(answer).topics[0].partitions[0]
    ends = DiscoverPartitionsResponse.decode(client.ask(DiscoverPartitionsRequest(1, "a"))).partitions
    if named:
        assert found.flag == ConsumeFlag.NO_LEADER
        assert ends[0].reason == ErrorCode.NO_LEADER
    else:
        assert (found.flag, bytes(found.leader_ipv4), found.leader_port) == (ConsumeFlag.OTHER_LEADER, *HERE)
        assert (ends[0].reason, bytes(ends[0].leader_ipv4), ends[0].leader_port) == (0xFC, *HERE)
    assert ends[1].high_water_mark == 0


def test_nobody_is_named_where_nobody_leads(cell: BrokerCell) -> None:
    cell.change(0, leader=0)
    client = cell.nodes[2].client()
    entry = ProducePartition(0, memoryview(batch_of(b"x")))
    answer = client.ask(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [entry])]))
    assert ProduceResponse.decode(answer).results[0].error == ProduceError.NO_LEADER


def test_the_topology_is_that_of_the_cluster(cell: BrokerCell) -> None:
    cell.nodes[2].controller.view.brokers[1].fenced = True
    answer = cell.nodes[2].client().ask(DiscoverTopologyRequest(1))
    topology = DiscoverTopologyResponse.decode(answer)
    assert (topology.cluster_name, topology.node_count) == ("cell", 2)
    assert [(n.node_id, n.bits, bytes(n.ipv4), n.port, n.partitions) for n in topology.nodes] == [
        (1, 5, *HERE, 2),
        (2, 3, HERE[0], 2, 2),
    ]
