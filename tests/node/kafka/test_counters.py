"""What a broker counts of Kafka's clients: the time of their requests, and their bytes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.kafka.settings import KafkaSettings
from tank_node.metrics import KAFKA_CLIENT_IDS
from tank_protos.generated.kafka import ApiVersionsRequest
from tests.support.clients.kafka_fetcher import Fetcher, want
from tests.support.clients.kafka_producer import Producer, batch_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.exposed import exposed
from tests.support.nodes.kafka_line import KafkaLine

ALWAYS = ApiVersionsRequest()


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated", log_format="kafka")
        yield node


def bytes_of(node: BenchNode) -> dict[str, tuple[float, float]]:
    """Received and sent bytes by client id, as a scrape shows them."""
    shown = exposed(node)
    form = 'tank_kafka_client_bytes_total{{client_id="{}",direction="{}"}}'.format
    return {name: (shown[form(name, "in")], shown[form(name, "out")]) for name in node.metrics.kafka_clients}


def times_of(node: BenchNode, api: str) -> tuple[float, float]:
    """The number of a request's times, and their sum."""
    shown = exposed(node)
    name = "tank_kafka_request_seconds"
    return shown[f'{name}_count{{api="{api}"}}'], shown[f'{name}_sum{{api="{api}"}}']


def test_a_request_answered_in_its_tick_has_the_ticks_time(node: BenchNode) -> None:
    line = KafkaLine(node)
    line.send(ALWAYS, 0)
    line.send(ALWAYS, 0)
    node.metrics.end_tick(0.002)
    node.metrics.end_tick(0.5)
    assert times_of(node, "ApiVersions") == (2, 0.004)
    assert exposed(node)['tank_kafka_request_seconds_bucket{api="ApiVersions",le="0.0025"}'] == 2


def test_a_request_that_waits_has_the_time_of_its_wait(node: BenchNode) -> None:
    line = Fetcher(node)
    line.send(line.request(line.topic("a", want(0)), wait_ms=1000), line.version)
    node.pass_ms(1001)
    assert line.frames()
    node.metrics.end_tick(0.25)
    count, seconds = times_of(node, "Fetch")
    assert (count, round(seconds, 3)) == (1, 1.001)


def test_bytes_are_counted_by_client_id_in_both_directions(node: BenchNode) -> None:
    line, other, silent = KafkaLine(node), KafkaLine(node), KafkaLine(node)
    first = line.frame(ALWAYS, 0, "one")
    line.feed(first)
    line.feed(line.frame(ALWAYS, 0, "one"))
    answered = len(line.taken())
    other.feed(other.frame(ALWAYS, 0, "two"))
    silent.feed(silent.frame(ALWAYS, 0, ""))
    assert bytes_of(node) == {
        "one": (2 * len(first), answered),
        "two": (len(first), answered // 2),
        "(none)": (len(first) - 3, answered // 2),
    }


def test_stored_batches_count_where_they_are_sent_and_learned_requests_too(node: BenchNode) -> None:
    producer, fetcher = Producer(node), Fetcher(node)
    batch = batch_of(b"x" * 5000)
    received = sent = 0
    for _ in range(3):  # the second and third are of a learned form
        frame = producer.frame(producer.request((0, batch)), producer.version, "p")
        producer.feed(frame)
        received, sent = received + len(frame), sent + len(producer.taken())
    assert bytes_of(node)["p"] == (received, sent)
    frame = fetcher.frame(fetcher.request(fetcher.topic("a", want(0))), fetcher.version, "f")
    fetcher.feed(frame)
    answer = fetcher.taken()
    assert len(answer) > 3 * len(batch)
    assert bytes_of(node)["f"] == (len(frame), len(answer))


def test_invented_client_ids_make_no_metrics_without_end(node: BenchNode) -> None:
    line = KafkaLine(node)
    for number in range(KAFKA_CLIENT_IDS + 20):
        line.feed(line.frame(ALWAYS, 0, f"client-{number}"))
    found = bytes_of(node)
    assert len(found) == KAFKA_CLIENT_IDS + 1
    assert found["(others)"][0] > 19 * found["client-0"][0]


def test_an_operator_can_do_without_client_ids(node: BenchNode) -> None:
    line = KafkaLine(node, settings=KafkaSettings(counted_client_ids=0))
    line.feed(line.frame(ALWAYS, 0, "one") + line.frame(ALWAYS, 0, "two"))
    assert list(bytes_of(node)) == ["(others)"]


@pytest.mark.parametrize(("given", "shown"), [(b"x" * 300, "x" * 64), (b'a\n\xff"', 'a??"')])
def test_a_client_id_of_any_bytes_is_shown(node: BenchNode, given: bytes, shown: str) -> None:
    frame = KafkaLine(node).frame(ALWAYS, 0, "?" * len(given)).replace(b"?" * len(given), given)
    KafkaLine(node).feed(frame)
    assert list(node.metrics.kafka_clients) == [shown]
    assert exposed(node)
