"""InitProducerId: ids of idempotent producers, in every version."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import ProducerOutcome
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import InitProducerIdRequest, InitProducerIdResponse
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

EVERY = range(6)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def ask(line: KafkaLine, version: int, request: InitProducerIdRequest) -> tuple[int, int, int]:
    answer = line.ask(request, InitProducerIdResponse, version)
    return answer.error_code, answer.producer_id, answer.producer_epoch


@pytest.mark.parametrize("version", EVERY)
def test_every_producer_gets_a_fresh_id_with_epoch_0(node: BenchNode, version: int) -> None:
    line = KafkaLine(node)
    found = [ask(line, version, InitProducerIdRequest(None, 60_000)) for _ in range(3)]
    assert {(error, epoch) for error, _, epoch in found} == {(0, 0)}
    ids = {producer_id for _, producer_id, _ in found}
    assert len(ids) == 3
    assert min(ids) > 0, "0 is no id"


@pytest.mark.parametrize("version", range(3, 6))
def test_an_id_that_a_producer_has_already_is_not_looked_at(node: BenchNode, version: int) -> None:
    error, producer_id, epoch = ask(KafkaLine(node), version, InitProducerIdRequest(None, 60_000, 77, 5))
    assert (error, epoch) == (0, 0)
    assert producer_id not in (-1, 77)


@pytest.mark.parametrize("version", EVERY)
def test_an_empty_transactional_id_is_an_invalid_request(node: BenchNode, version: int) -> None:
    assert ask(KafkaLine(node), version, InitProducerIdRequest("", 60_000)) == (42, -1, -1)


@pytest.mark.parametrize("version", EVERY)
def test_transactions_are_refused_with_an_error_that_ends_javas_producer(
    node: BenchNode, version: int
) -> None:
    assert ask(KafkaLine(node), version, InitProducerIdRequest("t", 60_000)) == (35, -1, -1)


def test_without_ids_the_producer_is_to_ask_again(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        done(ProducerOutcome(ErrorCode.NO_LEADER))

    monkeypatch.setattr(node.controller, "init_producer", refuse)
    assert ask(KafkaLine(node), 5, InitProducerIdRequest(None, 60_000)) == (14, -1, -1)


def test_an_answer_that_comes_after_the_connection_ended_goes_nowhere(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Callable[[ProducerOutcome], None]] = []

    def keep(name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        asked.append(done)

    monkeypatch.setattr(node.controller, "init_producer", keep)
    line = KafkaLine(node)
    line.send(InitProducerIdRequest(None, 60_000), 5)
    line.session.close()
    asked[0](ProducerOutcome(ErrorCode.NONE, "", 5))
    assert line.frames() == []
