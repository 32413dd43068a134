"""A request may name so many topics, partitions and other entries, in all its lists together: each becomes an
object, and a frame has room for millions of empty ones."""

import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from tank_node.kafka.dispatch import APIS
from tank_protos.generated.kafka import FetchRequest, ListOffsetsRequest, ProduceRequest
from tank_protos.generated.kafka.by_id import REQUESTS
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic
from tank_protos.generated.kafka.list_offsets_request import ListOffsetsTopic
from tank_protos.generated.kafka.produce_request import TopicProduceData, TopicProduceDataCollection
from tank_protos.wire.errors import TooManyEntries, UnsupportedVersion
from tank_protos.wire.message import MOST_ENTRIES, Message
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

NEWEST = ProduceRequest.VERSIONS[1]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def lists_of(request: type[Any]) -> dict[str, type[Any]]:
    """The lists of a request, and the type of their elements."""
    hints = get_type_hints(request, vars(sys.modules[request.__module__]))
    found = {}
    for field in fields(request):
        hint = hints[field.name]
        wanted = next((part for part in (hint, *get_args(hint)) if _is_list(part)), None)
        if wanted is not None:
            found[field.name] = wanted
    return found


def _is_list(hint: Any) -> bool:
    origin = getattr(hint, "__origin__", hint)
    return isinstance(origin, type) and issubclass(origin, list)


def elements(kind: Any, count: int) -> list[Any]:
    """This many empty elements, in a list of this type."""
    if get_args(kind):
        (element,) = get_args(kind)
        return [element() for _ in range(count)]
    (base,) = kind.__orig_bases__
    made: list[Any] = kind(get_args(base)[0]() for _ in range(count))
    return made


@pytest.mark.parametrize("key", [key for key in APIS if lists_of(REQUESTS[key])])
def test_the_lists_of_every_request_are_bounded_together(
    node: BenchNode, key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = REQUESTS[key]
    monkeypatch.setattr(sys.modules[request.__module__], "MOST_ENTRIES", 20)
    tried = 0
    for name, kind in lists_of(request).items():
        for version in range(request.VERSIONS[0], request.VERSIONS[1] + 1):
            asked = request()
            setattr(asked, name, elements(kind, 21))
            try:
                if asked.encode(version) == request().encode(version):
                    continue  # the version leaves the list out
            except UnsupportedVersion:
                continue
            with pytest.raises(TooManyEntries):
                KafkaLine(node).send(asked, version)
            assert node.broker.metrics.kafka_requests[APIS[key].name, version, "too_many_entries"]
            tried += 1
    assert tried


def empty_topics(request: str, count: int) -> Message:
    if request == "produce":
        return ProduceRequest(
            None, 1, 1000, TopicProduceDataCollection(TopicProduceData() for _ in range(count))
        )
    if request == "fetch":
        return FetchRequest(max_wait_ms=0, topics=[FetchTopic() for _ in range(count)])
    return ListOffsetsRequest(-1, topics=[ListOffsetsTopic() for _ in range(count)])


@pytest.mark.parametrize(
    ("request_name", "version"),
    [("produce", 0), ("produce", 9), ("produce", NEWEST), ("fetch", 12), ("offsets", 6)],
)
def test_topics_without_partitions_count_too(node: BenchNode, request_name: str, version: int) -> None:
    line = KafkaLine(node)
    line.send(empty_topics(request_name, MOST_ENTRIES), version)
    assert len(line.frames()) == 1
    with pytest.raises(TooManyEntries):
        line.send(empty_topics(request_name, MOST_ENTRIES + 1), version)


def test_topics_and_partitions_count_together(node: BenchNode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[FetchRequest.__module__], "MOST_ENTRIES", 9)
    line = KafkaLine(node)
    topics = [FetchTopic("a", partitions=[FetchPartition(0)] * 2) for _ in range(3)]
    line.send(FetchRequest(max_wait_ms=0, topics=topics), 4)
    assert len(line.frames()) == 1
    topics[2].partitions = [FetchPartition(0)] * 3
    with pytest.raises(TooManyEntries):
        line.send(FetchRequest(max_wait_ms=0, topics=topics), 4)
