"""Learned Fetch requests: they are answered as their handler would, without a decoder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_node.kafka.dispatch import open_session
from tank_node.limits import Limits
from tank_node.security.gate import Gate
from tank_protos import bundle
from tank_protos.generated.kafka import FetchRequest, FetchResponse
from tank_protos.generated.kafka.fetch_request import ForgottenTopic
from tank_protos.wire.errors import WireError
from tests.support.clients.kafka_fetcher import NEWEST, Fetcher, values, want
from tests.support.examples import examples
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import Told
from tests.support.values.mangled_frames import mangled

LEARNED = range(12, NEWEST + 1)


class Decoded(Exception):
    """A request was decoded that should be known."""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        node.controller.add("b", 1, flush="replicated")
        yield node


def write(node: BenchNode, content: bytes, number: int = 0, topic: str = "a") -> None:
    node.broker.begin_tick()
    batch = memoryview(bundle.as_batch(bundle.encode([content], timestamps=1)))
    node.broker.topics[topic].partitions[number].append(batch, Told(), 0)
    node.tick()


def forbid_decoding(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Decoded

    patch.setattr(FetchRequest, "decode", refuse)


def read(line: Fetcher, response: FetchResponse) -> list[tuple[int, list[bytes | None]]]:
    """Each partition that an answer names, with the values that came of it."""
    return [
        (each.partition_index, values(line.records(each)))
        for topic in response.responses
        for each in topic.partitions
    ]


def opened(line: Fetcher, *numbers: int) -> int:
    """Opens a session of these partitions of topic a, from offset 0 on; returns its id."""
    wanted = (want(0, number) for number in numbers)
    return line.asks(line.request(line.topic("a", *wanted), session=(0, 0))).session_id


@pytest.mark.parametrize("version", LEARNED)
def test_a_consumer_reads_on_without_a_decoder(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    line = Fetcher(node, version)
    session = opened(line, 0)
    found = []
    for number in range(5):
        write(node, b"%d" % number)
        wanted = line.topic("a", want(number, epoch=-1, fetched=-1))
        found += read(line, line.asks(line.request(wanted, session=(session, number + 1))))
        if not number:
            forbid_decoding(monkeypatch)
    assert found == [(0, [b"%d" % number]) for number in range(5)]


@pytest.mark.parametrize("version", LEARNED)
def test_a_request_that_waits_is_woken_as_any_other(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    line = Fetcher(node, version)
    session = opened(line, 0, 1)
    line.asks(line.request(session=(session, 1)))  # of another length than one that names a partition
    line.asks(line.request(line.topic("a", want(0)), session=(session, 2)))
    forbid_decoding(monkeypatch)
    line.send(line.request(session=(session, 3), wait_ms=0), version)
    assert line.answered() is not None
    for number, epoch in ((1, 4), (0, 5)):
        line.send(line.request(line.topic("a", want(0, number)), session=(session, epoch)), version)
        response = line.answered()
        assert response is not None
        assert (response.error_code, response.session_id) == (0, session)


def test_a_learned_request_may_wait(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    for epoch, content in ((1, b"one"), (2, b"two"), (3, b"three")):
        wanted = line.topic("a", want(epoch - 1))
        line.send(line.request(wanted, session=(session, epoch), wait_ms=1000), NEWEST)
        assert line.answered() is None
        write(node, content)
        response = line.answered()
        assert response is not None
        assert read(line, response) == [(0, [content])]
        if epoch == 1:
            forbid_decoding(monkeypatch)
    assert node.metrics.waiting == 0


def test_a_waiting_request_keeps_its_own_partition(node: BenchNode) -> None:
    lines = [Fetcher(node), Fetcher(node)]
    for line in lines:
        line.asks(line.request(line.topic("a", want(0))))  # learned, without a session
    write(node, b"one")
    for line, offset in zip(lines, (0, 1), strict=True):
        line.send(line.request(line.topic("a", want(offset)), wait_ms=1000), NEWEST)
    first, second = lines[0].answered(), lines[1].answered()
    assert first is not None
    assert (read(lines[0], first), second) == ([(0, [b"one"])], None)
    write(node, b"two")
    second = lines[1].answered()
    assert second is not None
    assert read(lines[1], second) == [(0, [b"two"])]


def test_the_session_epoch_is_checked(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    line.asks(line.request(line.topic("a", want(0)), session=(session, 1)))
    forbid_decoding(monkeypatch)
    refused = line.asks(line.request(line.topic("a", want(0)), session=(session, 7)))
    assert refused.error_code == 71
    assert line.asks(line.request(line.topic("a", want(0)), session=(session, 2))).error_code == 0


@pytest.mark.parametrize("change", ["client", "topic", "wait", "version", "session", "forgotten", "two"])
def test_a_request_of_another_form_goes_to_the_handler(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    line = Fetcher(node)
    session = opened(line, 0, 1)
    line.asks(line.request(line.topic("a", want(0)), session=(session, 1)))
    request, client, version = line.request(line.topic("a", want(0)), session=(session, 2)), "test", NEWEST
    if change == "client":
        client = "tess"
    elif change == "topic":
        request = line.request(line.topic("b", want(0)), session=(session, 2))
    elif change == "wait":
        request.min_bytes += 1
    elif change == "version":
        version = line.version = 16
    elif change == "session":
        request.session_id = session + 1
    elif change == "forgotten":
        topic = line.topic("a")
        request.forgotten_topics_data = [ForgottenTopic(topic.topic, topic.topic_id, [1])]
    else:
        request = line.request(line.topic("a", want(0), want(0, 1)), session=(session, 2))
    forbid_decoding(monkeypatch)
    with pytest.raises(Decoded):
        line.feed(line.frame(request, version, client))


def test_a_consumer_with_a_new_session_is_learned_anew(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    line.asks(line.request(line.topic("a", want(0)), session=(session, 1)))
    session = opened(line, 0)
    for epoch in range(1, 103):  # a hundred that don't fit, and one to learn
        line.asks(line.request(line.topic("a", want(0)), session=(session, epoch)))
    forbid_decoding(monkeypatch)
    assert line.asks(line.request(line.topic("a", want(0)), session=(session, 103))).error_code == 0


def test_no_more_lengths_are_kept_than_allowed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BenchNode(tmp_path / "data", Limits(learned_paths=1)) as node:
        node.controller.add("a", 3, flush="replicated")
        line = Fetcher(node)
        line.asks(line.request(line.topic("a", want(0))))
        line.asks(line.request())
        forbid_decoding(monkeypatch)
        line.asks(line.request(line.topic("a", want(0))))
        with pytest.raises(Decoded):
            line.asks(line.request())


def test_a_gate_that_changed_sees_learned_requests_again(
    node: BenchNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate()
    line = Fetcher(node)
    line.session = open_session(node.broker, gate)
    line.asks(line.request(line.topic("a", want(0))))
    monkeypatch.setattr(gate, "allows", lambda *_: False, raising=False)
    line.asks(line.request(line.topic("a", want(0))))
    gate.version += 1
    with pytest.raises(WireError):
        line.asks(line.request(line.topic("a", want(0))))


def test_learned_requests_are_counted_as_others(node: BenchNode) -> None:
    line, plain = Fetcher(node), Fetcher(node)
    for _ in range(3):
        line.asks(line.request(line.topic("a", want(0))))
        plain.session.learned_forms.clear()
        plain.asks(plain.request(plain.topic("a", want(0))))
    counted = {key: count for key, count in node.metrics.kafka_requests.items() if key[0] == "Fetch"}
    assert counted == {("Fetch", NEWEST, "ok"): 6}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BenchNode]:
    with BenchNode(tmp_path_factory.mktemp("filled")) as node:
        node.controller.add("a", 3, flush="replicated")
        for number in range(3):
            write(node, b"x" * 100 * (number + 1), number)
            write(node, b"y", number)
        yield node


def what_comes(line: Fetcher, frame: bytes) -> object:
    """The answers to a frame, or how it ends the connection."""
    try:
        line.feed(frame)
    except WireError as error:
        return type(error), str(error)
    return line.frames()


@examples(200)
@given(st.sampled_from([12, 13, 15, NEWEST]), st.booleans(), st.data())
def test_a_learned_request_is_answered_or_refused_as_any_other(
    filled: BenchNode, version: int, names_one: bool, data: st.DataObject
) -> None:
    learned, plain = Fetcher(filled, version), Fetcher(filled, version)
    for line in (learned, plain):
        line.asks(line.request(*([line.topic("a", want(0))] if names_one else [])))
    plain.session.learned_forms.clear()
    good = learned.frame(learned.request(*([learned.topic("a", want(1, 1))] if names_one else [])), version)
    frame = data.draw(mangled(good))
    assert what_comes(learned, frame) == what_comes(plain, frame)
