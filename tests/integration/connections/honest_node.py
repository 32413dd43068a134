"""A node that gets bad input, and clients that must not notice."""

from collections.abc import Iterator

import pytest

from tank_node.limits import MIB
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    CreateTopicRequest,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.bare_process import BareProcess


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareProcess]:
    """One broker for all: it must not remember the bad input of the test before."""
    with BareProcess(tmp_path_factory.mktemp("bad")) as node:
        create_topic(node)
        yield node


def create_topic(node: BareProcess) -> None:
    with node.connect() as client:
        client.ask(7, CreateTopicRequest(1, "a", 1, b"flush=replicated").encode())


def produce(client: RawConnection, content: bytes) -> int:
    """Produces a bundle; returns the result byte."""
    entry = ProducePartition(0, memoryview(bundle.as_batch(content)))
    request = ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [entry])])
    return client.ask(request.ID, request.encode())[-1]


def serves(client: RawConnection, value: bytes) -> bool:
    """Whether a good message is stored and can be read back, alone in its bundle, at the end."""
    if produce(client, bundle.encode([value], timestamps=1)):
        return False
    wanted = [ConsumeTopic("a", [ConsumePartition(0, 1, 16 * MIB)])]
    answer = ConsumeResponse.decode(client.ask(2, ConsumeRequest(2, 1, "", 0, 0, 0, wanted).encode()))
    *_, last = bundle.bundles(memoryview(answer.chunks))
    return bundle.decode(last, 1)[-1].value == value
