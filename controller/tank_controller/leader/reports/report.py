"""A cluster's state as JSON, for the HTTP API and `tank cluster --output json`. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tank_protos.generated import control_pb2 as pb

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"

LEADERLESS, UNDER, BELOW = pb.LEADERLESS, pb.UNDER_REPLICATED, pb.BELOW_MIN_INSYNC

SHOWN = 20
"""How many partitions of each kind a status shows; the list of partitions shows all."""


# --- brokers ---


def address_of(broker: pb.Broker) -> str:
    """host:port for clients; empty when another broker has the address now."""
    for endpoint in broker.endpoints:
        if endpoint.name == "tank":
            return f"{endpoint.host}:{endpoint.port}"
    return ""


def broker_json(load: pb.BrokerLoad) -> dict[str, Json]:
    """A broker and what it holds."""
    broker = load.broker
    return {
        "broker_id": broker.broker_id,
        "address": address_of(broker) or None,
        "rack": broker.rack,
        "fenced": broker.fenced_index != 0,
        "connected": load.connected,
        "draining": broker.draining,
        "scaled_down": broker.scaled_down,
        "stopping": broker.shutting_down,
        "clock_off": broker.clock_off,
        "no_room": broker.no_room,
        "replicas": load.replicas,
        "leads": load.leads,
        "arriving": load.arriving,
    }


def fenced_of(found: pb.OverviewAnswer) -> list[int]:
    """The fenced brokers."""
    return [load.broker.broker_id for load in found.brokers if load.broker.fenced_index]


# --- partitions ---


@dataclass(slots=True, frozen=True)
class Row:
    """A partition and its topic."""

    topic: pb.TopicSummary
    partition: pb.Partition
    troubles: tuple[int, ...]
    unreadable: tuple[int, ...] = ()
    """The brokers that can't read their replica now; known only where all of them came back impaired."""

    @property
    def place(self) -> str:
        return f"{self.topic.topic.name}/{self.partition.partition}"

    def waits_for(self, fenced: Iterable[int]) -> list[int]:
        """The brokers that a leaderless partition waits for: fenced eligible ones that were not impaired,
        else all fenced eligible ones. Empty for a partition with a leader."""
        if not self.is_leaderless:
            return []
        away = set(fenced) & set(self.partition.eligible)
        whole = away - set(self.partition.impaired)
        return sorted(whole or away)

    @property
    def is_leaderless(self) -> bool:
        return LEADERLESS in self.troubles


class PartitionRows:
    """Reads an answer in parts: it names a topic once, before the topic's first partition."""

    def __init__(self) -> None:
        self._topics: dict[int, pb.TopicSummary] = {}

    def read(self, part: pb.PartitionsAnswer) -> Iterator[Row]:
        """The partitions of the next part."""
        self._topics.update({summary.topic.topic_id: summary for summary in part.topics})
        for report in part.partitions:
            topic, troubles = self._topics[report.topic_id], tuple(report.troubles)
            yield Row(topic, report.partition, troubles, tuple(report.unreadable))


def rows(parts: Iterable[pb.PartitionsAnswer]) -> Iterator[Row]:
    """The partitions of an answer."""
    answer = PartitionRows()
    for part in parts:
        yield from answer.read(part)


def partition_json(row: Row, fenced: Iterable[int]) -> dict[str, Json]:
    """A partition; `fenced`: the fenced brokers."""
    partition = row.partition
    return {
        "topic": row.topic.topic.name,
        "partition": partition.partition,
        "leader": partition.leader or None,
        "leader_epoch": partition.leader_epoch,
        "replicas": list(partition.replicas),
        "in_sync": list(partition.in_sync),
        "min_insync": row.topic.min_insync,
        "eligible": list(partition.eligible),
        "impaired": list(partition.impaired),
        "adding": list(partition.adding),
        "removing": list(partition.removing),
        "lossy_elections": partition.lossy_elections,
        "lossy_epoch": partition.lossy_epoch,
        "troubles": [trouble_name(trouble) for trouble in row.troubles],
        "waits_for": list(row.waits_for(fenced)),
        "unreadable": list(row.unreadable),
    }


def trouble_name(trouble: int) -> str:
    """The trouble's name in JSON."""
    return pb.PartitionTrouble.Name(pb.PartitionTrouble.ValueType(trouble)).lower()


# --- topics ---


@dataclass(slots=True)
class TopicCounts:
    """A topic, and how many of its partitions are in which trouble."""

    summary: pb.TopicSummary
    partitions: int = 0
    under: int = 0
    below: int = 0
    leaderless: int = 0
    lossy_elections: int = 0

    def add(self, row: Row) -> None:
        """Counts one of the topic's partitions."""
        self.partitions += 1
        self.under += UNDER in row.troubles
        self.below += BELOW in row.troubles
        self.leaderless += row.is_leaderless
        self.lossy_elections += row.partition.lossy_elections

    def json(self) -> dict[str, Json]:
        """The counts as JSON."""
        topic = self.summary.topic
        return {
            "topic": topic.name,
            "topic_id": topic.topic_id,
            "partitions": self.partitions,
            "replication_factor": topic.replication_factor,
            "min_insync": self.summary.min_insync,
            "under_replicated": self.under,
            "below_min_insync": self.below,
            "leaderless": self.leaderless,
            "lossy_elections": self.lossy_elections,
            "settings": {setting.key: setting.value for setting in topic.settings},
        }


def topic_counts(found: Iterable[Row]) -> list[TopicCounts]:
    """By topic, in the order of the rows."""
    topics: dict[int, TopicCounts] = {}
    for row in found:
        topic_id = row.topic.topic.topic_id
        if topic_id not in topics:
            topics[topic_id] = TopicCounts(row.topic)
        topics[topic_id].add(row)
    return list(topics.values())


# --- controllers ---


@dataclass(slots=True, frozen=True)
class Controller:
    """A controller: its own description, or the reason why it gave none."""

    address: str
    ordinal: int | None
    """None where it is not known."""
    said: pb.ControllersDescription | None
    why: str
    behind: int
    """Entries that the leader has committed and this controller has not applied."""

    @property
    def state(self) -> str:
        """The controller's state in one word."""
        said = self.said
        if said is None:
            return "down"
        if said.leads:
            return "leads"
        votes = any(member.votes and member.node == said.node for member in said.members)
        return "follows" if votes else "learns"

    def json(self) -> dict[str, Json]:
        """The controller as JSON."""
        said = self.said
        return {
            "id": self.ordinal,
            "address": self.address,
            "state": self.state,
            "term": said.term if said else None,
            "commit_index": said.commit_index if said else None,
            "applied_index": said.applied_index if said else None,
            "behind": self.behind if said else None,
            "problem": (said.problem if said else self.why) or None,
            "free_bytes": said.free_bytes if said and said.disk_bytes else None,
            "disk_bytes": said.disk_bytes if said and said.disk_bytes else None,
        }


def controllers(found: Mapping[str, pb.ControllersDescription | str]) -> list[Controller]:
    """All controllers that were asked, by ordinal. `found`: what each says of itself, or why it can't be
    asked, by address. A controller that answers at several addresses, as its own and a name for all pods, is
    listed once.
    """
    described = {address: said for address, said in found.items() if not isinstance(said, str)}
    ordinals = {m.address: m.node.ordinal for said in described.values() for m in said.members}
    ordinals.update({address: said.node.ordinal for address, said in described.items()})
    own = {m.address for said in described.values() for m in said.members}
    there = {_node_of(described[address]) for address in own & described.keys()}
    committed = max((said.commit_index for said in described.values()), default=0)
    everyone = [
        Controller(
            address,
            ordinals.get(address),
            None if isinstance(said, str) else said,
            said if isinstance(said, str) else "",
            0 if isinstance(said, str) else committed - said.applied_index,
        )
        for address, said in found.items()
        if address in own or isinstance(said, str) or _node_of(said) not in there
    ]
    return sorted(everyone, key=lambda each: (each.ordinal is None, each.ordinal or 0, each.address))


def _node_of(said: pb.ControllersDescription) -> tuple[int, bytes]:
    return said.node.ordinal, said.node.disk


def newest(members: Iterable[Controller]) -> pb.ControllersDescription | None:
    """The description by the leader, else by the controller with the newest state; None without an answer."""
    said = [each.said for each in members if each.said is not None]
    return max(said, key=lambda each: (each.leads, each.commit_index), default=None)


def silent(members: Sequence[Controller]) -> list[pb.ControllerMember]:
    """The members that answered at none of the addresses that were asked, by the newest description.
    Addresses that no member has are left out: they belong to removed controllers, or are other names of
    members.
    """
    found = newest(members)
    answered = [(each.said.node.ordinal, each.said.node.disk) for each in members if each.said is not None]
    named = found.members if found is not None else []
    return [member for member in named if (member.node.ordinal, member.node.disk) not in answered]


# --- the whole ---


def status_json(
    members: Sequence[Controller],
    found: pb.OverviewAnswer,
    waiting: Iterable[Row],
    moving: Iterable[Row],
) -> dict[str, Json]:
    """The cluster at a glance. `waiting`, `moving`: the first SHOWN leaderless partitions, and moving
    ones.
    """
    fenced = fenced_of(found)
    return {
        "cluster_id": next((each.said.cluster_id for each in members if each.said is not None), None),
        "leader": next((each.ordinal for each in members if each.state == "leads"), None),
        "healthy": not (found.under_replicated or fenced or silent(members))
        and not any(each.said.problem for each in members if each.said is not None),
        "controllers": [each.json() for each in members],
        "brokers": [broker_json(load) for load in found.brokers],
        "topics": found.topics,
        "partitions": {
            "total": found.partitions,
            "healthy": found.partitions - found.under_replicated,
            "under_replicated": found.under_replicated,
            "below_min_insync": found.below_min_insync,
            "leaderless": found.leaderless,
            "moving": found.moving,
            "displaced": found.displaced,
        },
        "lossy_elections": found.lossy_elections,
        "balanced": found.balanced,
        "feature_level": found.feature_level,
        "next_level_waits_for": {
            "brokers": list(found.brokers_behind),
            "controllers": list(found.controllers_behind),
            "topics": list(found.topics_in_the_way),
            "groups": list(found.groups_in_the_way),
        },
        "waiting": [partition_json(row, fenced) for row in waiting],
        "moving": [partition_json(row, fenced) for row in moving],
    }
