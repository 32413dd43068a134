"""DescribeCluster (60): the brokers of the cluster, for administration clients."""

from typing import TYPE_CHECKING, Final

from tank_node.kafka import authorized_operations
from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.kafka.metadata.listed_brokers import controller_of, listed_brokers, named_brokers
from tank_protos.generated.kafka import (
    DescribeClusterBroker,
    DescribeClusterBrokerCollection,
    DescribeClusterRequest,
    DescribeClusterResponse,
)

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_BROKERS: Final = 1
_CONTROLLERS: Final = 2
"""Types of endpoints that a client may ask for."""


def describe_cluster(call: "KafkaCall", body: memoryview) -> None:
    """Answers with the brokers, and the fenced ones if asked. The controllers serve no clients of Kafka's
    protocol: a question for them is refused."""
    request = DescribeClusterRequest.decode(body, call.version)
    session = call.session
    if request.endpoint_type == _CONTROLLERS:
        _refuse(call, KafkaError.MISMATCHED_ENDPOINT_TYPE, "this is a broker: ask without controllers")
        return
    if request.endpoint_type != _BROKERS:
        _refuse(
            call, KafkaError.UNSUPPORTED_ENDPOINT_TYPE, f"there is no endpoint type {request.endpoint_type}"
        )
        return
    listed = listed_brokers(session, with_fenced=request.include_fenced_brokers)
    named = listed.values() if request.include_fenced_brokers else named_brokers(session)
    response = DescribeClusterResponse(
        cluster_id=session.broker.link.view.cluster_id,
        controller_id=controller_of(session, listed),
        brokers=DescribeClusterBrokerCollection(
            DescribeClusterBroker(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
            for each in named
        ),
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = authorized_operations.on_the_cluster(session)
    call.answer(response)


def _refuse(call: "KafkaCall", error: KafkaError, message: str) -> None:
    call.answer(DescribeClusterResponse(error_code=error, error_message=message), outcome_of(error))
