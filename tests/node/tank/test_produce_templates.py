"""Produce requests of a connection that takes turns over partitions: by the short way or the long one, the
same answers, and the same bytes in the logs."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.limits import Limits
from tank_node.replication.role import Role
from tank_node.tank.fetch_templates import ConsumePaths
from tank_node.tank.produce_templates import ProducePaths
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import HEADER_BYTES, frame
from tank_protos.wire.message import Message
from tests.support.examples import examples
from tests.support.nodes.bench_node import BenchNode

pytestmark = pytest.mark.usefixtures("kernel")

TOPICS = {"a": 3, "longer": 2}
PLACES = [(name, number) for name, count in TOPICS.items() for number in range(count)]
SMALL = {"log.segment.bytes": "6000", "flush": "replicated"}


def framed(message: Message) -> bytes:
    return b"".join(frame(message.ID, message.encode()))


def batch_of(*values: bytes, codec: bundle.Codec = bundle.Codec.NONE) -> bytes:
    return bundle.as_batch(bundle.encode(list(values), timestamps=7, codec=codec))


def request(
    place: tuple[str, int],
    batch: bytes,
    request_id: int,
    *,
    client: str = "c",
    acks: int = 0,
    timeout: int = 0,
) -> bytes:
    topics = [ProduceTopic(place[0], [ProducePartition(place[1], batch)])]
    return framed(ProduceRequest(2, request_id, client, acks, timeout, topics))


BATCHES = [
    batch_of(b"one"),
    batch_of(b"two", b"and more"),
    batch_of(b"x" * 100),
    batch_of(b"y" * 3000),
    batch_of(b"z" * 20_000),
    batch_of(b"packed" * 50, codec=bundle.Codec.SNAPPY),
    bundle.as_batch(bundle.encode_sparse([500, 900], [b"five", b"nine"], timestamps=1)),
    b"\x03\x00\x00\x00",
    bundle.as_batch(bundle.encode([b"cut"], timestamps=7)[:-1]),
]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """One frame; most are plain produce requests."""
    request_id = draw(st.integers(0, 2**32 - 1))
    place, batch = draw(st.sampled_from(PLACES)), draw(st.sampled_from(BATCHES))
    match draw(st.integers(0, 19)):
        case 0:
            return framed(
                ConsumeRequest(
                    2,
                    request_id,
                    "c",
                    0,
                    0,
                    0,
                    [ConsumeTopic(place[0], [ConsumePartition(place[1], 1, 9999)])],
                )
            )
        case 1:
            entries = [ProducePartition(number, batch) for number in draw(st.permutations((0, 1, 7)))]
            return framed(ProduceRequest(2, request_id, "c", 0, 0, [ProduceTopic(place[0], entries)]))
        case 2:
            body = bundle.encode([b"numbered"], timestamps=3)
            entry = ProduceBasePartition(place[1], len(body), draw(st.integers(1, 99)), body)
            topics = [ProduceBaseTopic(place[0], [entry])]
            return framed(ProduceWithBaseSeqNumRequest(2, request_id, "c", 0, 0, topics))
        case 3:
            return request((draw(st.sampled_from(("nobody", "a"))), 9), batch, request_id)
        case 4:
            changed = bytearray(request(place, batch, request_id))
            changed[draw(st.integers(HEADER_BYTES, len(changed) - 1))] = draw(st.integers(0, 255))
            return bytes(changed)
        case 5:
            return draw(st.sampled_from((b"\3\0\0\0\0", b"\x3f\0\0\0\0", b"\1\2\0\0\0\0\0")))
        case 6:
            return request(
                place, batch, request_id, client="another", acks=draw(st.sampled_from((1, 2, 255)))
            )
        case 7 | 8:
            return request(place, batch, request_id, timeout=draw(st.sampled_from((0, 300, 700))))
    return request(place, batch, request_id)


@dataclass
class Outcome:
    """What a conversation came to."""

    answers: list[bytes] = field(default_factory=list)
    """Those of each tick."""
    refused: str = ""
    logs: dict[tuple[str, int], list[bytes]] = field(default_factory=dict)
    counted: dict[str, object] = field(default_factory=dict)


class Conversation:
    """One connection to a node of its own, whose requests all go the long way if that is wanted."""

    def __init__(self, node: BenchNode, *, short: bool) -> None:
        self.node = node
        self.short = short
        self.client = node.client()
        self.outcome = Outcome()
        self._left = b""

    def tick(self, data: bytes) -> None:
        """These bytes come, and are taken as far as may be before the tick ends."""
        if self.outcome.refused:
            return
        buffer = bytearray(self._left + data)
        try:
            rest = (self._take if self.short else self._take_one_by_one)(buffer)
        except WireError as error:
            self.outcome.refused, rest = error.reason, len(buffer)
        self.node.tick()
        self._left = bytes(buffer[rest:])
        self.outcome.answers.append(self.client.taken())
        self.client.session.out_bytes = 0
        assert not self.client.session.in_flight

    def finish(self) -> None:
        """What had to wait is taken, and the logs are looked at."""
        left = -1
        while left != len(self._left):
            left = len(self._left)
            self.tick(b"")
        for name, number in PLACES:
            partition = self.node.broker.topics[name].partitions[number]
            assert not partition.found.batches.batches
            log = partition.log
            self.outcome.logs[name, number] = [
                log.disk.read_at(log.segments.files.use(end.file), end.length, 0)
                for segment in log.segments
                for end in (segment.log_end, segment.index_end)
            ]
        metrics = self.node.metrics
        self.outcome.counted = {
            "requests": dict(metrics.requests),
            "errors": dict(metrics.errors),
            "refused": dict(metrics.refused),
            "batches": (metrics.produced_batches, metrics.produced_bytes, metrics.produced_messages),
        }

    def _take(self, buffer: bytearray) -> int:
        return self.client.session.receive(buffer, memoryview(buffer), 0, len(buffer))

    def _take_one_by_one(self, buffer: bytearray) -> int:
        session, view, at = self.client.session, memoryview(buffer), 0
        while True:
            session.paths, session.fetches = ProducePaths(1), ConsumePaths(1)
            length = int.from_bytes(buffer[at + 1 : at + HEADER_BYTES], "little")
            stop = min(at + HEADER_BYTES + length, len(buffer))
            if (taken := session.receive(buffer, view, at, stop)) == at:
                return at
            at = taken


def in_order(answers: bytes) -> list[bytes]:
    """The answers, those to different requests apart from their order among each other: partitions that share
    a tick are answered one after another."""
    found, at = [], 0
    while at < len(answers):
        stop = at + HEADER_BYTES + int.from_bytes(answers[at + 1 : at + HEADER_BYTES], "little")
        found.append(answers[at:stop])
        at = stop
    return sorted(found)


def change_role(node: BenchNode, what: str, place: tuple[str, int]) -> None:
    """Between two ticks: another leader, this one again, or the topic anew."""
    partition = node.broker.topics[place[0]].partitions[place[1]]
    if what == "follow":
        partition.become(Role.FOLLOWER, partition.leader_epoch + 1)
    elif what == "lead":
        partition.become(Role.LEADER, partition.leader_epoch + 1)
    elif what == "anew":
        node.controller.delete_topic(place[0], lambda _: None)
        node.controller.add(place[0], TOPICS[place[0]], **SMALL)


CHANGES = st.tuples(st.sampled_from(("", "", "", "follow", "lead", "anew")), st.sampled_from(PLACES))


@pytest.mark.thorough
@examples(300)
@given(
    ticks=st.lists(st.tuples(st.lists(frames(), max_size=12), CHANGES), min_size=1, max_size=6),
    cut=st.integers(0, 40),
    in_flight=st.sampled_from((3, 4096)),
    paths=st.sampled_from((1, 2, 64)),
)
def test_the_short_way_comes_to_what_the_long_one_does(
    ticks: list[tuple[list[bytes], tuple[str, tuple[str, int]]]], cut: int, in_flight: int, paths: int
) -> None:
    outcomes = []
    limits = Limits(in_flight=in_flight, learned_paths=paths)
    for short in (True, False):
        with TemporaryDirectory() as folder, BenchNode(Path(folder) / "data", limits) as node:
            for name, count in TOPICS.items():
                node.controller.add(name, count, **SMALL)
            talk = Conversation(node, short=short)
            held = b""
            for sent, (change, place) in ticks:
                data = held + b"".join(sent)
                stop = max(len(data) - cut, 0)
                talk.tick(data[:stop])
                held = data[stop:]
                change_role(node, change, place)
            talk.tick(held)
            talk.finish()
            outcomes.append(talk.outcome)
    by_short, by_long = outcomes
    assert by_short.refused == by_long.refused
    assert [in_order(one) for one in by_short.answers] == [in_order(one) for one in by_long.answers]
    assert by_short.logs == by_long.logs
    assert by_short.counted == by_long.counted


class Counted:
    """How many requests went the long way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoded = 0
        original = ProduceRequest.decode.__func__  # type: ignore[attr-defined]

        def decode(cls: type[ProduceRequest], payload: memoryview) -> ProduceRequest:
            self.decoded += 1
            return original(cls, payload)  # type: ignore[no-any-return]

        monkeypatch.setattr(ProduceRequest, "decode", classmethod(decode))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data", Limits(learned_paths=4)) as node:
        node.controller.add("a", 5, flush="replicated")
        node.controller.add("b", 4, flush="replicated")
        yield node


def turns(places: list[tuple[str, int]], rounds: int) -> bytes:
    ids = range(rounds * len(places))
    return b"".join(request(places[i % len(places)], batch_of(b"%d" % i), i) for i in ids)


def test_a_client_that_takes_turns_is_decoded_once_a_partition(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    client = node.client()
    places = [("a", 0), ("b", 0), ("a", 3), ("b", 1)]
    for _ in range(3):
        client.feed(turns(places, 10))
        answers = client.answers()
        for k, _ in enumerate(places):
            mine = [int.from_bytes(payload[:4], "little") for _, payload in answers]
            assert [i for i in mine if i % 4 == k] == list(range(k, 40, 4)), "in the order of the requests"
        assert all(payload[4] == 0 for _, payload in answers)
    assert counted.decoded == len(places)
    assert [node.broker.topics[name].partitions[number].log.last for name, number in places] == [30] * 4


def test_of_too_many_partitions_most_stay_on_the_short_way(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = Counted(monkeypatch)
    node.client().feed(turns([("a", number) for number in range(5)], 20))
    assert 5 < counted.decoded <= 5 + 19 * 2


def test_who_goes_over_to_other_partitions_has_the_short_way_there_in_the_end(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = node.client()
    client.feed(turns([("a", number) for number in range(4)], 2))
    moved = [("b", number) for number in range(4)]
    client.feed(turns(moved, 400))
    counted = Counted(monkeypatch)
    client.feed(turns(moved, 10))
    assert counted.decoded == 0
