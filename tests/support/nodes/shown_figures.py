"""A broker's metrics of its replication."""

from prometheus_client import CollectorRegistry, generate_latest

from tank_node.monitoring.metrics_collector import MetricsCollector
from tests.support.nodes.broker_cell import BrokerCell


def shown(cell: BrokerCell, broker_id: int) -> dict[str, float]:
    """Samples by name with labels, without the `tank_` before them."""
    node = cell.nodes[broker_id]
    registry = CollectorRegistry()
    registry.register(MetricsCollector(node.broker, node.metrics))
    lines = [line for line in generate_latest(registry).decode().splitlines() if line[0] != "#"]
    return {name.removeprefix("tank_"): float(value) for name, value in (s.rsplit(" ", 1) for s in lines)}
