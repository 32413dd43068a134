"""The controllers' answers about a cluster as rows of tables; `leader.report` makes JSON of them. Pure."""

from collections.abc import Iterable, Sequence

from tank_cli.shell.brokers.reports import AskedBroker
from tank_cli.shell.figures import bytes_text, count_text, settings_text
from tank_controller.leader.reports.report import BELOW, UNDER, Controller, Row, TopicCounts, address_of
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb

# --- brokers ---


def broker_state(load: pb.BrokerLoad) -> str:
    """The broker's state in a word or two."""
    broker = load.broker
    if broker.fenced_index:
        states = ["fenced", *(["connected"] if load.connected else [])]
    else:
        states = ["alive", *([] if load.connected else ["not connected"])]
    if broker.draining:
        states.append("draining" if load.replicas else "drained")
    if broker.scaled_down:
        states.append("scaled down")
    if broker.shutting_down:
        states.append("stopping")
    if broker.clock_off:
        states.append("clock off")
    if broker.no_room:
        states.append("no room")
    return ", ".join(states)


def broker_row(load: pb.BrokerLoad) -> list[str]:
    """The row of a broker, under BROKER_COLUMNS."""
    broker = load.broker
    return [
        str(broker.broker_id),
        address_of(broker) or "-",
        broker.rack or "-",
        broker_state(load),
        count_text(load.replicas),
        count_text(load.leads),
        count_text(load.arriving),
    ]


BROKER_COLUMNS = [">Broker", "Address", "Rack", "State", ">Replicas", ">Leads", ">Arriving"]


TROUBLE_COLUMNS = [">Broker", "Partition", "Trouble", "Reason"]


def trouble_rows(asked: AskedBroker) -> list[list[str]]:
    """Under TROUBLE_COLUMNS: the partitions that a broker can't use as it should."""
    troubles = asked.report.troubles if asked.report else ()
    return [[str(asked.broker_id), f"{t.topic}/{t.partition}", t.trouble.value, t.reason] for t in troubles]


def free_text(asked: AskedBroker) -> str:
    """The free room of its disk; a dash where it is unknown."""
    free = asked.report.free_bytes if asked.report else None
    return "-" if free is None else bytes_text(free)


# --- partitions ---


PARTITION_COLUMNS = [
    "Topic", ">Partition", ">Leader", ">Epoch", "Replicas", "In sync", "Eligible", ">Lossy", "State",
]  # fmt: skip


def partition_row(row: Row, fenced: Iterable[int]) -> list[str]:
    """The row of a partition, under PARTITION_COLUMNS."""
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
    """The problems of a partition, the worst first."""
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
    """Why the partition has no leader."""
    wanted = row.waits_for(fenced)
    if not wanted and row.unreadable:
        brokers = " and ".join(map(str, row.unreadable))
        return f"can't read the log of broker {brokers}: start it again"
    if not wanted:
        return "all came back and may have lost messages; the controllers ask which has most"
    word = " and " if wanted[0] in row.partition.impaired else " or "
    return f"waits for broker {word.join(map(str, wanted))}"


def move_text(partition: pb.Partition) -> str:
    """The brokers that a partition moves to."""
    to = f"to {ids_text(partition.adding)}" if partition.adding else ""
    off = f"off {ids_text(partition.removing)}" if partition.removing else ""
    return " ".join(filter(None, ("moves", to, off)))


def ids_text(ids: Sequence[int]) -> str:
    """1,2,3, or a dash."""
    return ",".join(map(str, ids)) or "-"


# --- topics ---

TOPIC_COLUMNS = [
    "Topic", ">Partitions", ">Replicas", ">Min in sync", ">Under-replicated", ">Below min", ">Leaderless",
    ">Lossy", "Settings",
]  # fmt: skip


def topic_row(counts: TopicCounts) -> list[str]:
    """The row of a topic, under TOPIC_COLUMNS."""
    topic = counts.summary.topic
    return [
        topic.name,
        count_text(counts.partitions),
        str(topic.replication_factor),
        str(counts.summary.min_insync),
        *(count_text(each) if each else "-" for each in (counts.under, counts.below, counts.leaderless)),
        str(counts.lossy_elections or "-"),
        settings_text((setting.key, setting.value) for setting in topic.settings),
    ]


# --- controllers ---

CONTROLLER_COLUMNS = [">Controller", "Address", "State", ">Term", ">Applied", ">Behind"]


def controller_row(controller: Controller) -> list[str]:
    """The row of a controller, under CONTROLLER_COLUMNS."""
    said = controller.said
    trouble = f": {controller.why}" if said is None else "; see below" if said.problem else ""
    return [
        "?" if controller.ordinal is None else str(controller.ordinal),
        controller.address,
        controller.state + trouble,
        "-" if said is None else str(said.term),
        "-" if said is None else count_text(said.applied_index),
        "-" if said is None else count_text(controller.behind),
    ]


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


def level_text(answer: pb.OverviewAnswer) -> str:
    """The feature level, and what holds up the next one: 1; level 2 waits for broker 3 and controllers 1,2.
    A topic or group in its way has to be deleted."""
    named = [
        f"{noun} {ids_text(ids)}" if len(ids) == 1 else f"{noun}s {ids_text(ids)}"
        for noun, ids in (("broker", answer.brokers_behind), ("controller", answer.controllers_behind))
        if ids
    ]
    named += [f"the deletion of topic {name}" for name in answer.topics_in_the_way]
    named += [f"the deletion of group {name}" for name in answer.groups_in_the_way]
    level = answer.feature_level
    wanted = f"level {level + 1}"
    if level + 1 == feature_levels.IGGY:
        wanted += ", which Iggy's clients need,"
    return f"{level}; {wanted} waits for {' and '.join(named)}" if named else str(level)


def brokers_text(answer: pb.OverviewAnswer) -> str:
    """3: 2 alive, 1 fenced, 1 draining, 1 scaled down."""
    brokers = [load.broker for load in answer.brokers]
    fenced = sum(1 for broker in brokers if broker.fenced_index)
    draining = sum(1 for broker in brokers if broker.draining)
    said = [f"{len(brokers) - fenced} alive"]
    said += [f"{fenced} fenced"] if fenced else []
    said += [f"{draining} draining"] if draining else []
    scaled_down = sum(1 for broker in brokers if broker.scaled_down)
    said += [f"{scaled_down} scaled down"] if scaled_down else []
    return f"{len(brokers)}: {', '.join(said)}"
