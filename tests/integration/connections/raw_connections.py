"""Raw connections to a served node."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import MIB
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode


def produce_request(values: list[bytes], *, topic: str = "a", request_id: int = 1) -> ProduceRequest:
    batch = memoryview(bundle.as_batch(bundle.encode(values, timestamps=1, codec=bundle.Codec.NONE)))
    return ProduceRequest(2, request_id, "", 0, 0, [ProduceTopic(topic, [ProducePartition(0, batch)])])


def produce(client: RawConnection, values: list[bytes]) -> int:
    request = produce_request(values)
    return client.ask(request.ID, request.encode())[-1]


def consume(number: int, *, wait_ms: int = 0, size: int = MIB, request_id: int = 1) -> ConsumeRequest:
    return ConsumeRequest(
        2, request_id, "", wait_ms, 0, 0, [ConsumeTopic("a", [ConsumePartition(0, number, size)])]
    )


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    with ServedNode(tmp_path / "data") as node:
        node.on_loop(lambda: node.controller.add("a", 1, flush="replicated"))
        yield node


def is_closed_by_the_broker(client: RawConnection) -> bool:
    try:
        client.receive()
    except (ConnectionError, TimeoutError) as error:
        return isinstance(error, ConnectionError)
    return False
