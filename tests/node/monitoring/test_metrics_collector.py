"""The counters as Prometheus sees them."""

import shutil
from pathlib import Path

import pytest

from tank_node.message_names import MESSAGE_NAMES
from tank_node.metrics import KAFKA_SOFTWARE, Histogram
from tank_node.monitoring import metrics_collector
from tank_node.tank.dispatch import open_session
from tank_node.tank.session import UnknownMessage
from tank_protos.generated.kafka import ApiVersionsRequest
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    DeleteTopicRequest,
    FindByTimeRequest,
    StatusRequest,
)
from tank_protos.wire.errors import WireError
from tests.support.clients.produce import batch_of, idempotent, outcome, produce
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.exposed import exposed
from tests.support.nodes.kafka_line import KafkaLine


def test_requests_errors_and_sizes_are_shown(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated")
        client = node.client()
        produce(client, batch_of(b"x"))
        produce(client, batch_of(b"x"), topic="none")
        produce(client, b"\1\0")
        client.ask(StatusRequest(1))
        node.metrics.end_tick(0.002)
        shown = exposed(node)
    assert shown['tank_requests_total{kind="produce",outcome="ok"}'] == 1
    assert shown['tank_requests_total{kind="produce",outcome="unknown_topic"}'] == 1
    assert shown['tank_requests_total{kind="produce",outcome="invalid_bundle"}'] == 1
    assert shown['tank_requests_total{kind="status",outcome="ok"}'] == 1
    assert shown['tank_request_errors_total{error="unknown_topic",kind="produce"}'] == 1
    assert shown['tank_refused_total{reason="invalid_bundle"}'] == 1
    assert shown["tank_produced_messages_total"] == 1
    assert shown['tank_log_size_bytes{topic="a"}'] == len(batch_of(b"x"))
    assert shown['tank_partitions{state="active"}'] == 1
    assert shown['tank_produce_latency_seconds_bucket{le="0.0025"}'] == 1
    assert shown["tank_produce_latency_seconds_count"] == 1
    assert 0 < shown["tank_disk_free_bytes"] <= shown["tank_disk_size_bytes"]
    assert shown["tank_disk_size_bytes"] == shutil.disk_usage(tmp_path).total


def test_a_disk_that_does_not_tell_its_room_is_shown_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_collector, "space_of", lambda folder: None)
    with BenchNode(tmp_path / "data") as node:
        assert "tank_disk_free_bytes" not in exposed(node)


def test_each_kind_of_request_has_its_outcomes(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 1, flush="replicated")
        client = node.client()
        client.feed(b"\3\0\0\0\0")
        for _ in range(2):  # the second one by the short way
            produce(client, batch_of(b"x"))
        idempotent(client, 5, b"x")
        outcome(client)
        for number in (1, 99):
            topics = [ConsumeTopic("a", [ConsumePartition(0, number, 1000)])]
            client.ask(ConsumeRequest(2, 1, "", 0, 0, 0, topics))
        client.ask(DeleteTopicRequest(0, 1, "none"))
        client.ask(FindByTimeRequest(0, 1, "none", []))
        with pytest.raises(WireError):
            client.feed(b"\x0a\0\0\0\0")
        requests = {key for key in exposed(node) if key.startswith("tank_requests_total")}
    assert requests == {
        f'tank_requests_total{{kind="{kind}",outcome="{outcome}"}}'
        for kind, outcome in [
            ("ping", "ok"), ("produce", "ok"), ("idempotent_produce", "unknown_producer"), ("consume", "ok"),
            ("consume", "out_of_bounds"), ("delete_topic", "unknown_topic"),
            ("find_by_time", "unknown_topic"), ("status", "truncated"),
        ]
    }  # fmt: skip


def test_who_waits_is_shown_by_kind(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("durable", 1, flush="disk")
        consumer, producer = node.client(), node.client()
        topics = [ConsumeTopic("durable", [ConsumePartition(0, 1, 1000)])]
        consumer.send(ConsumeRequest(2, 1, "", 1000, 0, 0, topics))
        for sequence in range(3):
            idempotent(producer, sequence, b"x", topic="durable")
        shown = exposed(node)
        node.sync()
        later = exposed(node)
    assert shown['tank_waiting_requests{kind="consume"}'] == 1
    assert shown['tank_waiting_requests{kind="produce"}'] == 3
    assert (
        later['tank_waiting_requests{kind="consume"}'] == later['tank_waiting_requests{kind="produce"}'] == 0
    )


def test_however_many_topics_there_are_the_series_stay_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_collector, "MOST_TOPICS", 2)
    with BenchNode(tmp_path / "data") as node:
        client = node.client()
        for times, topic in enumerate("abcd"):
            node.controller.add(topic, 1, flush="replicated")
            for _ in range(times + 1):
                produce(client, batch_of(b"x"), topic=topic)
        shown = exposed(node)
    marks = {name: value for name, value in shown.items() if name.startswith("tank_high_water_mark")}
    assert marks == {
        'tank_high_water_mark{topic="d"}': 4,
        'tank_high_water_mark{topic="c"}': 3,
        'tank_high_water_mark{topic="(others)"}': 3,
    }


def test_every_message_that_is_taken_has_a_name(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        session = open_session(node.broker)
        for message_id in range(256):
            if message_id in MESSAGE_NAMES:
                session.check_frame(message_id, 0)
            else:
                with pytest.raises(UnknownMessage):
                    session.check_frame(message_id, 0)


def test_a_histogram_counts_what_is_above_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add(0.5, 2)
    histogram.add(2.0)
    histogram.add(99.0)
    assert histogram.counts == [2, 1, 1]
    assert histogram.sum_s == 102.0


def test_requests_of_kafka_clients_have_their_versions_and_outcomes(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        line = KafkaLine(node)
        for version in (0, 0):
            line.send(ApiVersionsRequest(), version)
        line.send(ApiVersionsRequest("librdkafka", "2.6.0"), 3)
        line.feed(bytes.fromhex("0000000a 0012 0063 00000009 ffff"))
        shown = exposed(node)
    requests = {key: value for key, value in shown.items() if key.startswith("tank_kafka_requests_total")}
    assert requests == {
        'tank_kafka_requests_total{api="ApiVersions",outcome="ok",version="0"}': 2,
        'tank_kafka_requests_total{api="ApiVersions",outcome="ok",version="3"}': 1,
        'tank_kafka_requests_total{api="ApiVersions",outcome="unsupported_version",version="0"}': 1,
    }


def test_libraries_of_kafka_clients_are_counted_by_connection_and_bounded(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        for number in range(KAFKA_SOFTWARE + 20):
            line = KafkaLine(node)
            for _ in range(3):
                line.send(ApiVersionsRequest("client", str(number)), 3)
        shown = {key: value for key, value in exposed(node).items() if "tank_kafka_connections_total" in key}
    assert len(shown) == KAFKA_SOFTWARE + 1
    assert shown['tank_kafka_connections_total{software="client",version="7"}'] == 1
    assert shown['tank_kafka_connections_total{software="(others)",version=""}'] == 20
