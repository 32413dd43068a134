"""The counters as Prometheus sees them."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from tank_node.metrics import Histogram
from tank_node.metrics_collector import MESSAGE_NAMES, MetricsCollector
from tank_node.sessions.tank import TankSession
from tank_protos.generated.tank import StatusRequest
from tests.node.sessions.test_produce import batch_of, produce
from tests.support.bench_node import BenchNode


def exposed(node: BenchNode) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(node.broker, node.metrics))
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}


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
    assert shown['tank_requests_total{kind="produce"}'] == 3
    assert shown['tank_requests_total{kind="status"}'] == 1
    assert shown['tank_request_errors_total{error="unknown_topic",kind="produce"}'] == 1
    assert shown['tank_refused_total{reason="invalid_bundle"}'] == 1
    assert shown["tank_produced_messages_total"] == 1
    assert shown['tank_log_size_bytes{topic="a"}'] == len(batch_of(b"x"))
    assert shown['tank_partitions{state="active"}'] == 1
    assert shown['tank_produce_latency_seconds_bucket{le="0.0025"}'] == 1
    assert shown["tank_produce_latency_seconds_count"] == 1


def test_every_message_that_is_taken_has_a_name(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data") as node:
        session = TankSession(node.broker)
        for message_id in MESSAGE_NAMES:
            session.check_frame(message_id, 0)


def test_a_histogram_counts_what_is_above_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    histogram.add(0.5, 2)
    histogram.add(2.0)
    histogram.add(99.0)
    assert histogram.counts == [2, 1, 1]
    assert histogram.sum_s == 102.0
