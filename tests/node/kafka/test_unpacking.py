"""What the requests of one tick may unpack together: when the room is used up, the others wait for the next
one, each in its turn."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.limits import KIB, Limits
from tank_protos.generated.kafka import ApiVersionsRequest
from tank_protos.kafka.codecs import KafkaCodec
from tests.support.clients.kafka_fetcher import Fetcher, want
from tests.support.clients.kafka_producer import Producer, batch_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

BOMB = batch_of(bytes(300 * KIB), keys=(b"k",), codec=KafkaCodec.GZIP)
SMALL = batch_of(b"x", keys=(b"k",))
PLACES = itertools.count(1)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data", Limits(tick_unpacked_bytes=256 * KIB)) as node:
        node.controller.add("a", 1, flush="replicated", log_format="kafka", log_cleanup_policy="cleanup")
        yield node


class Client:
    """A producer whose frames come in ticks that the test begins and ends."""

    def __init__(self, node: BenchNode) -> None:
        self.line = Producer(node)
        self.unread = b""
        self.readied = 0
        self.line.session.ready = self._ready

    def _ready(self) -> None:
        """The server looks at connections in the order in which they became ready."""
        self.readied = next(PLACES)

    def produce(self, *batches: bytes) -> None:
        line = self.line
        self.feed(b"".join(line.frame(line.request((0, batch)), line.version) for batch in batches))

    def feed(self, data: bytes = b"") -> None:
        """The server reads more of the connection, in the tick that has begun."""
        buffer = bytearray(self.unread + data)
        rest = self.line.session.receive(buffer, memoryview(buffer), 0, len(buffer))
        self.line.node.tick()
        self.unread = bytes(buffer[rest:])

    @property
    def answered(self) -> int:
        return len(self.line.frames())


def next_tick(node: BenchNode) -> None:
    node.pass_ms(2)


def test_the_rest_of_the_requests_waits_for_the_next_tick(node: BenchNode) -> None:
    client = Client(node)
    client.produce(BOMB, BOMB, SMALL)
    assert client.answered == 1
    client.feed()  # the server looks at a connection whose requests are answered
    assert client.answered == 0, "the tick is the same"
    assert client.line.session.is_full, "the server reads no more of it"
    before = client.readied
    next_tick(node)
    assert client.readied > before, "the server has to look at it"
    client.feed()
    assert client.answered == 1
    next_tick(node)
    client.feed()
    assert (client.answered, client.unread, node.metrics.waiting) == (1, b"", 1)
    next_tick(node)
    assert node.metrics.waiting == 0, "nothing wakes the loop when nobody waits"


def test_others_that_unpack_nothing_are_served_in_the_same_tick(node: BenchNode) -> None:
    client = Client(node)
    client.produce(BOMB, BOMB)
    other = KafkaLine(node)
    other.send(ApiVersionsRequest(), 0)
    assert len(other.frames()) == 1


def test_each_has_its_turn(node: BenchNode) -> None:
    clients = [Client(node) for _ in range(3)]
    for client in clients:
        client.produce(BOMB, BOMB)
    served = [[client.answered for client in clients]]
    for _ in range(5):
        next_tick(node)
        for client in sorted(clients, key=lambda client: client.readied):
            client.feed()
        served.append([client.answered for client in clients])
    assert [sum(each) for each in served] == [1] * 6, "one bomb a tick"
    # The second one of the first client came before those of the others.
    assert [each.index(1) for each in served] == [0, 0, 1, 2, 1, 2]


def test_a_client_that_leaves_the_queue_does_not_hold_it_up(node: BenchNode) -> None:
    first, second, third = (Client(node) for _ in range(3))
    first.produce(BOMB)
    second.produce(BOMB)
    third.produce(BOMB)
    second.line.session.close()
    next_tick(node)
    third.feed()
    assert (first.answered, third.answered) == (1, 1)


def test_a_fetch_that_converts_batches_waits_too(node: BenchNode) -> None:
    node.controller.add("t", 1, flush="replicated")
    line = Producer(node)
    line.feed(line.frame(line.request((0, batch_of(bytes(300 * KIB))), topic="t"), line.version))
    fetcher, other = Fetcher(node), Client(node)
    node.broker.begin_tick()
    frame = fetcher.frame(fetcher.request(fetcher.topic("t", want(0))), fetcher.version)
    fetcher.session.receive(bytearray(frame), memoryview(bytearray(frame)), 0, len(frame))
    other.produce(SMALL)
    assert (len(fetcher.frames()), other.answered) == (1, 0)


def test_a_learned_request_counts_what_it_unpacks(node: BenchNode) -> None:
    client = Client(node)
    client.produce(SMALL)
    next_tick(node)
    client.produce(BOMB, SMALL)
    assert client.answered == 2
