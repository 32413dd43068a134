"""The requests captured from the C++ broker's clients, sent to a broker that does not lead: they get the
answers that they would get from the leader."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.broker.forwarding import ForwardingPolicy
from tank_protos.generated.tank import ConsumeRequest, ConsumeResponse, ProduceRequest
from tests.support.nodes.bench_node import BenchClient
from tests.support.nodes.broker_cell import BrokerCell
from tests.support.values.golden_conversations import CLOSED, LARGER_CHUNK_THERE, pairs

VERSION_AT = 5
"""Of a frame: where the client version stands."""


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, 2, forwarding=ForwardingPolicy.ALWAYS)
    for topic in ("gold", "multi", "tail", "sparse"):
        cell.create(topic, partitions=4, flush="replicated")
    cell.run(300)
    yield cell
    cell.close()


def of_version(request: bytes, version: int) -> bytes:
    """The same request from a client of this version, where it is laid out the same."""
    if request[0] not in (ProduceRequest.ID, 5, ConsumeRequest.ID) or request[VERSION_AT] >= 3:
        return request
    return request[:VERSION_AT] + bytes((version, 0)) + request[VERSION_AT + 2 :]


def answered(cell: BrokerCell, client: BenchClient, request: bytes) -> bytes:
    client.feed(request)
    for _ in range(150):
        cell.run(200)
        if answer := client.taken():
            return answer
    raise AssertionError("no answer")


@pytest.mark.parametrize("version", [0, 2])
def test_captured_requests_get_the_captured_answers_through_a_broker_that_leads_nothing(
    cell: BrokerCell, version: int
) -> None:
    client = cell.nodes[2].client()
    compared = 0
    for name in ("02_produce_plain", "03_snappy", "04_errors", "05_consume", "07_sparse"):
        for key, request, expected in pairs(name):
            if key in CLOSED:
                continue
            answer = answered(cell, client, of_version(request, version))
            if key in LARGER_CHUNK_THERE:
                assert ConsumeResponse.decode(answer[5:]).chunks == expected[5 + 38 :][:17]
            else:
                assert answer.hex() == expected.hex(), f"{name} {key}"
            compared += 1
    assert compared > 30
