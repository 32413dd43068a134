"""DescribeTopics (68): the brokers, and topics with their settings and partitions."""

from typing import TYPE_CHECKING

from tank_node.broker.broker import Topic
from tank_node.tank.ends import UNKNOWN
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    DescribedBroker,
    DescribedPartition,
    DescribedSetting,
    DescribedTopic,
    DescribeTopicsRequest,
    DescribeTopicsResponse,
)

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession

NO_LEADER_ID = 0xFFFF
"""Stands for the leader of a partition without one."""


def describe_topics(session: "TankSession", payload: memoryview) -> None:
    """Answers with all brokers, and with the named topics, or all when none is named."""
    request = DescribeTopicsRequest.decode(payload)
    broker = session.broker
    brokers = [
        DescribedBroker(b.broker_id, *b.address(outside=session.is_outside), b.rack)
        for _, b in sorted(broker.link.view.brokers.items())
    ]
    described = []
    for name in request.names or sorted(broker.topics):
        topic = broker.topics.get(name)
        if topic is None:
            described.append(DescribedTopic(error=ErrorCode.UNKNOWN_TOPIC, name=name))
        else:
            described.append(_describe(session, topic))
    answer = DescribeTopicsResponse(request_id=request.request_id, brokers=brokers, topics=described)
    session.answer(answer)


def _describe(session: "TankSession", topic: Topic) -> DescribedTopic:
    view = topic.view
    partitions = []
    for placed in view.partitions:
        partition = topic.partitions.get(placed.partition)
        first = mark = size = UNKNOWN
        if partition is not None:
            first = partition.log.first_available
            mark = partition.high_water_mark if partition.end_known and not partition.unreadable else UNKNOWN
            size = partition.log.size_bytes
        partitions.append(
            DescribedPartition(
                partition=placed.partition,
                leader=placed.leader or NO_LEADER_ID,
                leader_epoch=placed.leader_epoch,
                replicas=list(placed.replicas),
                in_sync=list(placed.in_sync),
                first_available=first,
                high_water_mark=mark,
                size_bytes=size,
            )
        )
    settings = view.settings.describe(session.broker.default_flush, view.replication_factor)
    return DescribedTopic(
        name=view.name,
        topic_id=view.topic_id,
        replication_factor=view.replication_factor,
        settings=[DescribedSetting(key, value, int(is_default)) for key, value, is_default in settings],
        partitions=partitions,
    )
