"""The brokers of a run: one, or three in a cluster, as processes, with the topics of the steps."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tank_client.sync import Client
from tank_protos.generated.kafka import ApiVersionsRequest, ApiVersionsResponse
from tests.kafka_clients import groups
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

TOPIC: Final = "matrix"
BUNDLES_TOPIC: Final = f"{TOPIC}-bundles"
GROUP_TOPIC: Final = f"{TOPIC}-groups"
KCAT_TOPIC: Final = f"{TOPIC}-kcat"
SPARK_TOPIC, SPARK_COPY = f"{TOPIC}-spark", f"{TOPIC}-spark-copy"
PROBE_TOPIC: Final = "v0"
"""Of the probe that speaks to one broker alone, and takes a second topic with a `b` behind the name."""
CONSUMER_GROUP_HEARTBEAT: Final = 68
TRIES: Final = 12
"""The most topics that are made until one has the leader that it has to have: three brokers take turns."""
PARTITIONS: Final = {
    TOPIC: 1,
    BUNDLES_TOPIC: 1,
    GROUP_TOPIC: groups.PARTITIONS,
    KCAT_TOPIC: 1,
    SPARK_TOPIC: 2,
    SPARK_COPY: 2,
}


@dataclass(frozen=True, slots=True)
class Servers:
    """Brokers as their clients know them."""

    kafka: str
    tank: str
    leader: str
    """The address for Kafka's clients of the one that leads the probe's topics."""
    probe_topic: str
    """The probe's topic; empty: it makes one by asking for it."""
    assign_partitions: bool
    """Whether they serve groups whose broker assigns the partitions (KIP-848)."""
    cluster: LocalCluster | None = None
    """The cluster; None: a broker alone."""


@contextmanager
def one_broker(folder: Path) -> Iterator[Servers]:
    """A broker alone, which creates topics that clients ask for."""
    with BrokerProcess(folder / "one") as broker:
        with Client(broker.address) as client:
            _create_topics(client)
        kafka = f"127.0.0.1:{broker.kafka_port}"
        yield Servers(kafka, broker.address, kafka, "", _assign_partitions(broker.kafka_port))


@contextmanager
def three_brokers(folder: Path) -> Iterator[Servers]:
    """A cluster of three, which creates no topics by itself."""
    with running_cluster(folder / "three") as cluster:
        brokers = cluster.processes("broker")
        tank = ",".join(str(broker.addresses["tank"]) for broker in brokers)
        kafka = {broker.number: str(broker.addresses["kafka"]) for broker in brokers}
        with Client(tank) as client:
            _create_topics(client)
            leader = _create_led_together(client)
        assign = _assign_partitions(int(kafka[leader].rpartition(":")[2]))
        yield Servers(",".join(kafka.values()), tank, kafka[leader], PROBE_TOPIC, assign, cluster)


def _assign_partitions(kafka_port: int) -> bool:
    with KafkaSocket(kafka_port) as client:
        answer = client.ask(ApiVersionsRequest("test", "1"), ApiVersionsResponse, 3)
    return any(each.api_key == CONSUMER_GROUP_HEARTBEAT for each in answer.api_keys)


def _create_topics(client: Client) -> None:
    for topic, partitions in PARTITIONS.items():
        form = "tank" if topic == BUNDLES_TOPIC else "kafka"
        client.admin.create_topic(topic, partitions, settings={"log.format": form})


def _create_led_together(client: Client) -> int:
    """Creates the probe's two topics on one leader, which it returns."""

    def created(topic: str) -> int:
        client.admin.create_topic(topic, settings={"log.format": "kafka"})
        led: list[int] = []

        def look() -> bool:
            leader = client.admin.describe_topics([topic])[0].partitions[0].leader
            led[:] = [] if leader is None else [leader]
            return bool(led)

        until(look, f"{topic} has no leader")
        return led[0]

    leader = created(PROBE_TOPIC)
    for number in range(TRIES):
        if created(f"{PROBE_TOPIC}b") == leader:
            return leader
        client.admin.delete_topic(f"{PROBE_TOPIC}b")
        created(f"filling-{number}")
    raise AssertionError(f"no topic of {TRIES} is led by broker {leader}")
