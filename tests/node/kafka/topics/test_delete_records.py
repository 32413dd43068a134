"""Records are deleted from the front: exactly, on all replicas, for good."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.view import ChangeKind
from tank_node.limits import Limits
from tank_node.store.checkpoint_file import CheckpointFile
from tank_protos import bundle
from tank_protos.generated.kafka import (
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from tank_protos.generated.kafka.delete_records_request import DeleteRecordsPartition, DeleteRecordsTopic
from tank_protos.generated.kafka.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.kafka_line import KafkaLine
from tests.support.storage.logs import read_all
from tests.support.waiting import until

ALL = -1
NEWEST = 2
EARLIEST = -2


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", partitions=2)
        yield node


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=3, limits=Limits(ack_timeout_ms=2000))
    cell.create(flush="replicated")
    cell.run()
    yield cell
    cell.close()


def write(node: BenchNode, *batches: int, topic: str = "a") -> None:
    """Appends batches with so many records each."""
    for count in batches:
        batch = memoryview(bundle.as_batch(bundle.encode([b"v"] * count, timestamps=1)))
        node.broker.begin_tick()
        node.broker.topics[topic].partitions[0].append(batch, Told(), 0)
        node.tick()
        node.sync()


def request(*offsets: int, topic: str = "a", timeout_ms: int = 30_000) -> DeleteRecordsRequest:
    """Deletes before these offsets in partitions 0, 1 and so on."""
    asked = [DeleteRecordsPartition(number, offset) for number, offset in enumerate(offsets)]
    return DeleteRecordsRequest([DeleteRecordsTopic(topic, asked)], timeout_ms)


def results(line: KafkaLine, go_on: Callable[[], object], version: int = NEWEST) -> list[tuple[int, int]]:
    """(error, first offset) of each partition, once the answer is there."""
    frames: list[bytes] = []

    def has_come() -> bool:
        go_on()
        frames.extend(line.frames())
        return bool(frames)

    until(has_come, "no answer came")
    (frame,) = frames
    _, answer = line.read(frame, DeleteRecordsResponse, version)
    (topic,) = answer.topics
    assert [each.partition_index for each in topic.partitions] == list(range(len(topic.partitions)))
    return [(each.error_code, each.low_watermark) for each in topic.partitions]


def delete(node: BenchNode, *offsets: int, topic: str = "a", version: int = NEWEST) -> list[tuple[int, int]]:
    line = KafkaLine(node)
    line.send(request(*offsets, topic=topic), version)
    return results(line, node.sync, version)


def earliest(node: BenchNode, replica_id: int = -1) -> int:
    topic = ListOffsetsTopic("a", [ListOffsetsPartition(0, -1, EARLIEST)])
    answer = KafkaLine(node).ask(ListOffsetsRequest(replica_id, topics=[topic]), ListOffsetsResponse, 1)
    return answer.topics[0].partitions[0].offset


@pytest.mark.parametrize("version", range(NEWEST + 1))
def test_the_first_offset_is_the_one_that_was_asked_for_even_within_a_batch(
    node: BenchNode, version: int
) -> None:
    write(node, 3, 3)
    assert delete(node, 4, version=version) == [(0, 4)]
    assert earliest(node) == 4
    log = node.broker.topics["a"].partitions[0].log
    assert log.first_available == 5


def test_all_are_deleted_up_to_the_high_water_mark(node: BenchNode) -> None:
    write(node, 3, 3)
    assert delete(node, ALL) == [(0, 6)]
    log = node.broker.topics["a"].partitions[0].log
    assert log.size_bytes == 0
    assert read_all(log) == {}
    write(node, 1)
    assert read_all(log) == {7: b"v"}
    assert earliest(node) == 6


def test_whole_segments_below_leave_the_disk(node: BenchNode) -> None:
    log = node.broker.topics["a"].partitions[0].log
    for _ in range(4):
        write(node, 3)
        log.roll()
    assert delete(node, 7) == [(0, 7)]
    assert [segment.base for segment in log.segments] == [7, 10, 13]


def test_what_is_deleted_already_stays_so_without_an_error(node: BenchNode) -> None:
    write(node, 3)
    assert delete(node, 2) == [(0, 2)]
    assert delete(node, 1) == delete(node, 0) == [(0, 2)]


def test_an_empty_partition_has_nothing_to_delete(node: BenchNode) -> None:
    assert delete(node, 0, ALL) == [(0, 0), (0, 0)]


def test_offsets_beyond_the_high_water_mark_are_refused_each_alone(node: BenchNode) -> None:
    write(node, 3)
    assert delete(node, 4, 0) == [(1, -1), (0, 0)]
    assert delete(node, -2, 1) == [(1, -1), (1, -1)]
    assert earliest(node) == 0


def test_partitions_that_are_not_there_are_refused(node: BenchNode) -> None:
    assert delete(node, 0, 0, 0) == [(0, 0), (0, 0), (3, -1)]
    assert delete(node, 0, topic="none") == [(3, -1)]


def test_a_topic_that_is_only_compacted_keeps_its_records(node: BenchNode) -> None:
    node.controller.add("c", log_cleanup_policy="compact")
    write(node, 3, topic="c")
    assert delete(node, 1, topic="c") == [(44, -1)]


def test_a_topic_that_is_compacted_and_shortened_lets_records_go(node: BenchNode) -> None:
    node.controller.add("c", log_cleanup_policy="compact,delete")
    write(node, 3, topic="c")
    assert delete(node, 1, topic="c") == [(0, 1)]


def test_a_topic_of_the_brokers_own_is_closed(node: BenchNode) -> None:
    own = replace(node.controller.add("b"), topic_id=99, name="__consumer_offsets")
    node.controller.publish(ChangeKind.CREATED, own)
    write(node, 3, topic="__consumer_offsets")
    assert delete(node, 1, topic="__consumer_offsets") == [(17, -1)]


def test_nothing_asked_is_nothing_answered(node: BenchNode) -> None:
    assert KafkaLine(node).ask(DeleteRecordsRequest(), DeleteRecordsResponse, NEWEST).topics == []


@pytest.mark.parametrize("flush", ["disk", "replicated"])
def test_when_it_is_answered_the_disk_says_it(node: BenchNode, flush: str) -> None:
    topic = node.controller.add("b", flush=flush)
    write(node, 3, 3, topic="b")
    assert delete(node, 4, topic="b") == [(0, 4)]
    written = CheckpointFile(node.data_folder.disk, node.data_folder.path, {})
    assert written.read()
    entry = written.entries[topic.topic_id, 0]
    assert entry.log_start == 5
    assert entry.recovery_point >= 4, "recovery believes no log start beyond it"


def test_followers_learn_the_new_start_without_another_record(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3, 3)
    cell.run()
    line = KafkaLine(cell.nodes[1])
    line.send(request(4), NEWEST)
    assert line.frames() == [], "the followers don't know"
    assert results(line, cell.step) == [(0, 4)]
    for broker_id in (2, 3):
        assert cell.nodes[broker_id].log().first_available == 5
    cell.change(leader=2)
    cell.run()
    assert earliest(cell.nodes[2]) == 4


def test_a_follower_out_of_sync_is_not_waited_for_and_learns_it_later(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3, 3)
    cell.run()
    cell.disconnect(1, 3)
    cell.change(in_sync=(1, 2))
    line = KafkaLine(cell.nodes[1])
    line.send(request(4), NEWEST)
    assert results(line, cell.step) == [(0, 4)]
    assert cell.nodes[3].log().first_available == 1
    cell.connect(1, 3)
    cell.run(3000)
    assert cell.nodes[3].log().first_available == 5


def test_a_follower_that_has_nothing_gets_whole_batches_and_then_the_exact_start(cell: BrokerCell) -> None:
    cell.disconnect(1, 3)
    cell.change(in_sync=(1, 2))
    write(cell.nodes[1], 3, 3, 1)
    cell.run()
    line = KafkaLine(cell.nodes[1])
    line.send(request(4), NEWEST)
    assert results(line, cell.step) == [(0, 4)]
    cell.connect(1, 3)
    cell.run(3000)
    log = cell.nodes[3].log()
    assert (log.first_available, log.last) == (5, 7)
    assert read_all(log).keys() >= {5, 6, 7}


def test_record_batches_are_cut_in_the_same_way(cell: BrokerCell) -> None:
    cell.create("k", flush="replicated", log_format="kafka")
    cell.run()
    cell.disconnect(1, 3)
    cell.change(0, "k", in_sync=(1, 2))
    cell.change(0, "a", in_sync=(1, 2))
    for count in (3, 3):
        records = [KafkaRecord(None, b"v", at, 0) for at in range(count)]
        batch = memoryview(bytearray(record_batch.encode(records, base_timestamp_ms=1)))
        node = cell.nodes[1]
        node.broker.begin_tick()
        node.partition("k").append(batch, Told(), 0)
        node.tick()
    cell.run()
    line = KafkaLine(cell.nodes[1])
    line.send(request(4, topic="k"), NEWEST)
    assert results(line, cell.step) == [(0, 4)]
    cell.connect(1, 3)
    cell.run(3000)
    for broker_id in (1, 2, 3):
        log = cell.nodes[broker_id].log("k")
        assert (log.first_available, log.last) == (5, 6)


def test_a_follower_that_is_behind_the_deletion_goes_on_at_it(cell: BrokerCell) -> None:
    write(cell.nodes[1], 2)
    cell.run()
    cell.disconnect(1, 3)
    cell.change(in_sync=(1, 2))
    log = cell.nodes[1].log()
    log.roll()
    write(cell.nodes[1], 3, 3)
    cell.run()
    line = KafkaLine(cell.nodes[1])
    line.send(request(7), NEWEST)
    assert results(line, cell.step) == [(0, 7)]
    cell.connect(1, 3)
    cell.run(3000)
    assert (cell.nodes[3].log().first_available, cell.nodes[3].log().last) == (8, 8)


def test_a_follower_in_sync_that_does_not_answer_lets_the_request_time_out(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3)
    cell.run()
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    line = KafkaLine(cell.nodes[1])
    line.send(request(2, timeout_ms=500), NEWEST)
    cell.run(400)
    assert line.frames() == []
    assert results(line, cell.run) == [(7, -1)]
    assert not cell.nodes[1].partition().start.watchers


def test_a_follower_that_leaves_the_in_sync_set_is_no_longer_waited_for(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3)
    cell.run()
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    line = KafkaLine(cell.nodes[1])
    line.send(request(2), NEWEST)
    cell.run(400)
    assert line.frames() == []
    cell.change(in_sync=(1, 2))
    assert results(line, cell.step) == [(0, 2)]


def test_only_the_leader_deletes(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3)
    cell.run()
    line = KafkaLine(cell.nodes[2])
    line.send(request(2), NEWEST)
    assert results(line, cell.step) == [(6, -1)]


def test_a_leader_that_is_deposed_says_so(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3)
    cell.run()
    cell.judge = lambda node: None
    cell.disconnect(1, 3)
    line = KafkaLine(cell.nodes[1])
    line.send(request(2), NEWEST)
    cell.run(400)
    cell.change(leader=2)
    assert results(line, cell.step) == [(6, -1)]


def test_a_client_that_leaves_ends_its_wait(cell: BrokerCell) -> None:
    write(cell.nodes[1], 3)
    cell.run()
    cell.disconnect(1, 3)
    line = KafkaLine(cell.nodes[1])
    line.send(request(2), NEWEST)
    line.session.close()
    cell.run(100)
    assert not cell.nodes[1].partition().waiters
    assert not cell.nodes[1].partition().start.watchers
    assert cell.nodes[1].log().first_available == 3


def test_a_broker_stops_while_a_checkpoint_waits_for_another(tmp_path: Path) -> None:
    """The second deletion's checkpoint would begin when the first one's has ended: during the stop."""
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", partitions=2)
        write(node, 3)
        lines = [KafkaLine(node), KafkaLine(node)]
        for offset, line in enumerate(lines, 1):
            line.send(request(offset), NEWEST)
    with BenchNode(tmp_path / "data", controller=node.controller) as again:
        assert again.broker.topics["a"].partitions[0].log.first_available == 3
