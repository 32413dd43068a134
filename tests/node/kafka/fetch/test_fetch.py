"""What a Fetch finds: in every version, within its limits, and the error of each partition."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.broker.topic_ids import topic_uuid
from tank_node.cluster.view import BrokerView, ChangeKind, PartitionView, TopicView
from tank_node.limits import Limits
from tank_node.log.recovery.mend import mend
from tank_protos import bundle, topic_settings
from tank_protos.generated.kafka import FetchResponse
from tank_protos.generated.kafka.fetch_request import FetchTopic
from tank_protos.generated.kafka.fetch_response import LeaderIdAndEpoch
from tank_protos.kafka import record_batch
from tank_protos.wire.buffer import Buffer
from tests.support.clients.kafka_fetcher import NEWEST, Fetcher, Read, records_of, values, want
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import Told

EVERY = range(NEWEST + 1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        yield node


def write(node: BenchNode, *contents: bytes, number: int = 0, topic: str = "a") -> None:
    """Appends one batch with these contents, at times 1000, 1001 and so on."""
    data = bundle.encode(list(contents), timestamps=[1000 + i for i in range(len(contents))])
    put(node, data, number, topic)


def put(node: BenchNode, data: bytes, number: int = 0, topic: str = "a") -> None:
    node.broker.begin_tick()
    partition = node.broker.topics[topic].partitions[number]
    partition.append(memoryview(bundle.as_batch(data)), Told(), 0)
    node.tick()


@pytest.mark.parametrize("version", EVERY)
def test_messages_of_a_tank_topic_come_as_records_in_every_version(node: BenchNode, version: int) -> None:
    write(node, b"one", b"two")
    write(node, b"three")
    line = Fetcher(node, version)
    partition = line.fetch(0)
    stamps = [1000, 1001, 1000] if version >= 2 else [-1] * 3
    assert line.records(partition) == [
        Read(offset, stamp, None, value)
        for offset, stamp, value in zip(range(3), stamps, [b"one", b"two", b"three"], strict=True)
    ]
    assert (partition.error_code, partition.high_watermark) == (0, 3)
    assert partition.last_stable_offset == (3 if version >= 4 else -1)
    assert partition.log_start_offset == (0 if version >= 5 else -1)
    assert partition.preferred_read_replica == -1


@pytest.mark.parametrize("version", EVERY)
def test_empty_records_have_a_length_of_0_and_are_not_null(node: BenchNode, version: int) -> None:
    partition = Fetcher(node, version).fetch(0)
    assert partition.error_code == 0
    assert partition.records is not None
    assert len(partition.records) == 0


@pytest.mark.parametrize("version", range(4, NEWEST + 1))
def test_aborted_transactions_are_null_unless_committed_data_was_asked_for(
    node: BenchNode, version: int
) -> None:
    line = Fetcher(node, version)
    assert line.fetch(0, isolation=0).aborted_transactions is None
    assert line.fetch(0, isolation=1).aborted_transactions == []


def test_a_batch_that_begins_before_the_offset_comes_whole(node: BenchNode) -> None:
    write(node, b"one", b"two", b"three")
    line = Fetcher(node)
    assert values(line.records(line.fetch(2))) == [b"one", b"two", b"three"]


@pytest.mark.parametrize("version", range(4))
def test_a_message_set_begins_at_the_offset(node: BenchNode, version: int) -> None:
    write(node, b"one", b"two", b"three")
    line = Fetcher(node, version)
    assert values(line.records(line.fetch(2))) == [b"three"]


@pytest.mark.parametrize("version", range(4))
def test_a_message_set_is_cut_at_the_limit_but_has_one_message(node: BenchNode, version: int) -> None:
    write(node, b"x" * 100, b"y" * 100, b"z" * 100)
    line = Fetcher(node, version)
    for limit, count in [(1, 1), (150, 1), (300, 2), (1000, 3)]:
        response = line.asks(line.request(line.topic("a", want(0, max_bytes=limit))))
        assert len(line.records(response.responses[0].partitions[0])) == count


def test_a_key_stays_and_empty_content_is_a_tombstone_where_the_topic_compacts(node: BenchNode) -> None:
    node.controller.add("c", 1, flush="replicated", **{"log.cleanup.policy": "cleanup"})
    data = bundle.encode([b"", b"v"], timestamps=5, keys=[b"k", b"l"])
    for topic, empty in (("a", b""), ("c", None)):
        put(node, data, topic=topic)
        line = Fetcher(node)
        response = line.asks(line.request(line.topic(topic, want(0))))
        found = line.records(response.responses[0].partitions[0])
        assert [(record.key, record.value) for record in found] == [(b"k", empty), (b"l", b"v")]


def test_numbers_with_gaps_keep_their_offsets(node: BenchNode) -> None:
    put(node, bundle.encode_sparse([3, 9], [b"three", b"nine"], timestamps=1))
    write(node, b"ten")
    line = Fetcher(node)
    assert line.fetch(0).error_code == 1, "the log begins at offset 2"
    found = line.records(line.fetch(2))
    assert [record.offset for record in found] == [2, 8, 9]
    assert values(line.records(line.fetch(5))) == [b"three", b"nine", b"ten"]
    assert values(line.records(line.fetch(9))) == [b"ten"]


@pytest.mark.parametrize("version", range(4, NEWEST + 1))
def test_a_client_gets_past_an_end_that_damage_has_taken(node: BenchNode, version: int) -> None:
    write(node, b"kept")
    write(node, b"lost", b"lost")
    log = node.broker.topics["a"].partitions[0].log
    *_, record = log.segments[-1].index.records()
    with open(log.segments[-1].path(".log"), "r+b") as file:
        file.seek(record.position + record.length - 1)
        file.write(b"?")
    log.spoiled("a bad batch")
    assert mend(log, 1000).lost == [(2, 3)]
    line = Fetcher(node, version)
    offset = 0
    for expected, following in [([b"kept"], 1), ([], 3)]:
        partition = line.fetch(offset, wait_ms=1000)
        assert (partition.error_code, partition.high_watermark) == (0, 3)
        assert values(line.records(partition)) == expected
        assert partition.records
        *_, last = record_batch.batches(partition.records)
        offset = record_batch.read_header(last).last_offset + 1
        assert offset == following
    line.send(line.request(line.topic("a", want(offset)), wait_ms=1000), version)
    assert line.answered() is None


# --- limits --------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [3, 4, 11, 12, 18])
def test_the_first_partition_may_exceed_the_limit_by_a_batch_and_no_later_one(
    node: BenchNode, version: int
) -> None:
    for number in range(3):
        write(node, b"x" * 1000, number=number)
        write(node, b"y" * 1000, number=number)
    line = Fetcher(node, version)
    topic = line.topic("a", want(0), want(0, 1), want(0, 2))
    (answer,) = line.asks(line.request(topic, max_bytes=10)).responses
    assert [len(line.records(partition)) for partition in answer.partitions] == [1, 0, 0]
    (answer,) = line.asks(line.request(topic, max_bytes=3500)).responses
    assert [len(line.records(partition)) for partition in answer.partitions] == [2, 1, 0]


def test_an_empty_first_partition_leaves_the_excess_to_the_next(node: BenchNode) -> None:
    write(node, b"x" * 1000, number=1)
    line = Fetcher(node)
    (answer,) = line.asks(line.request(line.topic("a", want(0), want(0, 1)), max_bytes=1)).responses
    assert [len(line.records(partition)) for partition in answer.partitions] == [0, 1]


def test_a_partitions_limit_holds_for_all_but_its_first_batch(node: BenchNode) -> None:
    for _ in range(3):
        write(node, b"x" * 1000)
    line = Fetcher(node)
    for limit, count in [(0, 1), (1, 1), (2500, 2), (10_000, 3)]:
        (answer,) = line.asks(line.request(line.topic("a", want(0, max_bytes=limit)))).responses
        assert len(line.records(answer.partitions[0])) == count


@pytest.mark.parametrize("version", [0, 2])
def test_without_an_answers_limit_each_partition_gets_a_message(node: BenchNode, version: int) -> None:
    for number in range(3):
        write(node, b"x" * 1000, number=number)
    line = Fetcher(node, version)
    wanted = [want(0, number, max_bytes=1) for number in range(3)]
    (answer,) = line.asks(line.request(line.topic("a", *wanted))).responses
    assert [len(line.records(partition)) for partition in answer.partitions] == [1, 1, 1]


def test_converted_bytes_of_an_answer_are_bounded(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(converted_answer_bytes=2500)) as node:
        node.controller.add("a", 2, flush="replicated")
        for number in range(2):
            for _ in range(4):
                write(node, b"x" * 1000, number=number)
        line = Fetcher(node)
        (answer,) = line.asks(line.request(line.topic("a", want(0), want(0, 1)))).responses
        assert [len(line.records(partition)) for partition in answer.partitions] == [2, 0]


def test_a_compressed_batch_that_unpacks_beyond_the_bound_comes_alone(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(converted_answer_bytes=2500)) as node:
        node.controller.add("a", 1, flush="replicated")
        for _ in range(2):
            put(node, bundle.encode([b"x" * 50_000], timestamps=1, codec=bundle.Codec.SNAPPY))
        line = Fetcher(node)
        assert len(line.records(line.fetch(0))) == 1
        assert len(line.records(line.fetch(1))) == 1


def test_answers_are_smaller_while_much_memory_is_held(node: BenchNode) -> None:
    for _ in range(10):
        write(node, b"x" * 1000)
    node.metrics.held_bytes = node.broker.limits.memory_bytes - 8 * 2500
    line = Fetcher(node)
    assert len(line.records(line.fetch(0))) == 2


# --- errors --------------------------------------------------------------------------------------


def epochs_of(chunk: Buffer) -> list[int]:
    return [record_batch.read_header(batch).leader_epoch for batch in record_batch.batches(chunk)]


def errors(response: FetchResponse) -> list[int]:
    return [partition.error_code for topic in response.responses for partition in topic.partitions]


@pytest.mark.parametrize("version", EVERY)
def test_a_wrong_partition_fails_alone(node: BenchNode, version: int) -> None:
    write(node, b"one")
    line = Fetcher(node, version)
    response = line.asks(
        line.request(line.topic("a", want(0), want(0, 7), want(0, -1)), line.topic("nope", want(0)))
    )
    assert errors(response) == [0, 3, 3, 100 if version >= 13 else 3]
    (good, *bad) = [partition for topic in response.responses for partition in topic.partitions]
    assert values(line.records(good)) == [b"one"]
    assert all(partition.high_watermark == -1 and partition.records == b"" for partition in bad)


def test_topics_by_id_are_answered_by_id(node: BenchNode) -> None:
    line = Fetcher(node)
    asked = line.topic("a", want(0))
    (topic,) = line.asks(line.request(asked)).responses
    assert (topic.topic, topic.topic_id) == ("", asked.topic_id)


def test_the_id_of_a_topic_that_was_made_again_is_unknown(node: BenchNode) -> None:
    line = Fetcher(node)
    old = line.topic("a", want(0))
    node.controller.delete_topic("a", lambda outcome: None)
    node.controller.add("a", 1, flush="replicated")
    assert errors(line.asks(line.request(old))) == [100]
    assert errors(line.asks(line.request(line.topic("a", want(0))))) == [0]


def test_an_id_is_unknown_while_the_broker_still_has_another_topic_of_that_name(node: BenchNode) -> None:
    """The topic was deleted and made again, and the view is ahead of what the broker serves."""
    line = Fetcher(node)
    asked = line.request(line.topic("a", want(0)))
    node.controller.add("b", 1, flush="replicated")
    node.broker.topics["a"] = node.broker.topics["b"]
    assert errors(line.asks(asked)) == [100]


def test_an_id_of_another_cluster_is_unknown(node: BenchNode) -> None:
    line = Fetcher(node)
    stranger = FetchTopic(topic_id=topic_uuid("another", 1), partitions=[want(0)])
    assert errors(line.asks(line.request(stranger))) == [100]


@pytest.mark.parametrize("version", EVERY)
def test_offsets_out_of_range_are_an_error_and_the_end_is_not(node: BenchNode, version: int) -> None:
    write(node, b"one", b"two")
    line = Fetcher(node, version)
    assert [line.fetch(offset).error_code for offset in (0, 2, 3, -1, 2**63 - 1)] == [0, 0, 1, 1, 1]


@pytest.mark.parametrize("version", EVERY)
def test_a_strangers_replica_is_refused(node: BenchNode, version: int) -> None:
    write(node, b"one")
    line = Fetcher(node, version)
    response = line.asks(line.request(line.topic("a", want(0)), replica_id=5))
    if version >= 7:
        assert (response.error_code, response.responses) == (31, [])
    else:
        assert errors(response) == [31]


def other_leader(node: BenchNode, epoch: int = 7, leader: int = 2) -> None:
    """Broker 2 leads partition 0 of topic "b"; this one has a replica."""
    view = node.controller.view
    view.brokers[2] = BrokerView(
        2, 1, "b2", 11011, "r1", False, False, False, "o2", 31011, "k2", 9092, "out.test", 31092
    )
    placed = PartitionView(0, leader, epoch, 1, (1, 2), (1, 2))
    node.controller.publish(
        ChangeKind.CREATED, TopicView(50, "b", 2, topic_settings.from_pairs({}), {}, [placed])
    )


@pytest.mark.parametrize("version", EVERY)
def test_another_leader_is_named_with_its_address(node: BenchNode, version: int) -> None:
    other_leader(node)
    line = Fetcher(node, version)
    response = line.asks(line.request(line.topic("b", want(0))))
    ((partition,),) = [topic.partitions for topic in response.responses]
    assert partition.error_code == 6
    assert partition.current_leader == (LeaderIdAndEpoch(2, 7) if version >= 12 else LeaderIdAndEpoch())
    endpoints = [(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]
    assert endpoints == ([(2, "k2", 9092, "r1")] if version >= 16 else [])


def test_a_client_outside_gets_the_leaders_outside_address(node: BenchNode) -> None:
    other_leader(node)
    line = Fetcher(node, is_outside=True)
    response = line.asks(line.request(line.topic("b", want(0))))
    assert [(each.host, each.port) for each in response.node_endpoints] == [("out.test", 31092)]


def test_without_a_leader_none_is_named(node: BenchNode) -> None:
    other_leader(node, leader=0)
    line = Fetcher(node)
    response = line.asks(line.request(line.topic("b", want(0))))
    ((partition,),) = [topic.partitions for topic in response.responses]
    assert (partition.error_code, partition.current_leader) == (6, LeaderIdAndEpoch())
    assert response.node_endpoints == []


def test_a_debugging_reader_takes_any_replica(node: BenchNode) -> None:
    write(node, b"one")
    line = Fetcher(node)
    assert values(line.records(line.fetch(0, replica_id=-2))) == [b"one"]
    topic = node.controller.view.topic("a")
    assert topic is not None
    placed = PartitionView(0, 2, 2, 2, (1, 2), (1, 2))
    node.controller.publish(
        ChangeKind.ALTERED,
        TopicView(
            topic.topic_id, "a", 2, topic.settings, topic.settings_text, [placed, *topic.partitions[1:]]
        ),
    )
    assert line.fetch(0).error_code == 6
    assert values(line.records(line.fetch(0, replica_id=-2))) == [b"one"]
    assert line.fetch(9, replica_id=-2).error_code == 1


@pytest.mark.parametrize("version", EVERY)
def test_a_damaged_log_is_a_storage_error_where_the_version_knows_it(node: BenchNode, version: int) -> None:
    write(node, b"one")
    partition = node.broker.topics["a"].partitions[0]
    partition.log.damage("a bad batch")
    partition.note_state()
    assert Fetcher(node, version).fetch(0).error_code == (56 if version >= 6 else 6)


def test_too_few_replicas_refuse_appends_and_not_fetches(node: BenchNode) -> None:
    write(node, b"one")
    node.broker.topics["a"].partitions[0].set_in_sync(1, 2)
    line = Fetcher(node)
    assert values(line.records(line.fetch(0))) == [b"one"]


def test_fetches_are_counted_with_their_errors_and_bytes(node: BenchNode) -> None:
    write(node, b"one")
    line = Fetcher(node, 12)
    line.fetch(0)
    sent = node.metrics.consumed_bytes
    assert sent > 61
    line.fetch(50)
    assert node.metrics.consumed_bytes == sent
    assert node.metrics.kafka_requests["Fetch", 12, "ok"] == 1
    assert node.metrics.kafka_requests["Fetch", 12, "offset_out_of_range"] == 1
    assert node.metrics.errors["fetch", "offset_out_of_range"] == 1


def test_every_batch_has_the_leader_epoch_in_which_it_was_written(node: BenchNode) -> None:
    write(node, b"one")
    node.broker.topics["a"].partitions[0].leader_epoch = 4
    write(node, b"two")
    line = Fetcher(node)
    found = line.fetch(0)
    assert found.records is not None
    assert values(records_of(found.records)) == [b"one", b"two"]
    assert epochs_of(found.records) == [1, 4]
