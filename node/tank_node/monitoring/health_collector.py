"""A node's health as Prometheus families, beside those of `metrics_collector`."""

from collections.abc import Callable, Iterable

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tank_node.monitoring.health import Health
from tank_node.version import kernel_name, software_version


class HealthCollector(Collector):
    """Collects one node's health. `collect` must run on the event loop's thread, as `health` must."""

    def __init__(self, health: Callable[[], Health]) -> None:
        self._health = health

    def collect(self) -> Iterable[Metric]:
        health = self._health()
        yield GaugeMetricFamily(
            "tank_ready", "Whether /readyz says that the broker is ready, 1 or 0", value=health.ready
        )
        yield GaugeMetricFamily(
            "tank_clock_ahead_seconds",
            "How far the machine's wall clock is ahead of the time that messages are stamped with",
            value=health.clock_ahead_ms / 1000,
        )
        build = GaugeMetricFamily(
            "tank_build_info",
            "Always 1; the labels are the software's version and kernel",
            labels=["version", "kernel"],
        )
        build.add_metric([software_version() or "unknown", kernel_name()], 1)
        yield build
