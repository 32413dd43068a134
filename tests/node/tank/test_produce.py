"""Appends: numbers that clients choose, repeats of idempotent producers, and bundles that are refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.cluster.link import TopicAlteration
from tank_node.limits import RENUMBERED_BYTES, RENUMBERED_MESSAGES, Limits
from tank_node.log.flush_work import FlushWork
from tank_node.log.producers import ACTIVE_FOR_MS
from tank_protos import bundle
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.generated.tank import (
    DeleteTopicRequest,
    DeleteTopicResponse,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import frame
from tests.support.clients.produce import batch_of, idempotent, outcome, produce, read
from tests.support.nodes.bench_node import BenchClient, BenchNode


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 2, flush="replicated")
        node.controller.add("durable", 1, flush="disk")
        yield node


def produce_at(client: BenchClient, number: int, content: bytes, version: int = 2) -> bytes:
    entry = ProduceBasePartition(0, len(content), number, content)
    request = ProduceWithBaseSeqNumRequest(version, 1, "", 0, 0, [ProduceBaseTopic("a", [entry])])
    return bytes(client.ask(request)[4:])


LIES = {
    "three announced, two there": b"\x0c" + bundle.encode([b"a" * 20, b"bb"], timestamps=1)[1:],
    "a key beyond the end": bytes.fromhex("04 01" + 8 * "00" + "ff 6b 01 76"),
}


def test_a_dense_bundle_beyond_the_end_keeps_the_number_that_was_asked_for(node: BenchNode) -> None:
    client = node.client()
    produce(client, batch_of(b"one"))
    assert produce_at(client, 10, bundle.encode([b"ten", b"eleven"], timestamps=1)) == b"\0"
    assert produce_at(client, 12, bundle.encode([b"twelve"], timestamps=1)) == b"\0"
    assert produce_at(client, 12, bundle.encode([b"late"], timestamps=1)) == b"\x0a"
    assert produce_at(client, 2**63, bundle.encode([b"huge"], timestamps=1)) == b"\x0a"
    produce(client, batch_of(b"next"))
    assert read(client) == [(1, b"one"), (10, b"ten"), (11, b"eleven"), (12, b"twelve"), (13, b"next")]


def test_a_sparse_bundles_own_numbers_win(node: BenchNode) -> None:
    client = node.client()
    sparse = bundle.encode_sparse([5, 9], [b"five", b"nine"], timestamps=1)
    assert produce_at(client, 1, sparse) == b"\0"
    assert produce_at(client, 100, sparse) == b"\x0a"
    assert read(client) == [(5, b"five"), (9, b"nine")]


def test_a_sparse_bundle_keeps_its_numbers_by_the_short_way_too(node: BenchNode) -> None:
    client = node.client()
    assert produce(client, batch_of(b"one")) == b"\0"
    sparse = bundle.as_batch(bundle.encode_sparse([5, 9], [b"five", b"nine"], timestamps=1))
    assert client.session.paths.last is not None
    assert produce(client, sparse) == b"\0"
    assert produce(client, sparse) == b"\x0a"
    assert read(client) == [(1, b"one"), (5, b"five"), (9, b"nine")]


def test_a_replicas_push_closes_a_connection_that_is_no_replicas(node: BenchNode) -> None:
    for version in (0x100, 0x101, 0xFFFF):
        with pytest.raises(WireError):
            produce_at(node.client(), 1, bundle.encode([b"x"], timestamps=1), version=version)


@pytest.mark.parametrize(
    "batch",
    [
        b"\0",
        b"\1\0",
        b"\x03\x00\x00\x00",
        b"\x05\x84aaaa",
        b"\x0b\x04\x02aaaaaaaaaa",
        b"\x0b\x04\x00" + bytes(8) + b"\0\0",
    ],
)
def test_a_malformed_bundle_is_refused_and_the_next_one_is_taken(node: BenchNode, batch: bytes) -> None:
    client = node.client()
    if batch[0] + 1 != len(batch):
        batch = bytes((len(batch) - 1,)) + batch[1:]
    answered = produce(client, batch)
    if answered != b"\0":
        assert answered == b"\x02"
        assert read(client) == []
        assert sum(node.metrics.refused.values()) == 1
    assert produce(client, batch_of(b"good")) == b"\0"


def test_a_bundle_over_the_limit_is_refused_and_the_connection_stays(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with BenchNode(tmp_path / "data", Limits(bundle_bytes=1000)) as node:
        node.controller.add("a", 1, flush="replicated")
        client = node.client()
        assert produce(client, batch_of(b"x" * 990)) == b"\x02"
        assert produce(client, batch_of(b"x" * 900)) == b"\0"
        assert node.metrics.refused["bundle_too_large"] == 1
    assert "refused input: bundle_too_large: a bundle for a/0" in caplog.messages


def test_a_repeat_of_a_client_without_a_producer_id_is_stored_again(node: BenchNode) -> None:
    client = node.client()
    for _ in range(2):
        assert produce(client, batch_of(b"one")) == b"\0"
    assert read(client) == [(1, b"one"), (2, b"one")]


def test_a_repeat_gets_the_numbers_of_the_first_time(node: BenchNode) -> None:
    client = node.client()
    idempotent(client, 0, b"a", b"b")
    assert outcome(client) == (0, 1, 2)
    idempotent(client, 2, b"c")
    assert outcome(client) == (0, 3, 3)
    idempotent(client, 0, b"a", b"b")
    assert outcome(client) == (0, 1, 2)
    assert len(read(client)) == 3


def test_gaps_and_old_epochs_are_refused(node: BenchNode) -> None:
    client = node.client()
    idempotent(client, 5, b"x")
    assert outcome(client)[0] == ErrorCode.UNKNOWN_PRODUCER
    idempotent(client, 0, b"x", epoch=3)
    assert outcome(client)[0] == 0
    idempotent(client, 7, b"x", epoch=3)
    assert outcome(client)[0] == ErrorCode.OUT_OF_ORDER_SEQUENCE
    idempotent(client, 0, b"x", epoch=2)
    assert outcome(client)[0] == ErrorCode.STALE_PRODUCER_EPOCH
    assert len(read(client)) == 1


def test_a_repeat_is_answered_only_when_the_first_copy_is_safe(node: BenchNode) -> None:
    first, second = node.client(), node.client()
    idempotent(first, 0, b"x", topic="durable")
    idempotent(second, 0, b"x", topic="durable")
    assert first.taken() == second.taken() == b""
    node.sync()
    assert outcome(first) == outcome(second) == (0, 1, 1)


def test_an_old_repeat_is_stored_with_numbers_unknown(node: BenchNode) -> None:
    client = node.client()
    for sequence in range(8):
        idempotent(client, sequence, b"x")
        assert outcome(client) == (0, sequence + 1, sequence + 1)
    idempotent(client, 0, b"x")
    assert outcome(client) == (0, 0, 0)


def test_an_old_repeat_too_is_answered_only_when_everything_is_safe(node: BenchNode) -> None:
    client = node.client()
    for sequence in range(8):
        idempotent(client, sequence, b"x", topic="durable")
    idempotent(client, 0, b"x", topic="durable")
    assert client.taken() == b""
    node.sync()
    answers = [IdempotentProduceResponse.decode(payload) for _, payload in client.answers()]
    numbers = [(a.topics[0].partitions[0].error, a.topics[0].partitions[0].first) for a in answers]
    assert numbers == [(0, n) for n in range(1, 9)] + [(0, 0)]
    assert answers[-1].topics[0].partitions[0].last == 0


def test_a_repeat_of_a_sparse_bundle_gets_the_numbers_of_the_first_time(node: BenchNode) -> None:
    client = node.client()
    sparse = bundle.as_batch(bundle.encode_sparse([5, 9], [b"five", b"nine"], timestamps=1))
    for _ in range(2):
        entry = IdempotentPartition(0, 0, 0, memoryview(sparse))
        client.send(IdempotentProduceRequest(0, 1, "", 0, 0, 9, 0, [IdempotentTopic("a", [entry])]))
        assert outcome(client) == (0, 5, 9)
    assert read(client) == [(5, b"five"), (9, b"nine")]


def test_what_is_deleted_in_the_tick_that_appended_it_is_not_acknowledged(node: BenchNode) -> None:
    client = node.client()
    produce(client, batch_of(b"x"))
    entry = ProducePartition(0, memoryview(batch_of(b"x")))
    messages: list[ProduceRequest | DeleteTopicRequest] = [
        ProduceRequest(2, 7, "", 0, 0, [ProduceTopic("a", [entry])]),
        DeleteTopicRequest(0, 8, "a"),
    ]
    client.feed(b"".join(part for m in messages for part in frame(m.ID, m.encode())))
    answered = {message_id: bytes(payload) for message_id, payload in client.answers()}
    assert answered[1] == b"\7\0\0\0\1"
    assert DeleteTopicResponse.decode(memoryview(answered[71])).error == 0


@pytest.mark.plain_node
def test_a_producer_too_many_is_refused_until_another_has_been_silent_for_a_minute(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tank_node.log.producers.MAX_PRODUCERS", 1)
    client = node.client()
    idempotent(client, 0, b"x", producer=8)
    assert outcome(client) == (0, 1, 1)
    idempotent(client, 0, b"y", producer=9)
    assert outcome(client) == (ErrorCode.TOO_MANY_PRODUCERS, 0, 0)
    idempotent(client, 1, b"x", producer=8)
    assert outcome(client) == (0, 2, 2)
    node.pass_ms(ACTIVE_FOR_MS)
    idempotent(client, 0, b"z", producer=0)  # silence is measured by the times of the log's appends
    assert outcome(client) == (0, 3, 3)
    idempotent(client, 0, b"y", producer=9)
    assert outcome(client) == (0, 4, 4)


def test_without_a_producer_id_only_the_numbers_are_told(node: BenchNode) -> None:
    client = node.client()
    for number in (1, 2):
        idempotent(client, 0, b"x", producer=0)
        assert outcome(client) == (0, number, number)


def test_an_ended_producer_is_refused(node: BenchNode) -> None:
    client = node.client()
    node.controller.view.apply(pb.Delta(index=node.controller.view.index + 1, ended_producers=[9]))
    idempotent(client, 0, b"x")
    assert outcome(client)[0] == ErrorCode.STALE_PRODUCER_EPOCH


def test_acknowledgements_wait_for_the_disk_where_the_topic_says_so(node: BenchNode) -> None:
    client = node.client()
    entry = ProducePartition(0, memoryview(batch_of(b"x")))
    client.send(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("durable", [entry])]))
    assert client.taken() == b""
    assert client.session.in_flight == 1
    node.sync()
    assert client.answers()[0][1][-1] == 0
    assert client.session.in_flight == 0


def test_an_acknowledgement_that_takes_too_long_says_that_nobody_knows(node: BenchNode) -> None:
    client = node.client()
    partition = node.broker.topics["durable"].partitions[0]
    partition.log.flushing = FlushWork(partition.log.segments.files, 0, [], ())  # a round that never ends
    entry = ProducePartition(0, memoryview(batch_of(b"x")))
    client.send(ProduceRequest(2, 1, "", 0, 500, [ProduceTopic("durable", [entry])]))
    node.pass_ms(499)
    node.broker.give_up_late()
    assert client.taken() == b""
    node.pass_ms(1)
    node.broker.give_up_late()
    assert client.answers()[0][1][-1] == ErrorCode.NOT_ACKNOWLEDGED_IN_TIME
    partition.log.flushing = None


def test_a_failed_partition_takes_no_writes_and_is_still_read(node: BenchNode) -> None:
    client = node.client()
    produce(client, batch_of(b"kept"))
    partition = node.broker.topics["a"].partitions[0]
    partition.log.fail("a test")
    partition.note_state()
    assert produce(client, batch_of(b"refused")) == b"\x02"
    assert produce(client, batch_of(b"elsewhere"), partition=1) == b"\0"
    assert read(client) == [(1, b"kept")]


def test_numbers_do_not_depend_on_how_requests_share_ticks(node: BenchNode) -> None:
    client = node.client()
    frames = bytearray()
    for i in range(50):
        entry = ProducePartition(0, memoryview(batch_of(b"%d" % i)))
        payload = b"".join(ProduceRequest(2, i, "c", 0, 0, [ProduceTopic("a", [entry])]).encode())
        frames += b"\x01" + len(payload).to_bytes(4, "little") + payload
    client.feed(bytes(frames))
    assert [int.from_bytes(payload[:4], "little") for _, payload in client.answers()] == list(range(50))
    assert read(client) == [(i + 1, b"%d" % i) for i in range(50)]


@pytest.mark.parametrize(
    "content",
    [
        bundle.encode([b""] * (RENUMBERED_MESSAGES + 1), timestamps=1, codec=bundle.Codec.SNAPPY),
        bundle.encode([b""] * (RENUMBERED_MESSAGES + 1), timestamps=1, codec=bundle.Codec.NONE),
        bundle.encode([bytes(RENUMBERED_BYTES)], timestamps=1, codec=bundle.Codec.SNAPPY),
    ],
    ids=["many, compressed", "many, plain", "few bytes that unpack to many"],
)
def test_a_bundle_that_would_cost_too_much_to_number_anew_is_refused(node: BenchNode, content: bytes) -> None:
    """Behind a gap. A few hundred KB of them held the loop for half a minute, and took 2 GB."""
    client = node.client()
    assert produce_at(client, 7, content) == b"\x02"
    assert node.metrics.refused["too_large_to_renumber"] == 1
    assert produce_at(client, 1, content) == b"\x00"
    assert node.metrics.refused["too_large_to_renumber"] == 1


def test_a_bundle_of_as_many_as_may_be_is_numbered_anew(node: BenchNode) -> None:
    client = node.client()
    content = bundle.encode([b"x"] * RENUMBERED_MESSAGES, timestamps=1)
    assert produce_at(client, 7, content) == b"\x00"
    assert read(client)[0] == (7, b"x")


def test_ticks_in_which_all_is_refused_leave_nothing_behind(node: BenchNode) -> None:
    """A client that goes on sending what is refused must not make the partition grow."""
    client = node.client()
    for _ in range(2):  # the second one goes by the short way
        assert produce(client, batch_of(b"good")) == b"\x00"
    bad = b"\x03\x04\0\0"  # too short for its message
    for _ in range(3):
        assert produce(client, bad) == b"\x02"
    assert not node.broker.topics["a"].partitions[0].uncommitted


@pytest.mark.parametrize("lie", ["three announced, two there", "a key beyond the end"])
@pytest.mark.parametrize("walks", [True, False])
def test_a_bundle_whose_counts_lie_is_refused_where_the_topic_lets_bundles_be_checked(
    node: BenchNode, lie: str, walks: bool
) -> None:
    """By produce, at first and by the short way, and by idempotent produce."""
    wanted = TopicAlteration("a", settings={"validate.bundles": str(walks).lower()})
    node.controller.alter_topic(wanted, lambda _: None)
    client = node.client()
    lying, taken = bundle.as_batch(LIES[lie]), b"\x02" if walks else b"\0"
    assert produce(client, lying) == taken
    assert produce(client, batch_of(b"good")) == b"\0"
    assert produce(client, lying) == taken
    first = IdempotentPartition(0, 0, 0, memoryview(lying))
    client.send(IdempotentProduceRequest(0, 1, "", 0, 0, 7, 0, [IdempotentTopic("a", [first])]))
    assert outcome(client)[0] == (ErrorCode.INVALID_BUNDLE if walks else ErrorCode.NONE)
    assert node.metrics.refused["invalid_bundle"] == (3 if walks else 0)
