"""How many replicas must be in sync: what clients ask for by required_acks, in each kind of produce."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire.message import Message
from tests.support.clients.produce import batch_of
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell

HALF = 255
KINDS = [1, 5, 66]


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 3)
    cell.create(flush="replicated")
    cell.run(300)
    yield cell
    cell.close()


def produce(kind: int, required_acks: int, sequence: int = 0) -> Message:
    batch = batch_of(b"x")
    if kind == 1:
        topics = [ProduceTopic("a", [ProducePartition(0, memoryview(batch))])]
        return ProduceRequest(2, 1, "", required_acks, 0, topics)
    if kind == 5:
        content = batch[1:]
        numbered = [ProduceBaseTopic("a", [ProduceBasePartition(0, len(content), 100, content)])]
        return ProduceWithBaseSeqNumRequest(2, 1, "", required_acks, 0, numbered)
    entry = IdempotentPartition(0, sequence, 0, memoryview(batch))
    named = [IdempotentTopic("a", [entry])]
    return IdempotentProduceRequest(0, 1, "", required_acks, 0, 9, 0, named)


def results(client: BenchClient) -> list[int]:
    """The result of each answer."""
    found = []
    for message_id, payload in client.answers():
        if message_id == 66:
            found.append(IdempotentProduceResponse.decode(payload).topics[0].partitions[0].error)
        else:
            found.append(payload[4])
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("required_acks", "is_enough"), [(0, True), (1, True), (2, False), (HALF, True)])
def test_too_few_at_the_append_refuse_it(
    cell: BrokerCell, kind: int, required_acks: int, is_enough: bool
) -> None:
    cell.change(in_sync=(1, 2))
    client = cell.nodes[1].client()
    client.send(produce(kind, required_acks))
    cell.run(300)
    assert results(client) == [ErrorCode.NONE if is_enough else ErrorCode.NOT_ENOUGH_REPLICAS]
    assert bool(cell.nodes[1].log().last) is is_enough


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("required_acks", "is_enough"), [(0, True), (1, True), (2, False), (HALF, True)])
def test_too_few_after_the_append_are_told_as_not_acknowledged(
    cell: BrokerCell, kind: int, required_acks: int, is_enough: bool
) -> None:
    client = cell.nodes[1].client()
    client.send(produce(kind, required_acks))
    assert not results(client), "nobody else has it yet"
    cell.change(in_sync=(1, 2))
    cell.run(300)
    assert results(client) == [ErrorCode.NONE if is_enough else ErrorCode.NOT_ACKNOWLEDGED_IN_TIME]
    assert cell.nodes[1].partition().high_water_mark, "it is stored, and stays"
