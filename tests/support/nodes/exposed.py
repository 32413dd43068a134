"""The metrics that a broker exposes, as a scraper reads them."""

from prometheus_client import CollectorRegistry, generate_latest

from tank_node.monitoring.metrics_collector import MetricsCollector
from tests.support.nodes.bench_node import BenchNode


def exposed(node: BenchNode) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(MetricsCollector(node.broker, node.metrics))
    lines = generate_latest(registry).decode().splitlines()
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}
