"""Members of consumer groups, as a broker describes them."""

from tank_client.model import ConsumerGroupState, GroupDescription, GroupMember


def member(
    name: str, *assignment: tuple[str, int], epoch: int = 7, instance_id: str = "", host: str = "10.0.0.7"
) -> GroupMember:
    """A member that has these partitions, and whose id begins with its name."""
    topics = tuple(dict.fromkeys(topic for topic, _ in assignment))
    return GroupMember(f"{name}-4f0e", instance_id, name, host, epoch, topics, assignment)


def group_of(name: str, *members: GroupMember) -> GroupDescription:
    """A stable group of these members."""
    return GroupDescription(name, ConsumerGroupState.STABLE, "consumer", "uniform", 7, members)
