"""What Iggy clients asked for, as Prometheus families."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from tank_node.metrics import Metrics


def families(metrics: Metrics) -> Iterator[Metric]:
    """The families of Iggy's protocol."""
    requests = CounterMetricFamily(
        "tank_iggy_requests",
        "Requests of Iggy clients by command, era and outcome",
        labels=["command", "era", "outcome"],
    )
    for labels, count in sorted(metrics.iggy_requests.items()):
        requests.add_metric(list(labels), count)
    yield requests
    sessions = CounterMetricFamily(
        "tank_iggy_sessions", "Connections of Iggy clients, by the era of their protocol", labels=["era"]
    )
    for era, count in sorted(metrics.iggy_sessions.items()):
        sessions.add_metric([era], count)
    yield sessions
    connections = GaugeMetricFamily(
        "tank_iggy_connections",
        "Connections of Iggy clients that are open, by the era of their protocol",
        labels=["era"],
    )
    for era, count in sorted(metrics.iggy_connections.items()):
        connections.add_metric([era], count)
    yield connections
    unknown = CounterMetricFamily(
        "tank_iggy_unknown_sdk",
        "Logins of Iggy clients whose library has an unknown version, by that version",
        labels=["version"],
    )
    for version, count in sorted(metrics.iggy_unknown_sdks.items()):
        unknown.add_metric([version], count)
    yield unknown
    times = HistogramMetricFamily(
        "tank_iggy_request_seconds",
        "Time from receiving a request of an Iggy client to its answer, by command; waits included",
        labels=["command"],
    )
    for command, histogram in sorted(metrics.iggy_latency.items()):
        times.add_metric([command], histogram.cumulated(), histogram.sum_s)
    yield times
