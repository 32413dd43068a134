"""What the controllers say of a cluster, as rows and as JSON. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tank_cli.figures import count_text
from tank_cli.output import Json
from tank_protos.generated import control_pb2 as pb

LEADERLESS, UNDER, BELOW = pb.LEADERLESS, pb.UNDER_REPLICATED, pb.BELOW_MIN_INSYNC


# --- brokers ---


def broker_state(load: pb.BrokerLoad) -> str:
    """In a word or two."""
    broker = load.broker
    if broker.fenced_index:
        states = ["fenced", *(["connected"] if load.connected else [])]
    else:
        states = ["alive", *([] if load.connected else ["not connected"])]
    if broker.draining:
        states.append("draining" if load.replicas else "drained")
    if broker.shutting_down:
        states.append("stopping")
    return ", ".join(states)


def address_of(broker: pb.Broker) -> str:
    """Where clients reach it; a dash when another has its address now."""
    for endpoint in broker.endpoints:
        if endpoint.name == "tank":
            return f"{endpoint.host}:{endpoint.port}"
    return "-"


def broker_row(load: pb.BrokerLoad) -> list[str]:
    """Under BROKER_COLUMNS."""
    broker = load.broker
    return [
        str(broker.broker_id),
        address_of(broker),
        broker.rack or "-",
        broker_state(load),
        count_text(load.replicas),
        count_text(load.leads),
        count_text(load.arriving),
    ]


BROKER_COLUMNS = [">Broker", "Address", "Rack", "State", ">Replicas", ">Leads", ">Arriving"]


def broker_json(load: pb.BrokerLoad) -> dict[str, Json]:
    """The same for programs."""
    broker = load.broker
    return {
        "broker_id": broker.broker_id,
        "address": None if (address := address_of(broker)) == "-" else address,
        "rack": broker.rack,
        "fenced": broker.fenced_index != 0,
        "connected": load.connected,
        "draining": broker.draining,
        "stopping": broker.shutting_down,
        "replicas": load.replicas,
        "leads": load.leads,
        "arriving": load.arriving,
    }


# --- partitions ---


@dataclass(slots=True, frozen=True)
class Row:
    """A partition and its topic."""

    topic: pb.TopicSummary
    partition: pb.Partition
    troubles: tuple[int, ...]
    unreadable: tuple[int, ...] = ()
    """Brokers that can't read their log of it now; told where all came back impaired."""

    @property
    def place(self) -> str:
        return f"{self.topic.topic.name}/{self.partition.partition}"

    def waits_for(self, fenced: Iterable[int]) -> list[int]:
        """The brokers without which nobody can lead: any of those that were whole when they went, else all
        that are away. None for one that is led."""
        if not self.is_leaderless:
            return []
        away = set(fenced) & set(self.partition.eligible)
        whole = away - set(self.partition.impaired)
        return sorted(whole or away)

    @property
    def is_leaderless(self) -> bool:
        return LEADERLESS in self.troubles


def rows(parts: Iterable[pb.PartitionsAnswer]) -> Iterator[Row]:
    """The partitions of an answer."""
    topics: dict[int, pb.TopicSummary] = {}
    for part in parts:
        topics.update({summary.topic.topic_id: summary for summary in part.topics})
        for report in part.partitions:
            topic, troubles = topics[report.topic_id], tuple(report.troubles)
            yield Row(topic, report.partition, troubles, tuple(report.unreadable))


PARTITION_COLUMNS = [
    "Topic", ">Partition", ">Leader", ">Epoch", "Replicas", "In sync", "Eligible", ">Lossy", "State",
]  # fmt: skip


def partition_row(row: Row, fenced: Iterable[int]) -> list[str]:
    """Under PARTITION_COLUMNS."""
    partition = row.partition
    return [
        row.topic.topic.name,
        str(partition.partition),
        str(partition.leader or "-"),
        str(partition.leader_epoch),
        ids_text(partition.replicas),
        ids_text(partition.in_sync),
        ids_text(partition.eligible),
        str(partition.lossy_elections or "-"),
        partition_state(row, fenced),
    ]


def partition_state(row: Row, fenced: Iterable[int]) -> str:
    """What is the matter with it, the worst first."""
    partition = row.partition
    said = []
    if row.is_leaderless:
        said.append(f"leaderless: {waiting_text(row, fenced)}")
    elif BELOW in row.troubles:
        said.append(f"below min.insync ({len(partition.in_sync)} of {row.topic.min_insync})")
    elif UNDER in row.troubles:
        said.append("under-replicated")
    if pb.MOVING in row.troubles:
        said.append(move_text(partition))
    if pb.DISPLACED in row.troubles:
        said.append(f"{partition.replicas[0]} is to lead")
    if not said:
        said.append("ok")
    return "; ".join(said)


def waiting_text(row: Row, fenced: Iterable[int]) -> str:
    """Why nobody leads."""
    wanted = row.waits_for(fenced)
    if not wanted and row.unreadable:
        brokers = " and ".join(map(str, row.unreadable))
        return f"can't read the log of broker {brokers}: start it again"
    if not wanted:
        return "all came back impaired, and say which has most"
    word = " and " if wanted[0] in row.partition.impaired else " or "
    return f"waits for broker {word.join(map(str, wanted))}"


def move_text(partition: pb.Partition) -> str:
    """Where it goes."""
    to = f"to {ids_text(partition.adding)}" if partition.adding else ""
    off = f"off {ids_text(partition.removing)}" if partition.removing else ""
    return " ".join(filter(None, ("moves", to, off)))


def partition_json(row: Row, fenced: Iterable[int]) -> dict[str, Json]:
    """The same for programs."""
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
    """As JSON has it."""
    return pb.PartitionTrouble.Name(pb.PartitionTrouble.ValueType(trouble)).lower()


def ids_text(ids: Sequence[int]) -> str:
    """1,2,3, or a dash."""
    return ",".join(map(str, ids)) or "-"


# --- topics ---

TOPIC_COLUMNS = [
    "Topic", ">Partitions", ">Replicas", ">Min in sync", ">Under-replicated", ">Below min", ">Leaderless",
    ">Lossy", "Settings",
]  # fmt: skip


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
        self.partitions += 1
        self.under += UNDER in row.troubles
        self.below += BELOW in row.troubles
        self.leaderless += row.is_leaderless
        self.lossy_elections += row.partition.lossy_elections

    def row(self) -> list[str]:
        """Under TOPIC_COLUMNS."""
        topic = self.summary.topic
        return [
            topic.name,
            count_text(self.partitions),
            str(topic.replication_factor),
            str(self.summary.min_insync),
            *(count_text(each) if each else "-" for each in (self.under, self.below, self.leaderless)),
            str(self.lossy_elections or "-"),
            ", ".join(f"{setting.key}={setting.value}" for setting in topic.settings),
        ]

    def json(self) -> dict[str, Json]:
        """The same for programs."""
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

CONTROLLER_COLUMNS = [">Controller", "Address", "State", ">Term", ">Applied", ">Behind"]


@dataclass(slots=True, frozen=True)
class Controller:
    """One of them: what it says of itself, or why it says nothing."""

    address: str
    ordinal: int | None
    """None: nobody knows."""
    said: pb.ControllersDescription | None
    why: str
    behind: int
    """Entries that the leader has committed and this one has not applied."""

    @property
    def state(self) -> str:
        """In a word."""
        said = self.said
        if said is None:
            return "down"
        if said.leads:
            return "leads"
        votes = any(member.votes and member.node == said.node for member in said.members)
        return "follows" if votes else "learns"

    def row(self) -> list[str]:
        """Under CONTROLLER_COLUMNS."""
        said = self.said
        trouble = self.why if said is None else said.problem
        return [
            "?" if self.ordinal is None else str(self.ordinal),
            self.address,
            self.state + (f": {trouble}" if trouble else ""),
            "-" if said is None else str(said.term),
            "-" if said is None else count_text(said.applied_index),
            "-" if said is None else count_text(self.behind),
        ]

    def json(self) -> dict[str, Json]:
        """The same for programs."""
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
        }


def controllers(found: Mapping[str, pb.ControllersDescription | str]) -> list[Controller]:
    """All that were asked, by number."""
    described = {address: said for address, said in found.items() if not isinstance(said, str)}
    ordinals = {m.address: m.node.ordinal for said in described.values() for m in said.members}
    ordinals.update({address: said.node.ordinal for address, said in described.items()})
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
    ]
    return sorted(everyone, key=lambda each: (each.ordinal is None, each.ordinal or 0, each.address))


# --- the whole ---


def partitions_text(answer: pb.OverviewAnswer) -> str:
    """9: 6 healthy, 3 under-replicated, 1 leaderless."""
    if not answer.partitions:
        return "0"
    said = [f"{count_text(answer.partitions - answer.under_replicated)} healthy"]
    for count, words in (
        (answer.under_replicated, "under-replicated"),
        (answer.below_min_insync, "below min.insync"),
        (answer.leaderless, "leaderless"),
    ):
        said += [f"{count_text(count)} {words}"] if count else []
    return f"{count_text(answer.partitions)}: {', '.join(said)}"


def brokers_text(answer: pb.OverviewAnswer) -> str:
    """3: 2 alive, 1 fenced, 1 draining."""
    brokers = [load.broker for load in answer.brokers]
    fenced = sum(1 for broker in brokers if broker.fenced_index)
    draining = sum(1 for broker in brokers if broker.draining)
    said = [f"{len(brokers) - fenced} alive"]
    said += [f"{fenced} fenced"] if fenced else []
    said += [f"{draining} draining"] if draining else []
    return f"{len(brokers)}: {', '.join(said)}"
