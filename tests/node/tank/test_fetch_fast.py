"""The short way of a fetch: the same bytes as the long one, whatever is asked and happens meanwhile."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from tank_node.limits import Limits
from tank_node.tank import fetch_fast as short_way
from tank_node.tank.fetch_templates import ConsumePaths
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message
from tests.support.nodes.bench_node import BenchClient, BenchNode

END = 2**64 - 1
SHAPE = {"retention.segments.count": "3", "log.segment.bytes": "4096"}


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 2, flush="replicated", **SHAPE)
        yield node


def fetch(
    number: int,
    *,
    size: int = 1 << 20,
    wait_ms: int = 0,
    min_bytes: int = 0,
    version: int = 2,
    partition: int = 0,
) -> ConsumeRequest:
    wanted = [ConsumePartition(partition, number, size)]
    return ConsumeRequest(version, 7, "me", wait_ms, min_bytes, 0, [ConsumeTopic("a", wanted)])


def produce(client: BenchClient, data: bytes, partition: int = 0) -> None:
    batch = memoryview(bundle.as_batch(data))
    client.send(ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [ProducePartition(partition, batch)])]))
    client.taken()


def dense(*values: bytes) -> bytes:
    return bundle.encode(list(values), timestamps=1)


def decoded(client: BenchClient) -> list[ConsumeResponse]:
    return [ConsumeResponse.decode(payload) for _, payload in client.answers()]


class Counted:
    """How many requests went the short way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = 0
        original = ConsumeRequest.decode.__func__  # type: ignore[attr-defined]

        def decode(cls: type[ConsumeRequest], payload: memoryview) -> ConsumeRequest:
            self.decoded += 1
            return original(cls, payload)  # type: ignore[no-any-return]

        monkeypatch.setattr(ConsumeRequest, "decode", classmethod(decode))


def test_a_consumer_that_reads_on_and_waits_is_decoded_once(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    consumer, producer = node.client(), node.client()
    produce(producer, dense(b"0"))
    consumer.send(fetch(1, wait_ms=1000))
    for i in range(1, 20):
        consumer.send(fetch(i + 1, wait_ms=1000))
        produce(producer, dense(b"%d" % i))
    assert counted.decoded == 1
    assert values_of(consumer) == [b"%d" % i for i in range(20)]
    assert consumer.session.in_flight == 0


def test_a_consumer_that_takes_turns_is_decoded_once_a_partition(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    consumer, producer = node.client(), node.client()
    for i in range(10):
        for partition in (0, 1):
            produce(producer, dense(b"%d of %d" % (i, partition)), partition)
    for i in range(10):
        for partition in (1, 0):
            consumer.send(fetch(i + 1, size=1, partition=partition))
    assert counted.decoded == 2
    assert values_of(consumer) == [b"%d of %d" % (i, partition) for i in range(10) for partition in (1, 0)]


def test_of_too_many_partitions_one_at_least_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with BenchNode(tmp_path / "data", Limits(learned_paths=2)) as node:
        node.controller.add("a", 3, flush="replicated")
        counted = Counted(monkeypatch)
        consumer, producer = node.client(), node.client()
        for i in range(30):
            produce(producer, dense(b"0"), i % 3)
        for i in range(30):
            consumer.send(fetch(i // 3 + 1, size=1, partition=i % 3))
        assert counted.decoded < 24
        assert values_of(consumer) == [b"0"] * 30


class OneTick:
    """What several clients send within one tick."""

    def __init__(self, node: BenchNode) -> None:
        self.node = node
        self.kept: list[bytearray] = []

    def receive(self, client: BenchClient, request: Message) -> None:
        buffer = bytearray(b"".join(frame(request.ID, request.encode(0))))
        self.kept.append(buffer)
        assert client.session.receive(buffer, memoryview(buffer), 0, len(buffer)) == len(buffer)

    def end(self) -> None:
        self.node.tick()


def values_of(client: BenchClient) -> list[bytes]:
    return [
        m.value
        for answer in decoded(client)
        for b in bundle.bundles(answer.chunks)
        for m in bundle.decode(b, 1)
    ]


def appending(value: bytes) -> ProduceRequest:
    batch = memoryview(bundle.as_batch(dense(value)))
    return ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [ProducePartition(0, batch)])])


@pytest.mark.parametrize("fetch_comes_first", [False, True])
def test_a_fetch_up_to_the_end_gets_what_its_own_tick_appends(
    node: BenchNode, fetch_comes_first: bool
) -> None:
    consumer, producer = node.client(), node.client()
    produce(producer, dense(b"0"))
    consumer.send(fetch(1, size=1))
    produce(producer, dense(b"1"))
    consumer.taken()
    tick = OneTick(node)
    requests: list[tuple[BenchClient, Message]] = [(producer, appending(b"2")), (consumer, fetch(2))]
    for client, request in reversed(requests) if fetch_comes_first else requests:
        tick.receive(client, request)
    assert not consumer.session.out
    assert consumer.session.in_flight == 1, "a client that closes its sending side still gets it"
    tick.end()
    assert values_of(consumer) == [b"1", b"2"]
    assert consumer.session.in_flight == 0


def test_a_fetch_that_does_not_reach_the_end_does_not_wait_for_the_tick(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    for value in (b"0", b"1", b"2"):
        produce(producer, dense(value))
    consumer.send(fetch(1, size=1))
    consumer.taken()
    tick = OneTick(node)
    tick.receive(consumer, fetch(2, size=1))
    assert values_of(consumer) == [b"1"]
    tick.end()
    assert not consumer.session.out


def test_what_a_fetch_found_is_its_answer_when_the_log_is_damaged_before_its_tick_ends(
    node: BenchNode,
) -> None:
    consumer, producer = node.client(), node.client()
    produce(producer, dense(b"0"))
    consumer.send(fetch(1, size=1))
    produce(producer, dense(b"1"))
    consumer.taken()
    partition = node.broker.topics["a"].partitions[0]
    tick = OneTick(node)
    tick.receive(consumer, fetch(2))
    tick.receive(producer, appending(b"2"))
    partition.log.damage("a bad batch")
    partition.note_state()
    tick.end()
    assert values_of(consumer) == [b"1"]


def test_a_client_that_goes_within_the_tick_leaves_no_file_pinned(node: BenchNode) -> None:
    consumer, producer = node.client(), node.client()
    produce(producer, dense(b"0"))
    consumer.send(fetch(1, size=1))
    produce(producer, dense(b"1"))
    consumer.taken()
    tick = OneTick(node)
    tick.receive(consumer, fetch(2))
    consumer.session.close()
    tick.end()
    assert not consumer.session.out
    files = [f for s in node.broker.topics["a"].partitions[0].log.segments for f in s.files()]
    assert all(file.pins == 0 for file in files)


def random_request(chance: Random, node: BenchNode) -> ConsumeRequest:
    number = chance.choice([0, 0, 1])
    log = node.broker.topics["a"].partitions[number].log
    places = [0, 1, END, log.last, log.last + 1, log.last + 2, chance.randrange(log.last + 2)]
    return fetch(
        chance.choice([*places, *list(log.cursors.places)[-4:] * 3]),
        size=chance.choice([0, 1, 300, 1 << 20]),
        wait_ms=chance.choice([0, 0, 50, 1 << 63]),
        min_bytes=chance.choice([0, 0, 1, 200, 1 << 31]),
        version=chance.choice([0, 2, 2, 3]),
        partition=chance.choice([number] * 5 + [1, 5]),
    )


def random_event(chance: Random, node: BenchNode, producer: BenchClient) -> None:
    number = chance.choice([0, 0, 1])
    log = node.broker.topics["a"].partitions[number].log
    what = chance.randrange(12)
    if what < 6:
        produce(producer, dense(*[b"v" * chance.choice([1, 90, 700])] * chance.randrange(1, 4)), number)
    elif what == 6:
        numbers = [log.last + 1, log.last + 3 + chance.randrange(3)]
        produce(producer, bundle.encode_sparse(numbers, [b"s", b"p"], timestamps=1), number)
    elif what == 7:
        data = dense(b"far")
        far = log.last + 1 + chance.randrange(5)
        entry = ProduceBasePartition(number, len(data), far, data)
        producer.send(ProduceWithBaseSeqNumRequest(2, 1, "", 0, 0, [ProduceBaseTopic("a", [entry])]))
        producer.taken()
    elif what == 8:
        node.pass_ms(chance.choice([1, 60]))
    elif what == 9:
        node.maintenance.run()
    elif what == 10:
        log.roll()
    elif chance.random() < 0.2:
        node.controller.delete_topic("a", lambda outcome: None)
        node.controller.add("a", 2, flush="replicated", **SHAPE)
        produce(producer, dense(b"born again"))


@pytest.mark.parametrize("seed", range(40))
def test_both_ways_answer_alike(node: BenchNode, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = Random(seed)
    counted = Counted(monkeypatch)
    short, long, producer = node.client(), node.client(), node.client()
    produce(producer, dense(b"first"))
    asked = 0
    for _ in range(150):
        if chance.random() < 0.6:
            request = random_request(chance, node)
            for _ in range(chance.choice([1, 1, 3])):
                long.session.fetches = ConsumePaths(1)
                short.send(request)
                long.send(request)
                asked += 2
        else:
            random_event(chance, node, producer)
        assert short.taken() == long.taken()
        assert (short.session.in_flight, short.session.wait_entries) == (
            long.session.in_flight,
            long.session.wait_entries,
        )
    assert counted.decoded < asked, "some went the short way"
    node.sync()
    logs = [partition.log for partition in node.broker.topics["a"].partitions.values()]
    assert all(file.pins == 0 for log in logs for s in log.segments for file in s.files())


def test_a_request_that_differs_in_any_byte_takes_the_long_way(node: BenchNode) -> None:
    client, producer = node.client(), node.client()
    produce(producer, dense(b"a"))
    produce(producer, dense(b"b"))
    client.send(fetch(1, size=1))
    client.taken()
    request = fetch(2)
    data = bytearray(b"".join(frame(request.ID, request.encode(0))))

    def taken(data: bytearray, end: int) -> int:
        path = client.session.fetches.find(data, 0, end)
        return -1 if path is None else short_way.fetch_again(client.session, path, data, 0, end)

    assert taken(data, len(data)) == len(data)
    for i in [*range(7), *range(11, len(data) - 12)]:
        changed = bytearray(data)
        changed[i] ^= 1
        assert taken(changed, len(changed)) == -1, i
    assert taken(data, len(data) - 1) == -1
    client.taken()
