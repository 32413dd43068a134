"""Leader epochs in a Fetch: which leader the client knows, and what it has read of earlier ones."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos import bundle
from tank_protos.generated.kafka.fetch_response import EpochEndOffset, LeaderIdAndEpoch, PartitionData
from tests.support.clients.kafka_fetcher import NEWEST, Fetcher, values, want
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import Told

SINCE = 9
DIVERGING_SINCE = 12


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    """Offsets 0 and 1 are of epoch 1, offset 2 is of epoch 4, in which this broker leads."""
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated")
        write(node, b"one")
        write(node, b"two")
        node.broker.topics["a"].partitions[0].leader_epoch = 4
        write(node, b"three")
        yield node


def write(node: BenchNode, content: bytes) -> None:
    node.broker.begin_tick()
    batch = memoryview(bundle.as_batch(bundle.encode([content], timestamps=1)))
    node.broker.topics["a"].partitions[0].append(batch, Told(), 0)
    node.tick()


def fetch(
    line: Fetcher, offset: int, *, epoch: int = -1, fetched: int = -1, wait_ms: int = 0
) -> PartitionData:
    wanted = line.topic("a", want(offset, epoch=epoch, fetched=fetched))
    (topic,) = line.asks(line.request(wanted, wait_ms=wait_ms)).responses
    (partition,) = topic.partitions
    return partition


@pytest.mark.parametrize("version", range(SINCE, NEWEST + 1))
def test_another_epoch_than_the_leaders_is_refused(node: BenchNode, version: int) -> None:
    line = Fetcher(node, version)
    assert [fetch(line, 0, epoch=epoch).error_code for epoch in (-1, 4, 3, 0, 5)] == [0, 0, 74, 74, 75]


@pytest.mark.parametrize("version", range(DIVERGING_SINCE, NEWEST + 1))
def test_a_fenced_client_learns_the_leader_and_its_epoch(node: BenchNode, version: int) -> None:
    line = Fetcher(node, version)
    assert fetch(line, 0, epoch=3).current_leader == LeaderIdAndEpoch(1, 4)
    assert fetch(line, 0, epoch=5).current_leader == LeaderIdAndEpoch(), "it knows more than this broker"


@pytest.mark.parametrize("version", range(DIVERGING_SINCE, NEWEST + 1))
@pytest.mark.parametrize(
    ("offset", "fetched", "diverging"),
    [
        (3, 1, (1, 2)),  # of epoch 1 this log has less
        (3, 3, (1, 2)),  # epoch 3 is not in this log
        (2, 3, (1, 2)),
        (2, 0, (0, 0)),  # of epoch 0 it has nothing
    ],
)
def test_a_log_that_went_apart_gets_the_place_and_no_records(
    node: BenchNode, version: int, offset: int, fetched: int, diverging: tuple[int, int]
) -> None:
    found = fetch(Fetcher(node, version), offset, fetched=fetched, wait_ms=1000)
    assert found.diverging_epoch == EpochEndOffset(*diverging)
    assert (found.error_code, found.records) == (0, b"")


def test_a_log_that_is_the_same_gets_records(node: BenchNode) -> None:
    line = Fetcher(node)
    for offset, fetched, expected in [
        (0, 1, [b"one", b"two", b"three"]),
        (1, 1, [b"two", b"three"]),
        (2, 1, [b"three"]),
        (3, 4, []),
    ]:
        found = fetch(line, offset, fetched=fetched)
        assert (found.error_code, found.diverging_epoch) == (0, EpochEndOffset())
        assert values(line.records(found)) == expected


def test_a_log_of_a_later_epoch_than_the_leaders_is_out_of_range(node: BenchNode) -> None:
    """It is another log, and has no place in common with this one."""
    found = fetch(Fetcher(node), 3, fetched=9)
    assert (found.error_code, found.diverging_epoch) == (1, EpochEndOffset())


def test_a_log_whose_epoch_is_gone_from_the_front_agrees_where_this_one_begins(node: BenchNode) -> None:
    log = node.broker.topics["a"].partitions[0].log
    log.roll()
    write(node, b"four")
    log.drop_oldest(1)
    line = Fetcher(node)
    found = fetch(line, 3, fetched=1)
    assert found.diverging_epoch == EpochEndOffset()
    assert values(line.records(found)) == [b"four"]
    assert fetch(line, 4, fetched=1).diverging_epoch == EpochEndOffset(1, 3)


def test_what_was_read_before_the_log_began_is_no_sign_of_another_log(node: BenchNode) -> None:
    log = node.broker.topics["a"].partitions[0].log
    log.roll()
    write(node, b"four")
    log.drop_oldest(1)
    assert log.epochs == [(4, 3)]
    line = Fetcher(node)
    found = fetch(line, 2, fetched=1)
    assert (found.error_code, found.diverging_epoch) == (1, EpochEndOffset()), "below the log's start"


@pytest.mark.parametrize("epoch", [1, 4])
def test_a_session_checks_the_epoch_it_was_told_last(node: BenchNode, epoch: int) -> None:
    line = Fetcher(node)
    wanted = line.topic("a", want(3, epoch=4))
    session = line.asks(line.request(wanted, session=(0, 0))).session_id
    changed = line.topic("a", want(3, epoch=epoch))
    response = line.asks(line.request(changed, session=(session, 1)))
    told = [each.error_code for topic in response.responses for each in topic.partitions]
    assert told == ([74] if epoch == 1 else [])
