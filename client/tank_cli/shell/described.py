"""Topics as the whole cluster knows them, for the commands that show them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tank_cli.shell.connect import ends_by_leader

if TYPE_CHECKING:
    from tank_client.model import Ends, PartitionDescription, TopicDescription
    from tank_client.sync import Client


def described(client: "Client", servers: str, names: Iterable[str] | None = None) -> "list[TopicDescription]":
    """The topics named, or all. What a broker can't tell of partitions that others lead, those are asked for:
    where they end. It stays None where their leader doesn't answer in time.

    Raises what `describe_topics` does.
    """
    topics = client.admin.describe_topics(names)
    elsewhere: dict[int, list[tuple[str, int]]] = {}
    for topic in topics:
        for partition in topic.partitions:
            if partition.high_water_mark is None and partition.leader is not None:
                elsewhere.setdefault(partition.leader, []).append((topic.name, partition.partition))
    if not elsewhere:
        return topics
    ends = ends_by_leader(servers, elsewhere.values())
    return [
        replace(
            topic,
            partitions=tuple(_with_end(p, ends.get((topic.name, p.partition))) for p in topic.partitions),
        )
        for topic in topics
    ]


def _with_end(partition: "PartitionDescription", end: "Ends | None") -> "PartitionDescription":
    if end is None:
        return partition
    return replace(partition, first_available=end.first_available, high_water_mark=end.high_water_mark)
