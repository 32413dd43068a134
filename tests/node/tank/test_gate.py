"""Every request passes the gate before its handler, a learned one, too."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.security.gate import ANONYMOUS, Gate, NotAllowed, Operation, Principal, Resource
from tank_node.tank.dispatch import APIS
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.nodes.bench_node import BenchClient, BenchNode

PRODUCE = ProduceRequest(
    2, 1, "c", 0, 0,
    [ProduceTopic("a", [ProducePartition(0, bundle.as_batch(bundle.encode([b"x"], timestamps=1)))])],
)  # fmt: skip
FIRST, SECOND = (
    ConsumeRequest(2, 1, "c", topics=[ConsumeTopic("a", [ConsumePartition(0, number, 1)])])
    for number in (1, 2)
)


class Watchman(Gate):
    """Lets pass what is not denied, and remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.denied: set[tuple[Operation, Resource]] = set()
        self.asked: list[tuple[Principal, Operation, Resource]] = []

    def deny(self, operation: Operation, resource: Resource) -> None:
        self.denied.add((operation, resource))
        self.version += 1

    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        self.asked.append((principal, operation, resource))
        return (operation, resource) not in self.denied


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated")
        yield node


def test_what_is_denied_never_reaches_its_handler(node: BenchNode) -> None:
    gate = Watchman()
    gate.deny(Operation.WRITE, Resource.TOPIC)
    with pytest.raises(NotAllowed, match="write of topic"):
        BenchClient(node, gate).send(PRODUCE)
    assert gate.asked == [(ANONYMOUS, Operation.WRITE, Resource.TOPIC)]
    assert node.broker.topics["a"].partitions[0].log.last == 0
    assert node.metrics.requests[PRODUCE.ID, "not_allowed"] == 1


@pytest.mark.parametrize(
    ("message", "operation"),
    [(PRODUCE, Operation.WRITE), (SECOND, Operation.READ)],
    ids=["produce", "consume"],
)
def test_a_learned_request_passes_again_when_what_is_allowed_has_changed(
    node: BenchNode, message: ProduceRequest | ConsumeRequest, operation: Operation
) -> None:
    gate = Watchman()
    client = BenchClient(node, gate)
    for each in (PRODUCE, PRODUCE, FIRST, message):
        client.send(each)
    gate.asked.clear()
    client.send(message)
    assert gate.asked == [], "it went the learned way"
    gate.deny(operation, Resource.TOPIC)
    with pytest.raises(NotAllowed):
        client.send(message)


def test_each_message_names_what_it_does_and_with_what() -> None:
    assert all(isinstance(api.operation, Operation) for api in APIS.values())
    by_kind = {(api.operation, api.resource) for api in APIS.values()}
    assert {
        (Operation.WRITE, Resource.TOPIC),
        (Operation.READ, Resource.TOPIC),
        (Operation.DELETE, Resource.TOPIC),
        (Operation.READ, Resource.GROUP),
    } <= by_kind
