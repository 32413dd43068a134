"""DescribeCluster (77): the controllers' addresses, and the last known addresses of the brokers' names."""

from typing import TYPE_CHECKING, Final

from tank_protos.generated.tank import (
    ControllerAddress,
    DescribeClusterRequest,
    DescribeClusterResponse,
    HostAddress,
    KnownHost,
)
from tank_protos.resolver import host_and_port

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

_MOST_ADDRESSES: Final = 255
"""How many controllers, and addresses of one name, an answer holds: their counts have one byte."""


def describe_cluster(session: "TankSession", payload: memoryview) -> None:
    """Answers from this broker's memory, so that clients find brokers while the name service is away."""
    request = DescribeClusterRequest.decode(payload)
    view, around = session.broker.link.view, session.broker.surroundings
    names = dict.fromkeys(b.address(outside=session.is_outside)[0] for b in view.brokers.values())
    hosts = [
        KnownHost(name, [HostAddress(each) for each in known[:_MOST_ADDRESSES]])
        for name in names
        if (known := around.addresses(name))
    ]
    controllers = []
    for address in around.controllers()[:_MOST_ADDRESSES]:
        host, port = host_and_port(address)
        controllers.append(ControllerAddress(host, int(port)))
    answer = DescribeClusterResponse(
        request_id=request.request_id, cluster_id=view.cluster_id, controllers=controllers, hosts=hosts
    )
    session.answer(answer)
