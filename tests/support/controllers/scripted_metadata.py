"""The metadata of a `scripted_broker`'s cluster: its brokers, and the leaders."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tank_protos.error_codes import ErrorCode
from tank_protos.generated import tank


@dataclass
class Metadata:
    """`brokers`: id -> (host, port). `leaders`: (topic, partition) -> (broker id, leader epoch).
    `refusal`: the error that stands for a (topic, partition) in answers about ends and times; 0: none."""

    broker_id: int = 1
    brokers: dict[int, tuple[str, int]] = field(default_factory=dict)
    leaders: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    refusal: Callable[[tuple[str, int]], int] = lambda route: 0

    def describe(self, request: Any, partitions: dict[str, int]) -> Any:
        """The answer, of topics with so many partitions."""
        topics = []
        for name in request.names or sorted(partitions):
            described = [self._partition(name, number) for number in range(partitions.get(name, 0))]
            error = 0 if name in partitions else ErrorCode.UNKNOWN_TOPIC
            topics.append(tank.DescribedTopic(name=name, error=error, topic_id=7, partitions=described))
        brokers = [tank.DescribedBroker(number, *at) for number, at in self.brokers.items()]
        return tank.DescribeTopicsResponse(brokers=brokers, topics=topics)

    def _partition(self, name: str, number: int) -> tank.DescribedPartition:
        leader, epoch = self.leaders.get((name, number), (0xFFFF, 0))
        return tank.DescribedPartition(partition=number, leader=leader, leader_epoch=epoch)
