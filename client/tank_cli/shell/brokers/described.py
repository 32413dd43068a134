"""Describes topics with the ends that only their leaders know, for the commands that show them."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from tank_cli.shell.connect import ends_by_leader
from tank_client.model import Ends

if TYPE_CHECKING:
    from tank_client.model import PartitionDescription, Route, TopicDescription
    from tank_client.sync import Client


def described(client: "Client", servers: str, names: Iterable[str] | None = None) -> "list[TopicDescription]":
    """Returns the topics named, or all. Ends that the broker does not know are asked from the partitions'
    leaders; they stay None where a leader does not answer in time. Raises the errors of `describe_topics`."""
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


def known_ends(client: "Client", servers: str, routes: "Iterable[Route]") -> "dict[Route, Ends]":
    """Returns the ends of partitions, by (topic, partition). Leaves out those whose leader does not answer in
    time, and those that are gone."""
    from tank_client import errors

    wanted = set(routes)
    if not wanted:
        return {}
    try:
        topics = client.admin.describe_topics(sorted({topic for topic, _ in wanted}))
    except errors.UnknownTopic:
        topics = client.admin.describe_topics()  # positions outlive their topic for a while
    ends: dict[Route, Ends] = {}
    elsewhere: dict[int, list[Route]] = {}
    for topic in topics:
        for partition in topic.partitions:
            route = topic.name, partition.partition
            first, last = partition.first_available, partition.high_water_mark
            if route not in wanted:
                continue
            if first is not None and last is not None:
                ends[route] = Ends(first, last)
            elif partition.leader is not None:
                elsewhere.setdefault(partition.leader, []).append(route)
    return ends | (ends_by_leader(servers, elsewhere.values()) if elsewhere else {})
