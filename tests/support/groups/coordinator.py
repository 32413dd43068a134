"""Which broker of a cluster of processes coordinates a group."""

from tank_protos.generated.kafka import FindCoordinatorRequest, FindCoordinatorResponse
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.processes.cluster import LocalCluster
from tests.support.waiting import until


def coordinator_of(group: str, cluster: LocalCluster, without: int = 0) -> int:
    """The number of the broker that coordinates the group, by the word of a broker with another number than
    `without`, as soon as that names another one, too."""
    broker = next(each for each in cluster.processes("broker") if each.number != without)
    host, _, port = str(broker.addresses["kafka"]).rpartition(":")
    found = 0

    def is_named() -> bool:
        nonlocal found
        with KafkaSocket(int(port), host=host) as client:
            answer = client.ask(FindCoordinatorRequest(group), FindCoordinatorResponse, 3)
        found = without if answer.error_code else answer.node_id
        return found != without

    until(is_named, "no broker coordinates the group")
    return found
