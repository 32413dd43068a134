"""What a Produce request stores and answers: in every version, with all acks, and each partition for
itself."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.view import BrokerView, ChangeKind, PartitionView, TopicView
from tank_node.kafka.produce.produce_answer import NoAnswer
from tank_node.log.log import PartitionLog
from tank_protos.generated.kafka import ProduceResponse
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.record_batch import ProducerFields
from tank_protos.wire.errors import WireError
from tests.support.clients.kafka_producer import NEWEST, Producer, batch_of, records_for, set_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.logs import read_all

EVERY = range(NEWEST + 1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        yield node


def log_of(node: BenchNode, number: int = 0, topic: str = "a") -> PartitionLog:
    return node.broker.topics[topic].partitions[number].log


def stored(node: BenchNode, number: int = 0, topic: str = "a") -> list[bytes]:
    return list(read_all(log_of(node, number, topic)).values())


# --- what is stored, and the answer ----------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY)
def test_records_are_stored_in_every_version_and_get_their_first_offset(
    node: BenchNode, version: int
) -> None:
    line = Producer(node, version)
    first = line.produce(records_for(version, b"one", b"two"))
    second = line.produce(records_for(version, b"three"))
    assert (first.error_code, first.base_offset) == (0, 0)
    assert (second.error_code, second.base_offset) == (0, 2)
    assert stored(node) == [b"one", b"two", b"three"]
    assert second.log_append_time_ms == -1
    assert second.log_start_offset == (0 if version >= 5 else -1)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("version", [0, 2, 3, 8, NEWEST])
def test_one_request_names_many_partitions_and_a_wrong_one_fails_alone(
    node: BenchNode, version: int, acks: int
) -> None:
    line = Producer(node, version)
    parts = [(number, records_for(version, b"%d" % number)) for number in (0, 7, 2, -1)]
    answer = line.ask(line.request(*parts, acks=acks), ProduceResponse, version)
    (topic,) = answer.responses
    assert [(each.index, each.error_code, each.base_offset) for each in topic.partition_responses] == [
        (0, 0, 0),
        (7, 3, -1),
        (2, 0, 0),
        (-1, 3, -1),
    ]
    assert (stored(node, 0), stored(node, 2)) == ([b"0"], [b"2"])


@pytest.mark.parametrize("version", [0, 8, 12])
def test_an_unknown_topic_is_unknown_by_name(node: BenchNode, version: int) -> None:
    result = Producer(node, version).produce(records_for(version, b"x"), topic="b")
    assert (result.error_code, result.base_offset, result.log_start_offset) == (3, -1, -1)


def test_an_unknown_topic_is_unknown_by_id(node: BenchNode) -> None:
    line = Producer(node)
    for topic_id in (bytes(16), b"\1" * 16):
        request = line.request((0, batch_of(b"x")), topic_id=topic_id)
        answer = line.ask(request, ProduceResponse, NEWEST)
        (topic,) = answer.responses
        assert topic.topic_id == topic_id
        assert topic.partition_responses[0].error_code == 100


def test_an_id_is_unknown_while_the_broker_still_has_another_topic_of_that_name(node: BenchNode) -> None:
    line = Producer(node)
    request = line.request((0, batch_of(b"x")))
    node.controller.add("b", flush="replicated")
    node.broker.topics["a"] = node.broker.topics["b"]
    (topic,) = line.ask(request, ProduceResponse, NEWEST).responses
    assert topic.partition_responses[0].error_code == 100
    assert stored(node, topic="b") == []


def test_the_id_of_a_topic_that_was_made_again_is_unknown(node: BenchNode) -> None:
    line = Producer(node)
    request = line.request((0, batch_of(b"x")))
    (old,) = request.topic_data
    node.controller.delete_topic("a", lambda outcome: None)
    node.controller.add("a", flush="replicated")
    request = line.request((0, batch_of(b"x")), topic_id=old.topic_id)
    (topic,) = line.ask(request, ProduceResponse, NEWEST).responses
    assert topic.partition_responses[0].error_code == 100
    assert line.produce(batch_of(b"x")).error_code == 0


@pytest.mark.parametrize("version", [0, 9])
@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_the_clusters_own_topics_take_nothing_from_clients(node: BenchNode, version: int, name: str) -> None:
    assert Producer(node, version).produce(records_for(version, b"x"), topic=name).error_code == 17


# --- acks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY)
def test_acks_of_0_has_no_answer_and_the_next_request_has_one(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    line.send(line.request((0, records_for(version, b"quiet")), acks=0), version)
    assert line.frames() == []
    assert line.produce(records_for(version, b"loud")).base_offset == 1
    assert stored(node) == [b"quiet", b"loud"]
    assert line.session.in_flight == 0


def test_a_failed_request_with_acks_0_closes_the_connection(node: BenchNode) -> None:
    line = Producer(node)
    with pytest.raises(NoAnswer):
        line.send(line.request((0, batch_of(b"good")), (9, batch_of(b"x")), acks=0), NEWEST)
    line.session.close()
    node.tick()
    assert line.frames() == []
    assert stored(node) == [b"good"], "what was right is stored"


def test_a_disk_that_refuses_a_write_with_acks_0_closes_the_connection(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Producer(node)
    line.produce(batch_of(b"x"))

    def refuse(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tank_node.disk.OsDisk.write_at", refuse)
    line.send(line.request((0, batch_of(b"x")), acks=0), NEWEST)
    assert line.ended == "failed_without_answer"
    assert line.frames() == []


@pytest.mark.parametrize(("version", "acks"), [(0, 2), (1, 3), (2, 32767)])
def test_old_clients_may_count_replicas_and_get_all_that_are_in_sync(
    node: BenchNode, version: int, acks: int
) -> None:
    assert Producer(node, version).produce(records_for(version, b"x"), acks=acks).error_code == 0


@pytest.mark.parametrize(("version", "acks"), [(0, -2), (3, 2), (8, -2), (NEWEST, 3)])
def test_other_acks_are_refused_for_each_partition(node: BenchNode, version: int, acks: int) -> None:
    result = Producer(node, version).produce(records_for(version, b"x"), acks=acks)
    assert (result.error_code, result.base_offset) == (21, -1)
    assert stored(node) == []


def test_acks_of_all_waits_for_the_fsync_and_answers_in_order(node: BenchNode) -> None:
    node.controller.add("d", flush="disk")
    line = Producer(node)
    for value in (b"1", b"2", b"3"):
        line.feed(line.frame(line.request((0, batch_of(value)), topic="d"), NEWEST))
    assert line.frames() == []
    node.sync()
    assert line.correlation_ids() == [1, 2, 3]


def test_a_timeout_of_0_is_over_at_once_and_the_messages_stay(node: BenchNode) -> None:
    node.controller.add("d", flush="disk")
    line = Producer(node)
    line.send(line.request((0, batch_of(b"x")), topic="d", timeout_ms=0), NEWEST)
    node.pass_ms(1)
    node.broker.give_up_late()
    (frame,) = line.frames()
    _, answer = line.read(frame, ProduceResponse, NEWEST)
    assert answer.responses[0].partition_responses[0].error_code == 7
    node.sync()
    assert stored(node, topic="d") == [b"x"]


# --- requests in a pipeline, and their bounds ------------------------------------------------------


def test_a_run_of_requests_in_one_receive_is_stored_in_order(node: BenchNode) -> None:
    line = Producer(node)
    frames = [line.frame(line.request((0, batch_of(b"%d" % i))), NEWEST) for i in range(50)]
    line.feed(b"".join(frames))
    assert line.correlation_ids() == list(range(1, 51))
    assert stored(node) == [b"%d" % i for i in range(50)]


@pytest.mark.parametrize("version", EVERY)
def test_a_frame_that_ends_anywhere_closes_the_connection_and_stores_nothing(
    node: BenchNode, version: int
) -> None:
    line = Producer(node, version)
    frame = line.frame(line.request((0, records_for(version, b"x"))), version)
    for length in range(14, len(frame) - 4):
        cut = length.to_bytes(4, "big") + frame[4 : 4 + length]
        line = Producer(node, version)
        with pytest.raises(WireError):
            line.feed(cut)
    node.tick()
    assert stored(node) == []


# --- the records -----------------------------------------------------------------------------------


def test_v3_and_later_take_exactly_one_batch_of_magic_2(node: BenchNode) -> None:
    line = Producer(node, 8)
    for records in (None, b"", batch_of(b"x") + batch_of(b"y"), set_of(b"x"), set_of(b"x", magic=1)):
        result = line.produce(records)
        assert (result.error_code, result.base_offset) == (87, -1)
        assert result.error_message
    assert stored(node) == []


@pytest.mark.parametrize("version", [0, 2, 3, NEWEST])
def test_records_that_changed_on_their_way_are_corrupt(node: BenchNode, version: int) -> None:
    records = bytearray(records_for(version, b"x"))
    records[-1] ^= 1
    assert Producer(node, version).produce(bytes(records)).error_code == 2


@pytest.mark.parametrize("version", range(3, NEWEST + 1))
def test_zstd_is_refused_before_version_7(node: BenchNode, version: int) -> None:
    result = Producer(node, version).produce(batch_of(b"x" * 100, codec=KafkaCodec.ZSTD))
    assert result.error_code == (76 if version < 7 else 0)


@pytest.mark.parametrize("codec", list(KafkaCodec))
def test_every_codec_is_taken(node: BenchNode, codec: KafkaCodec) -> None:
    assert Producer(node).produce(batch_of(b"x" * 100, codec=codec)).error_code == 0
    assert stored(node) == [b"x" * 100]


@pytest.mark.parametrize("version", [0, NEWEST])
def test_a_batch_above_the_topics_limit_is_too_large(node: BenchNode, version: int) -> None:
    node.controller.add("small", flush="replicated", max_message_bytes="200")
    line = Producer(node, version)
    assert line.produce(records_for(version, b"x" * 50), topic="small").error_code == 0
    assert line.produce(records_for(version, b"x" * 500), topic="small").error_code == 10


@pytest.mark.parametrize("version", [0, 2])
def test_an_old_set_is_stored_as_one_or_not_at_all(node: BenchNode, version: int) -> None:
    magic = int(version == 2)
    good = set_of(b"a", b"b", magic=magic, timestamp_ms=5 if magic else -1)
    line = Producer(node, version)
    assert line.produce(good + good).base_offset == 0
    broken = bytearray(good + good)
    broken[-1] ^= 1
    assert line.produce(bytes(broken)).error_code == 2
    assert stored(node) == [b"a", b"b", b"a", b"b"]
    assert node.metrics.converted["produced_set"] == 1


@pytest.mark.parametrize("version", EVERY)
def test_what_a_tank_topic_cannot_hold_is_refused_with_the_records_place(
    node: BenchNode, version: int
) -> None:
    line = Producer(node, version)
    if version < 3:
        result = line.produce(set_of(b"a", None, magic=int(version == 2)))
    else:
        result = line.produce(batch_of(b"a", None))
    assert (result.error_code, result.base_offset) == (87, -1)
    if version >= 8:
        (wrong,) = result.record_errors
        assert wrong.batch_index == 1
        assert "log.format=kafka" in (result.error_message or "")
    assert stored(node) == []


def test_a_lenient_topic_stores_what_it_can_hold(node: BenchNode) -> None:
    node.controller.add("lenient", flush="replicated", transcode="lenient")
    result = Producer(node).produce(batch_of(b"a", None, headers=((b"h", b"v"),)), topic="lenient")
    assert (result.error_code, result.base_offset) == (0, 0)
    assert stored(node, topic="lenient") == [b"a", b""]
    assert node.metrics.converted["produced_lossy"] == 1


@pytest.mark.parametrize("version", [1, 8, NEWEST])
def test_a_compacted_topic_wants_a_key_in_each_record(node: BenchNode, version: int) -> None:
    node.controller.add("c", flush="replicated", log_cleanup_policy="cleanup")
    line = Producer(node, version)
    if version < 3:
        assert line.produce(set_of(b"x"), topic="c").error_code == 87
        return
    result = line.produce(batch_of(b"x", b"y", keys=(b"k", None)), topic="c")
    assert result.error_code == 87
    assert [each.batch_index for each in result.record_errors] == [1]
    assert line.produce(batch_of(b"x", None, keys=(b"k", b"k")), topic="c").base_offset == 0


def test_a_time_too_far_ahead_or_behind_is_refused(node: BenchNode) -> None:
    node.broker.begin_tick()
    now_ms = node.broker.tick.now_ms
    line = Producer(node, 8)
    ahead = 3_600_000
    assert line.produce(batch_of(b"x", timestamp_ms=now_ms + ahead)).error_code == 0
    assert line.produce(batch_of(b"x", timestamp_ms=now_ms + ahead + 1)).error_code == 32
    node.controller.add("b", flush="replicated", message_timestamp_before_max_ms="1000")
    assert line.produce(batch_of(b"x", timestamp_ms=now_ms - 1000), topic="b").error_code == 0
    assert line.produce(batch_of(b"x", timestamp_ms=now_ms - 1001), topic="b").error_code == 32
    assert line.produce(batch_of(b"x", timestamp_ms=-1), topic="b").error_code == 0


@pytest.mark.parametrize("version", range(2, NEWEST + 1))
def test_the_time_of_the_append_is_in_the_answer_where_the_records_have_it(
    node: BenchNode, version: int
) -> None:
    node.controller.add("t", flush="replicated", message_timestamp_type="LogAppendTime")
    line = Producer(node, version)
    result = line.produce(records_for(version, b"x"), topic="t")
    assert (result.error_code, result.log_append_time_ms) == (0, node.broker.tick.now_ms)
    assert Producer(node, version).produce(records_for(version, b"x")).log_append_time_ms == -1


def test_a_batch_in_a_transaction_is_refused(node: BenchNode) -> None:
    batch = batch_of(b"x", producer=ProducerFields(5, 0, 0), transactional=True)
    result = Producer(node).produce(batch)
    assert (result.error_code, result.error_message) == (48, "transactions are not served")


# --- partitions that take nothing ------------------------------------------------------------------


@pytest.mark.parametrize("version", EVERY)
def test_a_failed_disk_is_a_storage_error_or_another_leader_before_version_4(
    node: BenchNode, version: int
) -> None:
    log_of(node).fail("a disk of the test")
    node.broker.topics["a"].partitions[0].note_state()
    result = Producer(node, version).produce(records_for(version, b"x"))
    assert result.error_code == (56 if version > 3 else 6)
    assert result.base_offset == -1


@pytest.mark.parametrize("version", EVERY)
def test_another_leader_is_named_with_its_address_from_version_10_on(node: BenchNode, version: int) -> None:
    topic = node.controller.view.topic("a")
    assert topic is not None
    brokers = node.controller.view.brokers
    brokers[2] = BrokerView(2, 1, "other", 11011, "", kafka_host="kafka.other", kafka_port=9093)
    placed = [PartitionView(n, 2, 7, 2, (2,), (2,)) for n in range(3)]
    moved = TopicView(topic.topic_id, "a", 1, topic.settings, topic.settings_text, placed)
    node.controller.publish(ChangeKind.ALTERED, moved)
    line = Producer(node, version)
    request = line.request((0, records_for(version, b"x")), (1, records_for(version, b"y")))
    answer = line.ask(request, ProduceResponse, version)
    for result in answer.responses[0].partition_responses:
        assert (result.error_code, result.base_offset) == (6, -1)
        leader = result.current_leader
        assert (leader.leader_id, leader.leader_epoch) == ((2, 7) if version >= 10 else (-1, -1))
    nodes = [(each.node_id, each.host, each.port) for each in answer.node_endpoints]
    assert nodes == ([(2, "kafka.other", 9093)] if version >= 10 else [])
