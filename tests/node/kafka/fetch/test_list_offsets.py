"""Ends of partitions and records by time, in every version."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.kafka.fetch import list_offsets
from tank_node.limits import Limits
from tank_node.log.cleaning.maintenance import maintain
from tank_protos import bundle
from tank_protos.generated.kafka import ListOffsetsRequest, ListOffsetsResponse
from tank_protos.generated.kafka.list_offsets_request import ListOffsetsPartition, ListOffsetsTopic
from tank_protos.generated.kafka.list_offsets_response import ListOffsetsPartitionResponse
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import BrokerCell, Told
from tests.support.nodes.kafka_line import KafkaLine

LATEST, EARLIEST, GREATEST, EARLIEST_HERE, TIERED = -1, -2, -3, -4, -5
NEWEST = 10


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", partitions=2)
        yield node


def write(node: BenchNode, *times: int, topic: str = "a") -> None:
    """Appends one batch with a message for each time."""
    batch = memoryview(bundle.as_batch(bundle.encode([b"v"] * len(times), timestamps=list(times))))
    node.broker.begin_tick()
    node.broker.topics[topic].partitions[0].append(batch, Told(), 0)
    node.tick()
    node.sync()


def ask(
    line: KafkaLine, version: int, *asked: ListOffsetsPartition, topic: str = "a", replica_id: int = -1
) -> list[ListOffsetsPartitionResponse]:
    request = ListOffsetsRequest(replica_id, topics=[ListOffsetsTopic(topic, list(asked))])
    response = line.ask(request, ListOffsetsResponse, version)
    assert [each.name for each in response.topics] == [topic]
    return response.topics[0].partitions


def one(
    node: BenchNode, time_ms: int, version: int = NEWEST, epoch: int = -1, replica_id: int = -1
) -> ListOffsetsPartitionResponse:
    asked = ListOffsetsPartition(0, epoch if version >= 4 else -1, time_ms)
    (result,) = ask(KafkaLine(node), version, asked, replica_id=replica_id)
    return result


def place(result: ListOffsetsPartitionResponse) -> tuple[int, int, int]:
    return result.error_code, result.offset, result.timestamp


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_the_ends_in_every_version(node: BenchNode, version: int) -> None:
    write(node, 100, 200, 300)
    assert place(one(node, LATEST, version)) == (0, 3, -1)
    assert place(one(node, EARLIEST, version)) == (0, 0, -1)


def test_the_ends_of_an_empty_partition_have_no_epoch(node: BenchNode) -> None:
    for time_ms in (LATEST, EARLIEST):
        result = one(node, time_ms)
        assert (*place(result), result.leader_epoch) == (0, 0, -1, -1)


@pytest.mark.parametrize("version", range(1, NEWEST + 1))
def test_a_time_is_answered_to_the_record_with_its_own_timestamp(node: BenchNode, version: int) -> None:
    write(node, 1000, 1010, 1090)
    write(node, 2000, 2010)
    assert place(one(node, 1005, version)) == (0, 1, 1010)
    assert place(one(node, 1050, version)) == (0, 2, 1090)
    assert place(one(node, 1999, version)) == (0, 3, 2000)


def test_beyond_the_end_of_time_there_is_no_offset_and_no_error(node: BenchNode) -> None:
    write(node, 1000)
    result = one(node, 2000)
    assert (*place(result), result.leader_epoch) == (0, -1, -1, -1)


def test_times_with_a_special_meaning_are_known_from_their_versions_on(node: BenchNode) -> None:
    write(node, 100, 300, 200)
    for time_ms, since, found in [
        (GREATEST, 7, (1, 300)),
        (EARLIEST_HERE, 8, (0, -1)),
        (TIERED, 9, (-1, -1)),
    ]:
        assert one(node, time_ms, since - 1).error_code == 35
        assert place(one(node, time_ms, since)) == (0, *found)
    assert one(node, -6).error_code == one(node, -(2**63)).error_code == 35


def test_a_timestamp_that_kafka_cannot_say_is_the_greatest_that_it_can(node: BenchNode) -> None:
    write(node, 2**64 - 1)
    assert place(one(node, 5)) == (0, 0, 2**63 - 1)


def test_version_0_lists_the_mark_and_where_segments_begin(node: BenchNode) -> None:
    log = node.broker.topics["a"].partitions[0].log
    began_ms = node.clock.now_ms()
    for _ in range(3):
        write(node, 5, 6)
        log.roll()
        node.clock.pass_ms(1000)

    def listed(time_ms: int, most: int = 10) -> list[int]:
        asked = ListOffsetsPartition(0, -1, time_ms, most)
        (result,) = ask(KafkaLine(node), 0, asked)
        assert result.error_code == 0
        return result.old_style_offsets

    assert listed(LATEST) == [6, 4, 2, 0]
    assert listed(LATEST, 2) == [6, 4]
    assert listed(LATEST, 0) == listed(LATEST, -1) == []
    assert listed(EARLIEST) == [0]
    assert listed(began_ms + 1000) == listed(began_ms + 1999) == [2, 0]
    assert listed(began_ms - 1) == []
    assert listed(began_ms + 3000) == [6, 4, 2, 0]


def test_version_0_of_an_empty_partition_is_its_one_end(node: BenchNode) -> None:
    for time_ms in (LATEST, EARLIEST):
        (result,) = ask(KafkaLine(node), 0, ListOffsetsPartition(0, -1, time_ms, 5))
        assert result.old_style_offsets == [0]


def test_the_log_start_is_exact_after_retention(node: BenchNode) -> None:
    node.controller.add("b", log_retention_secs="1")
    for _ in range(5):
        write(node, 5, 6, topic="b")
    log = node.broker.topics["b"].partitions[0].log
    log.roll()
    node.clock.pass_ms(10_000)
    maintain(log, node.clock.now_ms(), 10)
    (result,) = ask(KafkaLine(node), NEWEST, ListOffsetsPartition(0, -1, EARLIEST), topic="b")
    assert place(result) == (0, log.first_available - 1, -1)
    assert log.first_available == 11


def test_wrong_partitions_fail_alone(node: BenchNode) -> None:
    write(node, 1)
    numbers = [0, 1, 2, -1, 2**31 - 1]
    results = ask(KafkaLine(node), NEWEST, *(ListOffsetsPartition(n, -1, LATEST) for n in numbers))
    assert [result.error_code for result in results] == [0, 0, 3, 3, 3]
    assert [result.offset for result in results] == [1, 0, -1, -1, -1]
    (result,) = ask(KafkaLine(node), NEWEST, ListOffsetsPartition(0, -1, LATEST), topic="none")
    assert result.error_code == 3


def test_a_partition_that_is_named_twice_is_refused_both_times(node: BenchNode) -> None:
    asked = [ListOffsetsPartition(number, -1, LATEST) for number in (0, 1, 0)]
    assert [result.error_code for result in ask(KafkaLine(node), NEWEST, *asked)] == [42, 0, 42]


def test_another_leader_epoch_than_the_present_one_is_refused(node: BenchNode) -> None:
    epoch = node.broker.topics["a"].partitions[0].leader_epoch
    assert [one(node, LATEST, epoch=epoch + step).error_code for step in (-1, 0, 1)] == [74, 0, 75]


def test_a_follower_of_another_protocol_is_refused(node: BenchNode) -> None:
    assert one(node, LATEST, replica_id=2).error_code == 31


def test_long_searches_let_others_have_their_turn(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets, "SEARCHED_MESSAGES", 2)
    for _ in range(3):
        write(node, 100, 200)
    line, other = KafkaLine(node), KafkaLine(node)
    topics = [ListOffsetsTopic("a", [ListOffsetsPartition(number, -1, 150) for number in (0, 1, 2)])]
    line.send(ListOffsetsRequest(-1, topics=topics), NEWEST)
    assert line.frames() == []
    assert place(ask(other, NEWEST, ListOffsetsPartition(0, -1, LATEST))[0]) == (0, 6, -1)
    node.pass_ms(2)
    (frame,) = line.frames()
    _, answer = line.read(frame, ListOffsetsResponse, NEWEST)
    assert [place(result) for result in answer.topics[0].partitions] == [
        (0, 1, 200),
        (0, -1, -1),
        (3, -1, -1),
    ]


@pytest.mark.parametrize(("version", "time_ms"), [(0, LATEST), (0, 0), (NEWEST, LATEST), (NEWEST, EARLIEST)])
def test_many_plain_look_ups_let_others_have_their_turn(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch, version: int, time_ms: int
) -> None:
    monkeypatch.setattr(list_offsets, "LOOKED_UP_PARTITIONS", 2)
    line = KafkaLine(node)
    topics = [ListOffsetsTopic("a", [ListOffsetsPartition(number, -1, time_ms) for number in range(5)])]
    line.send(ListOffsetsRequest(-1, topics=topics), version)
    for _ in range(2):
        assert line.frames() == []
        node.pass_ms(2)
    (frame,) = line.frames()
    _, answer = line.read(frame, ListOffsetsResponse, version)
    assert [result.error_code for result in answer.topics[0].partitions] == [0, 0, 3, 3, 3]


def test_a_client_that_leaves_ends_its_search(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(list_offsets, "SEARCHED_MESSAGES", 1)
    write(node, 100, 200)
    line = KafkaLine(node)
    topics = [ListOffsetsTopic("a", [ListOffsetsPartition(number, -1, 150) for number in (0, 1)])]
    line.send(ListOffsetsRequest(-1, topics=topics), NEWEST)
    line.session.close()
    assert node.metrics.waiting == 0
    node.pass_ms(2)
    assert line.frames() == []


def record_batch_of(*times: int, codec: KafkaCodec) -> memoryview:
    """A producer's batch with a record for each time."""
    records = [KafkaRecord(None, b"v", at, time - times[0]) for at, time in enumerate(times)]
    return memoryview(bytearray(record_batch.encode(records, base_timestamp_ms=times[0], codec=codec)))


@pytest.mark.parametrize("codec", KafkaCodec)
def test_times_are_found_in_record_batches_whatever_their_codec(node: BenchNode, codec: KafkaCodec) -> None:
    node.controller.add("k", log_format="kafka")
    for times in ((1000, 1050, 1010), (2000, 2010)):
        node.broker.begin_tick()
        batch = record_batch_of(*times, codec=codec)
        node.broker.topics["k"].partitions[0].append(batch, Told(), 0)
        node.tick()
        node.sync()

    def found(time_ms: int) -> tuple[int, int, int]:
        (result,) = ask(KafkaLine(node), NEWEST, ListOffsetsPartition(0, -1, time_ms), topic="k")
        return place(result)

    assert found(1001) == found(1050) == (0, 1, 1050)
    assert found(1051) == (0, 3, 2000)
    assert found(2011) == (0, -1, -1)
    assert found(GREATEST) == (0, 4, 2010)
    assert (found(EARLIEST), found(LATEST)) == ((0, 0, -1), (0, 5, -1))


def test_nothing_asked_is_nothing_answered(node: BenchNode) -> None:
    assert KafkaLine(node).ask(ListOffsetsRequest(), ListOffsetsResponse, NEWEST).topics == []


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[BrokerCell]:
    cell = BrokerCell(tmp_path, brokers=3, limits=Limits(ack_timeout_ms=2000))
    cell.create(flush="replicated")
    cell.run()
    yield cell
    cell.close()


def test_the_epoch_is_the_records_and_not_the_present_one(cell: BrokerCell) -> None:
    write(cell.nodes[1], 1000, 1001)
    cell.run()
    cell.change(leader=2)
    cell.run()
    write(cell.nodes[2], 2000)
    cell.run()
    cell.change(leader=3)
    cell.run()
    node = cell.nodes[3]
    found = {time_ms: one(node, time_ms) for time_ms in (EARLIEST, LATEST, 1001, 1500, GREATEST)}
    assert {time_ms: (result.offset, result.leader_epoch) for time_ms, result in found.items()} == {
        EARLIEST: (0, 1),
        LATEST: (3, 2),
        1001: (1, 1),
        1500: (2, 2),
        GREATEST: (2, 2),
    }
    assert node.partition().leader_epoch == 3


def test_only_the_leader_answers_but_a_debugger_reads_any_replica(cell: BrokerCell) -> None:
    write(cell.nodes[1], 1000, 1001)
    cell.run()
    assert one(cell.nodes[2], LATEST).error_code == 6
    assert place(one(cell.nodes[2], LATEST, replica_id=-2)) == (0, 2, -1)
    assert place(one(cell.nodes[2], 1001, replica_id=-2)) == (0, 1, 1001)


def unsettled(cell: BrokerCell) -> KafkaLine:
    """Broker 2 leads with two messages, and hears nothing from broker 3, without which it can't know which of
    them were shown."""
    write(cell.nodes[1], 1000)
    cell.run()
    write(cell.nodes[1], 2000)
    cell.step()
    assert cell.nodes[2].log().last == 2
    for one, other in ((1, 2), (1, 3), (2, 3)):
        cell.disconnect(one, other)
    cell.judge = lambda node: None
    cell.change(leader=2, in_sync=(2, 3))
    assert not cell.nodes[2].partition().end_known
    return KafkaLine(cell.nodes[2])


def send(line: KafkaLine, time_ms: int, version: int) -> None:
    topic = ListOffsetsTopic("a", [ListOffsetsPartition(0, -1, time_ms)])
    line.send(ListOffsetsRequest(-1, topics=[topic]), version)


def results(line: KafkaLine, version: int) -> list[ListOffsetsPartitionResponse]:
    return [
        line.read(frame, ListOffsetsResponse, version)[1].topics[0].partitions[0] for frame in line.frames()
    ]


def test_a_leader_that_does_not_know_its_end_waits_for_it(cell: BrokerCell) -> None:
    line = unsettled(cell)
    send(line, LATEST, NEWEST)
    cell.run()
    assert results(line, NEWEST) == []
    cell.connect(2, 3)
    cell.run(1500)
    (result,) = results(line, NEWEST)
    assert place(result) == (0, 2, -1)


@pytest.mark.parametrize(("version", "error"), [(0, 5), (1, 5), (4, 5), (5, 78), (NEWEST, 78)])
def test_after_a_while_it_says_that_it_does_not_know(cell: BrokerCell, version: int, error: int) -> None:
    line = unsettled(cell)
    send(line, LATEST, version)
    cell.run(2200, step_ms=100)
    (result,) = results(line, version)
    assert result.error_code == error


def test_the_log_start_is_known_at_once(cell: BrokerCell) -> None:
    line = unsettled(cell)
    send(line, EARLIEST, NEWEST)
    (result,) = results(line, NEWEST)
    assert place(result) == (0, 0, -1)


def test_a_client_that_leaves_ends_its_wait(cell: BrokerCell) -> None:
    line = unsettled(cell)
    send(line, LATEST, NEWEST)
    assert cell.nodes[2].broker.deadlines.entries == 1
    line.session.close()
    assert cell.nodes[2].broker.deadlines.entries == 0
    cell.run(2200, step_ms=100)
    assert line.frames() == []
