"""The node's metrics as Prometheus families, made at each scrape. All families of the node are here, but for
those of `replication`, `groups` and `health_collector`."""

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from tank_node.broker.broker import Broker
from tank_node.log.log import LogState
from tank_node.message_names import MESSAGE_NAMES
from tank_node.metrics import Histogram, Metrics
from tank_node.monitoring import groups, iggy, replication
from tank_node.store.usage import space_of

MOST_TOPICS = 1000
"""The most topics with their own series."""
OTHER_TOPICS = "(others)"
"""The label of all other topics together: no topic can have this name."""

_COUNTERS = {
    "connections_opened": "Client connections that were opened",
    "received_bytes": "Bytes received from clients",
    "sent_bytes": "Bytes sent to clients",
    "produced_batches": "Bundles that were stored",
    "produced_messages": "Messages that were stored",
    "produced_bytes": "Bytes of bundles that were stored",
    "consumed_bytes": "Bytes of bundles that were given to consumers",
    "ticks": "Turns of the event loop that handled requests",
    "storage_errors": "Errors of logs at reads and writes, and logs that could not be opened",
}
_LEVELS = {
    "connections": "Client connections that are open",
    "held_bytes": "Memory held for incomplete frames and unsent answers",
    "fetch_sessions": "Fetch sessions of Kafka clients",
}
_HISTOGRAMS = {
    "produce_latency": "Time from receiving a bundle to its acknowledgement",
    "consume_latency": "Time from receiving a consume request to its answer, for requests answered at once",
    "wait_latency": "Time that consume requests waited for messages",
    "tick_latency": "Duration of one turn of the event loop",
    "fsync_latency": "Duration of one round of fsyncs",
}


class MetricsCollector(Collector):
    """Collects one node's metrics. `collect` must run on the event loop's thread, because it reads the
    broker's partitions."""

    def __init__(self, broker: Broker, metrics: Metrics) -> None:
        self._broker = broker
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        yield from self._counters()
        yield from self._kafka()
        yield from iggy.families(self._metrics)
        yield from self._levels()
        yield from replication.families(self._broker, self._metrics)
        yield from groups.families(self._broker, self._metrics)
        for name, about in _HISTOGRAMS.items():
            yield _histogram(f"tank_{name}_seconds", about, getattr(self._metrics, name))

    def _counters(self) -> Iterator[Metric]:
        metrics = self._metrics
        for name, about in _COUNTERS.items():
            yield CounterMetricFamily(f"tank_{name}", about, value=getattr(metrics, name))
        requests = CounterMetricFamily(
            "tank_requests", "Requests by kind and outcome", labels=["kind", "outcome"]
        )
        for (message_id, outcome), count in sorted(metrics.requests.items()):
            requests.add_metric([MESSAGE_NAMES.get(message_id, "other"), outcome], count)
        yield requests
        errors = CounterMetricFamily(
            "tank_request_errors", "Errors in answers, by kind of request", labels=["kind", "error"]
        )
        for (kind, error), count in sorted(metrics.errors.items()):
            errors.add_metric([kind, error], count)
        yield errors
        forwarded = CounterMetricFamily(
            "tank_forwarded",
            "Requests forwarded to the brokers that lead, by outcome",
            labels=["kind", "outcome"],
        )
        for (message_id, outcome), count in sorted(metrics.forwarded.items()):
            forwarded.add_metric([MESSAGE_NAMES[message_id], outcome], count)
        yield forwarded
        refused = CounterMetricFamily("tank_refused", "Input that was refused, by reason", labels=["reason"])
        for reason, count in sorted(metrics.refused.items()):
            refused.add_metric([reason], count)
        yield refused
        converted = CounterMetricFamily(
            "tank_converted_batches",
            "Batches given to consumers in another format than the stored one, by what was done",
            labels=["kind"],
        )
        for kind, count in sorted(metrics.converted.items()):
            converted.add_metric([kind], count)
        yield converted
        converted_bytes = CounterMetricFamily(
            "tank_converted_bytes", "Bytes that were made by converting stored batches", labels=["kind"]
        )
        for kind, count in sorted(metrics.converted_bytes.items()):
            converted_bytes.add_metric([kind], count)
        yield converted_bytes
        closed = CounterMetricFamily(
            "tank_connections_closed", "Connections closed by the broker", labels=["reason"]
        )
        for reason, count in sorted(metrics.closed.items()):
            closed.add_metric([reason], count)
        yield closed
        logins = CounterMetricFamily(
            "tank_logins", "Logins of Iggy's clients, by outcome", labels=["outcome"]
        )
        for outcome, count in sorted(metrics.logins.items()):
            logins.add_metric([outcome], count)
        yield logins

    def _kafka(self) -> Iterator[Metric]:
        """What Kafka clients asked for, and their libraries."""
        metrics = self._metrics
        kafka_requests = CounterMetricFamily(
            "tank_kafka_requests",
            "Requests of Kafka clients by name, version and outcome",
            labels=["api", "version", "outcome"],
        )
        for (api, version, outcome), count in sorted(metrics.kafka_requests.items()):
            kafka_requests.add_metric([api, str(version), outcome], count)
        yield kafka_requests
        software = CounterMetricFamily(
            "tank_kafka_connections",
            "Connections whose Kafka clients named their library, by its name and version",
            labels=["software", "version"],
        )
        for (name, version_name), count in sorted(metrics.kafka_software.items()):
            software.add_metric([name, version_name], count)
        yield software
        clients = CounterMetricFamily(
            "tank_kafka_client_bytes",
            "Bytes of requests from Kafka clients, and of the answers, by client id",
            labels=["client_id", "direction"],
        )
        for client_id, counted in sorted(metrics.kafka_clients.items()):
            clients.add_metric([client_id, "in"], counted.received)
            clients.add_metric([client_id, "out"], counted.sent)
        yield clients
        times = HistogramMetricFamily(
            "tank_kafka_request_seconds",
            "Time from receiving a request of a Kafka client to its answer, by its name; waits included",
            labels=["api"],
        )
        for api, histogram in sorted(metrics.kafka_latency.items()):
            times.add_metric([api], histogram.cumulated(), histogram.sum_s)
        yield times

    def _levels(self) -> Iterator[Metric]:
        metrics, broker = self._metrics, self._broker
        values = {
            "connections": metrics.connections,
            "held_bytes": metrics.held_bytes,
            "fetch_sessions": metrics.fetch_sessions,
        }
        for name, about in _LEVELS.items():
            yield GaugeMetricFamily(f"tank_{name}", about, value=values[name])
        waiting = GaugeMetricFamily(
            "tank_waiting_requests",
            "Consume requests that wait for messages, and bundles that wait to be committed",
            labels=["kind"],
        )
        waiting.add_metric(["consume"], metrics.waiting)
        waiting.add_metric(["produce"], sum(p.acks.batches_waiting() for p in broker.partitions()))
        yield waiting
        files = broker.data_folder.files
        yield GaugeMetricFamily("tank_open_files", "Files of logs that are open", value=len(files))
        yield GaugeMetricFamily(
            "tank_fsync_running_seconds",
            "Age of the oldest fsync under way; 0 when there is none",
            value=broker.flusher.oldest_s(),
        )
        space = space_of(broker.data_folder)
        yield GaugeMetricFamily(
            "tank_disk_free_bytes",
            "Free space on the data folder's volume",
            value=space.free if space else None,
        )
        yield GaugeMetricFamily(
            "tank_disk_size_bytes", "Size of the data folder's volume", value=space.size if space else None
        )
        yield GaugeMetricFamily("tank_topics", "Topics on this node", value=len(broker.topics))
        yield from self._topics()
        states = dict.fromkeys(LogState, 0)
        for partition in broker.partitions():
            states[partition.log.state] += 1
        by_state = GaugeMetricFamily("tank_partitions", "Partitions by their log's state", labels=["state"])
        for state, count in states.items():
            by_state.add_metric([state.value], count)
        broken = sum(len(topic.broken) for topic in broker.topics.values())
        by_state.add_metric(["not_opened"], broken)
        yield by_state

    def _topics(self) -> Iterator[Metric]:
        """Series for each of the MOST_TOPICS largest topics, and for all others together."""
        sizes = GaugeMetricFamily("tank_log_size_bytes", "Bytes of a topic's logs", labels=["topic"])
        marks = GaugeMetricFamily(
            "tank_high_water_mark",
            "Sum of the high-water marks of a topic's partitions held here",
            labels=["topic"],
        )
        found = []
        for name, topic in self._broker.topics.items():
            partitions = topic.partitions.values()
            size = sum(partition.log.size_bytes for partition in partitions)
            found.append((size, sum(partition.high_water_mark for partition in partitions), name))
        found.sort(reverse=True)
        for size, mark, name in found[:MOST_TOPICS]:
            sizes.add_metric([name], size)
            marks.add_metric([name], mark)
        others = found[MOST_TOPICS:]
        if others:
            sizes.add_metric([OTHER_TOPICS], sum(size for size, _, _ in others))
            marks.add_metric([OTHER_TOPICS], sum(mark for _, mark, _ in others))
        yield sizes
        yield marks


def _histogram(name: str, about: str, histogram: Histogram) -> HistogramMetricFamily:
    return HistogramMetricFamily(name, about, buckets=histogram.cumulated(), sum_value=histogram.sum_s)
