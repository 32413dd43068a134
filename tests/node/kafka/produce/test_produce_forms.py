"""Learned Produce requests: they are answered as their handler would, and stored without a decoder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.cluster.link import TopicAlteration
from tank_node.cluster.view import ChangeKind, PartitionView, TopicView
from tank_node.kafka.dispatch import open_session
from tank_node.limits import Limits
from tank_node.security.gate import Gate
from tank_protos.generated.kafka import ProduceRequest, ProduceResponse
from tank_protos.kafka.record_batch import ProducerFields
from tank_protos.wire.errors import WireError
from tests.support.clients.kafka_producer import NEWEST, Producer, batch_of, records_for
from tests.support.examples import examples
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.logs import read_all

LEARNED = range(3, NEWEST + 1)


class Decoded(Exception):
    """A request was decoded that should be known."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        node.controller.add("k", flush="replicated", log_format="kafka")
        node.controller.add("t", flush="replicated", message_timestamp_type="LogAppendTime")
        yield node


def forbid_decoding(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Decoded

    patch.setattr(ProduceRequest, "decode", refuse)


@pytest.mark.parametrize("acks", [1, -1])
@pytest.mark.parametrize("topic", ["a", "k", "t"])
@pytest.mark.parametrize("version", LEARNED)
def test_a_second_request_is_not_decoded_and_answered_as_the_first(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch, version: int, topic: str, acks: int
) -> None:
    line = Producer(node, version)
    first = line.produce(batch_of(b"1", b"2"), topic=topic, acks=acks)
    forbid_decoding(monkeypatch)
    second = line.produce(batch_of(b"3" * 300), topic=topic, acks=acks)
    third = line.produce(batch_of(b"4"), topic=topic, acks=acks)
    assert [each.base_offset for each in (first, second, third)] == [0, 2, 3]
    second.base_offset = third.base_offset = 0
    assert first == second == third


@pytest.mark.parametrize("version", LEARNED)
def test_the_bytes_of_an_answer_are_those_that_the_encoder_makes(node: BenchNode, version: int) -> None:
    learned, plain = Producer(node, version), Producer(node, version)
    learned.produce(batch_of(b"x"))
    for line in (learned, plain):
        line.feed(line.frame(line.request((0, batch_of(b"x"))), version))
    (one,), (other,) = learned.frames(), plain.frames()
    _, answer = learned.read(one, ProduceResponse, version)
    _, expected = plain.read(other, ProduceResponse, version)
    answer.responses[0].partition_responses[0].base_offset += 1
    assert answer == expected
    assert len(one) == len(other)


def test_requests_for_several_partitions_are_learned_side_by_side(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Producer(node)
    for number in range(3):
        line.produce(batch_of(b"x"), number)
    line.produce(batch_of(b"x"), topic="k")
    forbid_decoding(monkeypatch)
    for number in (2, 0, 1, 1, 2):
        assert line.produce(batch_of(b"y"), number).error_code == 0
    assert line.produce(batch_of(b"y"), topic="k").base_offset == 1
    logs = [node.broker.topics["a"].partitions[number].log for number in range(3)]
    assert [len(read_all(log)) for log in logs] == [2, 3, 3]


def test_no_more_requests_are_kept_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BenchNode(tmp_path / "data", Limits(learned_paths=2)) as node:
        node.controller.add("a", 3, flush="replicated")
        line = Producer(node)
        for number in range(3):
            line.produce(batch_of(b"x"), number)
        forbid_decoding(monkeypatch)
        assert line.produce(batch_of(b"y"), 1).base_offset == 1
        with pytest.raises(Decoded):
            line.produce(batch_of(b"y"), 2)


@pytest.mark.parametrize("change", ["client", "acks", "timeout", "version", "two partitions"])
def test_a_request_of_another_form_goes_to_the_handler(node: BenchNode, change: str) -> None:
    line = Producer(node)
    line.produce(batch_of(b"x"))
    request, client, version = line.request((0, batch_of(b"y"))), "test", NEWEST
    if change == "client":
        client = "tess"
    elif change == "acks":
        request.acks = 1
    elif change == "timeout":
        request.timeout_ms += 1
    elif change == "version":
        version = line.version = 12
        request = line.request((0, batch_of(b"y")))
    else:
        request = line.request((0, batch_of(b"y")), (1, batch_of(b"y")))
    line.feed(line.frame(request, version, client))
    (frame,) = line.frames()
    _, answer = line.read(frame, ProduceResponse, version)
    assert [each.error_code for each in answer.responses[0].partition_responses] in ([0], [0, 0])
    assert len(read_all(node.broker.topics["a"].partitions[0].log)) == 2


def test_a_client_without_a_name_is_learned_too(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Producer(node, 7)

    def nameless(records: bytes) -> bytes:
        frame = line.frame(line.request((0, records)), 7, "")
        body = frame[4:12] + b"\xff\xff" + frame[14:]
        return len(body).to_bytes(4, "big") + body

    line.feed(nameless(batch_of(b"x")))
    forbid_decoding(monkeypatch)
    line.feed(nameless(batch_of(b"y")))
    assert line.correlation_ids() == [1, 2]


@pytest.mark.parametrize("version", [3, 8, 9, NEWEST])
def test_a_learned_request_with_a_wrong_batch_gets_its_error(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    good = batch_of(b"x", producer=ProducerFields(9, 0, 0))
    line.produce(good)
    broken = bytearray(good)
    broken[-1] ^= 1
    assert line.produce(bytes(broken)).error_code == 2
    assert line.produce(records_for(0, b"x")).error_code == 87
    assert line.produce(None).error_code == 87
    assert line.produce(b"").error_code == 87
    assert line.produce(good).base_offset == 0, "a repeat"
    assert line.produce(batch_of(b"x", producer=ProducerFields(9, 0, 5))).error_code == 45
    result = line.produce(batch_of(b"x", producer=ProducerFields(9, 0, 1), transactional=True))
    assert result.error_code == 48
    for sequence in range(1, 8):
        line.produce(batch_of(b"x", producer=ProducerFields(9, 0, sequence)))
    assert line.produce(good).error_code == 46


@pytest.mark.parametrize("version", [3, NEWEST])
def test_a_learned_partition_that_another_broker_leads_now_names_it(node: BenchNode, version: int) -> None:
    line = Producer(node, version)
    line.produce(batch_of(b"x"))
    topic = node.controller.view.topic("a")
    assert topic is not None
    placed = [PartitionView(n, 2, 7, 2, (2,), (2,)) for n in range(3)]
    moved = TopicView(topic.topic_id, "a", 1, topic.settings, topic.settings_text, placed)
    node.controller.publish(ChangeKind.ALTERED, moved)
    result = line.produce(batch_of(b"x"))
    assert result.error_code == 6
    assert result.current_leader.leader_id == (2 if version >= 10 else -1)


def test_a_topic_that_was_made_again_is_learned_anew(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Producer(node, 9)
    line.produce(batch_of(b"x"))
    line.produce(batch_of(b"x"))
    node.controller.delete_topic("a", lambda outcome: None)
    assert line.produce(batch_of(b"x")).error_code == 3
    node.controller.add("a", flush="replicated")
    assert line.produce(batch_of(b"x")).base_offset == 0
    forbid_decoding(monkeypatch)
    assert line.produce(batch_of(b"x")).base_offset == 1


def test_new_settings_hold_for_learned_requests(node: BenchNode) -> None:
    line = Producer(node)
    line.produce(batch_of(b"x" * 200))
    change = TopicAlteration("a", settings={"max.message.bytes": "100"})
    node.controller.alter_topic(change, lambda outcome: None)
    assert line.produce(batch_of(b"x" * 200)).error_code == 10


def test_a_gate_that_changed_sees_learned_requests_again(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    line = Producer(node)
    line.session = open_session(node.broker, gate)
    line.produce(batch_of(b"x"))
    monkeypatch.setattr(gate, "allows", lambda *_: False, raising=False)
    line.produce(batch_of(b"x"))
    gate.version += 1
    with pytest.raises(WireError):
        line.produce(batch_of(b"x"))


@pytest.mark.parametrize("version", [3, 8, 9, NEWEST])
def test_a_learned_request_that_is_cut_closes_the_connection_as_any_other(
    node: BenchNode, version: int
) -> None:
    line = Producer(node, version)
    line.produce(batch_of(b"x"))
    frame = line.frame(line.request((0, batch_of(b"x"))), version)
    for length in range(len(frame) - 80, len(frame) - 4, 5):
        line = Producer(node, version)
        line.produce(batch_of(b"x"))
        with pytest.raises(WireError):
            line.feed(length.to_bytes(4, "big") + frame[4 : 4 + length])


def test_a_frame_above_one_receive_is_learned_too(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Producer(node)
    line.produce(batch_of(b"x"), topic="k")
    frame = line.frame(line.request((0, batch_of(b"x" * 500_000)), topic="k"), NEWEST)
    forbid_decoding(monkeypatch)
    node.broker.begin_tick()
    line.session.take_frame(memoryview(bytearray(frame)))
    node.tick()
    assert line.correlation_ids() == [2]


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BenchNode, BenchNode]]:
    """Two nodes that are asked the same."""
    with (
        BenchNode(tmp_path_factory.mktemp("learned")) as learned,
        BenchNode(tmp_path_factory.mktemp("plain")) as plain,
    ):
        for node in (learned, plain):
            node.controller.add("a", flush="replicated")
            node.controller.add("k", flush="replicated", log_format="kafka")
        yield learned, plain


@st.composite
def mangled(draw: st.DrawFn, frame: bytes, records: bytes) -> bytes:
    """A Produce request with some bytes changed, removed or added from the length of its batch on."""
    body = bytearray(frame[4:])
    begin = body.index(records[:20]) - 4
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(begin, begin + 70) | st.integers(len(body) - 4, len(body)))
        at = min(at, len(body))
        byte = draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0x81, 0xFF]) | st.integers(0, 255))
        match draw(st.sampled_from(["change", "remove", "add"])):
            case "change" if at < len(body):
                body[at] = byte
            case "remove":
                del body[at : at + 1]
            case _:
                body.insert(at, byte)
    return len(body).to_bytes(4, "big") + bytes(body)


def what_comes(line: Producer, frame: bytes) -> object:
    """The answers to a frame, or how it ends the connection."""
    try:
        line.feed(frame)
    except WireError as error:
        return type(error), str(error)
    return line.frames()


@examples(150)
@given(st.sampled_from([3, 8, 9, NEWEST]), st.sampled_from("ak"), st.data())
def test_a_learned_request_is_taken_or_refused_as_any_other(
    alike: tuple[BenchNode, BenchNode], version: int, topic: str, data: st.DataObject
) -> None:
    learned, plain = (Producer(node, version) for node in alike)
    records = batch_of(b"x" * data.draw(st.sampled_from([1, 40, 200])), b"y")
    for line in (learned, plain):
        line.produce(records, topic=topic)
    plain.session.learned = None
    good = learned.frame(learned.request((0, records), topic=topic), version)
    frame = data.draw(mangled(good, records))
    assert what_comes(learned, frame) == what_comes(plain, frame)
    one, other = (node.broker.topics[topic].partitions[0].log for node in alike)
    assert one.tail.last == other.tail.last
