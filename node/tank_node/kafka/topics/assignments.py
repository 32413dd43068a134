"""The brokers that a client chooses for the replicas of new partitions."""

from collections.abc import Sequence

from tank_protos.generated.kafka import CreatableReplicaAssignment


class InvalidAssignment(ValueError):
    """An assignment that can't be taken. The message is a sentence for the client."""


def by_partition(assignments: Sequence[CreatableReplicaAssignment]) -> list[list[int]]:
    """Returns the brokers of each partition of a new topic, by number. Raises InvalidAssignment."""
    placed = {each.partition_index: each.broker_ids for each in assignments}
    if len(placed) != len(assignments) or placed.keys() != set(range(len(placed))):
        raise InvalidAssignment("the assigned partitions are numbered from 0 on, each once, without holes")
    return [placed[number] for number in range(len(placed))]


def check(placed: Sequence[Sequence[int]], replication_factor: int) -> None:
    """Raises InvalidAssignment unless each partition has so many different brokers. The controllers check
    that the brokers exist."""
    for brokers in placed:
        if not brokers or any(broker_id <= 0 for broker_id in brokers):
            raise InvalidAssignment("each partition needs one broker at least, by its id")
        if len(set(brokers)) != len(brokers):
            raise InvalidAssignment("a broker has at most one replica of a partition")
        if len(brokers) != replication_factor:
            raise InvalidAssignment(
                f"each partition needs {replication_factor} replicas, as the others have: {len(brokers)} are "
                "assigned"
            )
