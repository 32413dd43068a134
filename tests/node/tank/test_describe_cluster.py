"""What a broker says of the processes around it: controllers, and the last addresses of brokers' names."""

from pathlib import Path

from tank_node.cluster.view import BrokerView
from tank_node.surroundings import Surroundings
from tank_protos.generated.tank import DescribeClusterRequest, DescribeClusterResponse
from tests.support.nodes.bench_node import BenchNode
from tests.support.storage.fault_disk import FaultDisk


def described(node: BenchNode) -> DescribeClusterResponse:
    return DescribeClusterResponse.decode(node.client().ask(DescribeClusterRequest(0, 9)))


def test_a_broker_of_its_own_has_no_controllers() -> None:
    node = BenchNode(Path("/data"), disk=FaultDisk())
    answer = described(node)
    assert (answer.request_id, answer.cluster_id) == (9, "test-cluster")
    assert (answer.controllers, answer.hosts) == ([], [])
    node.close()


def test_a_broker_of_a_cluster_tells_controllers_and_the_addresses_that_it_knows() -> None:
    node = BenchNode(Path("/data"), disk=FaultDisk())
    for number in (2, 3, 4):
        node.broker.link.view.brokers[number] = BrokerView(number, 1, f"b{number}.test", 11011, "")
    known = {"b2.test": ["10.0.0.2", "fd00::2"], "b3.test": ["10.0.0.3"]}
    node.broker.surroundings = Surroundings(
        lambda: ["controller-0.test:11012", "[fd00::1]:11013"], lambda host: known.get(host, [])
    )
    answer = described(node)
    assert [(each.host, each.port) for each in answer.controllers] == [
        ("controller-0.test", 11012),
        ("fd00::1", 11013),
    ]
    assert {each.name: [a.address for a in each.addresses] for each in answer.hosts} == known
    node.close()
