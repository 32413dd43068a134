"""A Fetch that waits for records: how long, for how many bytes, and what else ends the wait."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import Limits
from tank_protos import bundle
from tank_protos.generated.kafka import FetchResponse
from tank_protos.generated.kafka.fetch_request import FetchPartition
from tests.support.clients.kafka_fetcher import NEWEST, Fetcher, values, want
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told

EVERY = range(NEWEST + 1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        yield node


def write(node: BenchNode, content: bytes, number: int = 0) -> None:
    node.broker.begin_tick()
    batch = memoryview(bundle.as_batch(bundle.encode([content], timestamps=1)))
    node.broker.topics["a"].partitions[number].append(batch, Told(), 0)
    node.tick()


def waits(line: Fetcher, *wanted: FetchPartition, wait_ms: int = 1000, min_bytes: int = 1) -> None:
    """Sends a request, which is not answered at once."""
    line.send(line.request(line.topic("a", *wanted), wait_ms=wait_ms, min_bytes=min_bytes), line.version)
    assert line.answered() is None
    assert line.node.metrics.waiting == 1


def found(line: Fetcher) -> list[list[bytes | None]] | None:
    """The values in the answer that has come, by partition; None: there is no answer."""
    response = line.answered()
    if response is None:
        return None
    return [values(line.records(each)) for topic in response.responses for each in topic.partitions]


def errors(response: FetchResponse | None) -> list[int]:
    assert response is not None
    return [each.error_code for topic in response.responses for each in topic.partitions]


@pytest.mark.parametrize("version", EVERY)
def test_an_append_wakes_a_waiting_fetch(node: BenchNode, version: int) -> None:
    line = Fetcher(node, version)
    waits(line, want(0), want(0, 1))
    write(node, b"one", 1)
    assert found(line) == [[], [b"one"]]
    assert node.metrics.waiting == 0


def test_nothing_is_answered_before_the_time_is_over(node: BenchNode) -> None:
    line = Fetcher(node)
    waits(line, want(0))
    node.pass_ms(999)
    assert line.answered() is None
    node.pass_ms(2)
    assert found(line) == [[]]


@pytest.mark.parametrize(("wait_ms", "min_bytes"), [(1000, 0), (0, 1), (-1, 5), (1000, -1)])
def test_a_fetch_that_does_not_want_to_wait_is_answered_empty(
    node: BenchNode, wait_ms: int, min_bytes: int
) -> None:
    line = Fetcher(node)
    response = line.asks(line.request(line.topic("a", want(0)), wait_ms=wait_ms, min_bytes=min_bytes))
    assert errors(response) == [0]


def test_a_fetch_of_no_partition_is_answered_at_once(node: BenchNode) -> None:
    line = Fetcher(node)
    assert line.asks(line.request(wait_ms=1000)).responses == []


def test_min_bytes_count_over_all_partitions(node: BenchNode) -> None:
    line = Fetcher(node)
    write(node, b"x" * 400)
    waits(line, want(0), want(0, 1), want(0, 2), min_bytes=1200)
    write(node, b"y" * 400, 1)
    assert line.answered() is None
    write(node, b"z" * 400, 2)
    assert found(line) == [[b"x" * 400], [b"y" * 400], [b"z" * 400]]


def test_at_the_deadline_there_is_what_came_though_it_is_less(node: BenchNode) -> None:
    line = Fetcher(node)
    waits(line, want(0), min_bytes=100_000)
    write(node, b"one")
    assert line.answered() is None
    node.pass_ms(1001)
    assert found(line) == [[b"one"]]


def test_a_partition_counts_for_no_more_than_its_own_limit(node: BenchNode) -> None:
    line = Fetcher(node)
    waits(line, want(0, max_bytes=500), want(0, 1, max_bytes=500), min_bytes=800)
    for _ in range(3):
        write(node, b"x" * 400)
    assert line.answered() is None
    write(node, b"y" * 400, 1)
    assert found(line) == [[b"x" * 400], [b"y" * 400]]


def test_more_than_an_answer_may_hold_is_not_waited_for(node: BenchNode) -> None:
    line = Fetcher(node)
    write(node, b"x" * 400)
    request = line.request(line.topic("a", want(0)), wait_ms=1000, min_bytes=10_000, max_bytes=300)
    assert errors(line.asks(request)) == [0]


def test_data_that_goes_on_in_another_segment_does_not_wait(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated")
        write(node, b"one")
        node.broker.topics["a"].partitions[0].log.roll()
        write(node, b"two")
        for version in (0, 4, NEWEST):
            line = Fetcher(node, version)
            request = line.request(line.topic("a", want(0)), wait_ms=1000, min_bytes=100_000)
            (topic,) = line.asks(request).responses
            assert values(line.records(topic.partitions[0])) == [b"one"]


@pytest.mark.parametrize("version", [0, 3, 4, NEWEST])
def test_a_partition_with_more_than_its_limit_counts_for_the_limit(node: BenchNode, version: int) -> None:
    for _ in range(3):
        write(node, b"x" * 400)
    line = Fetcher(node, version)
    asked = line.topic("a", want(0, max_bytes=1000), want(0, 1, max_bytes=1000))
    (topic,) = line.asks(line.request(asked, wait_ms=1000, min_bytes=1000)).responses
    assert [len(line.records(each)) for each in topic.partitions] == [2, 0]
    line.send(line.request(asked, wait_ms=1000, min_bytes=1001), version)
    assert line.answered() is None


def test_an_error_of_one_partition_does_not_wait(node: BenchNode) -> None:
    line = Fetcher(node)
    response = line.asks(line.request(line.topic("a", want(0), want(50, 1)), wait_ms=1000))
    assert errors(response) == [0, 1]


def test_a_deleted_topic_ends_the_wait(node: BenchNode) -> None:
    for version, error in ((12, 3), (13, 100)):
        line = Fetcher(node, version)
        waits(line, want(0))
        node.controller.delete_topic("a", lambda outcome: None)
        assert errors(line.answered()) == [error]
        node.controller.add("a", 3, flush="replicated")


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_new_epoch_of_the_same_leader_ends_the_wait_of_those_that_know_the_old_one(
    tmp_path: Path, brokers: int
) -> None:
    cell = BrokerCell(tmp_path, brokers)
    cell.create(flush="replicated")
    node = cell.nodes[1]
    knows, old = Fetcher(node), Fetcher(node)
    waits(knows, want(0, epoch=1))
    old.send(old.request(old.topic("a", want(0)), wait_ms=1000), old.version)
    cell.change(leader_epoch=2)
    response = knows.answered()
    assert errors(response) == [74]
    assert response is not None
    leader = response.responses[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (1, 2)
    assert old.answered() is None
    cell.close()


def test_lost_leadership_ends_the_wait_and_names_the_new_leader(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2)
    cell.create(flush="replicated")
    cell.run()
    line = Fetcher(cell.nodes[1])
    waits(line, want(0, epoch=1))
    cell.change(leader=2)
    response = line.answered()
    assert errors(response) == [6]
    assert response is not None
    leader = response.responses[0].partitions[0].current_leader
    assert (leader.leader_id, leader.leader_epoch) == (2, 2)
    cell.close()


def settling(tmp_path: Path) -> BrokerCell:
    """Broker 2 leads, has one message above its mark, and does not hear of broker 1, which is in sync."""
    cell = BrokerCell(tmp_path, 2)
    cell.create(flush="replicated")
    cell.run()
    write(cell.nodes[1], b"one")
    cell.run()
    write(cell.nodes[1], b"two")
    cell.step()
    cell.disconnect(1, 2)
    cell.judge = lambda node: node.controller.proposed.clear()
    cell.change(leader=2)
    return cell


def test_a_leader_that_has_not_settled_serves_what_is_below_its_mark(tmp_path: Path) -> None:
    cell = settling(tmp_path)
    node = cell.nodes[2]
    assert not node.partition().end_known
    line = Fetcher(node)
    partition = line.fetch(0)
    assert (partition.error_code, values(line.records(partition))) == (0, [b"one"])
    cell.close()


@pytest.mark.parametrize("offset", [1, 2, 9])
def test_beyond_its_mark_it_waits_and_then_answers_with_itself_as_leader(tmp_path: Path, offset: int) -> None:
    cell = settling(tmp_path)
    node = cell.nodes[2]
    line = Fetcher(node)
    waits(line, want(offset))
    node.pass_ms(1001)
    response = line.answered()
    assert errors(response) == [6]
    assert response is not None
    (partition,) = response.responses[0].partitions
    assert (partition.current_leader.leader_id, partition.current_leader.leader_epoch) == (2, 2)
    assert partition.high_watermark == -1
    cell.close()


def test_before_it_settles_no_record_is_stepped_over_by_a_client_below_the_logs_start(tmp_path: Path) -> None:
    cell = BrokerCell(tmp_path, 2)
    cell.create(flush="replicated")
    cell.run()
    for content in (b"gone", b"one"):
        write(cell.nodes[1], content)
    cell.run()
    former = cell.nodes[1].partition()
    former.start.raise_to(2, former.leadership)
    cell.run()
    write(cell.nodes[1], b"two")
    cell.step()
    cell.disconnect(1, 2)
    cell.judge = lambda node: node.controller.proposed.clear()
    cell.change(leader=2)
    partition = cell.nodes[2].partition()
    assert (partition.log.first_available, partition.high_water_mark, partition.end_known) == (2, 2, False)
    line = Fetcher(cell.nodes[2])
    waits(line, want(0))
    cell.connect(1, 2)
    cell.judge = cell.accept
    cell.run(3000)
    assert errors(line.answered()) == [1], "the client asks for the log's start next"
    cell.close()


def test_when_it_settles_offsets_beyond_the_end_are_out_of_range(tmp_path: Path) -> None:
    cell = settling(tmp_path)
    lines = [Fetcher(cell.nodes[2]) for _ in range(2)]
    for line, offset in zip(lines, (1, 9), strict=True):
        line.send(line.request(line.topic("a", want(offset)), wait_ms=60_000), line.version)
        assert line.answered() is None
    cell.connect(1, 2)
    cell.judge = cell.accept
    cell.run(3000)
    assert cell.nodes[2].partition().end_known
    assert found(lines[0]) == [[b"two"]]
    assert errors(lines[1].answered()) == [1]
    cell.close()


def test_a_client_that_is_gone_leaves_nothing(node: BenchNode) -> None:
    line = Fetcher(node)
    write(node, b"one")
    waits(line, want(0), min_bytes=10_000)
    line.session.close()
    assert node.metrics.waiting == 0
    assert node.broker.deadlines.entries == 0
    log = node.broker.topics["a"].partitions[0].log
    assert all(file.pins == 0 for segment in log.segments for file in segment.files())


def test_a_waiting_fetch_pins_no_file(node: BenchNode) -> None:
    line = Fetcher(node)
    write(node, b"one")
    waits(line, want(0), min_bytes=10_000)
    log = node.broker.topics["a"].partitions[0].log
    assert all(file.pins == 0 for segment in log.segments for file in segment.files())


def test_beyond_the_limit_of_waits_fetches_are_answered_at_once(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(all_wait_entries=1)) as node:
        node.controller.add("a", 2, flush="replicated")
        line = Fetcher(node)
        response = line.asks(line.request(line.topic("a", want(0), want(0, 1)), wait_ms=1000))
        assert errors(response) == [0, 0]
        assert node.metrics.refused["too_many_waits"] == 1


def test_the_request_behind_a_waiting_fetch_waits_too(node: BenchNode) -> None:
    line = Fetcher(node)
    waits(line, want(0))
    line.send(line.request(line.topic("a", want(0, 1))), line.version)
    assert line.frames() == []
    write(node, b"one")
    line.feed(b"")
    assert line.correlation_ids() == [1, 2]
