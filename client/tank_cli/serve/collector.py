"""The metrics of a broker and of its controller, which are one process: for `tank serve`."""

from collections.abc import Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector


class ServeCollector(Collector):
    """Collects the broker's metrics, then the controller's."""

    def __init__(self, *collectors: Collector) -> None:
        self._collectors = collectors

    def collect(self) -> Iterator[Metric]:
        """The metrics, as Prometheus' library expects them."""
        for collector in self._collectors:
            yield from collector.collect()
