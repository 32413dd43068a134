"""The problems of a cluster, one sentence each, with their remedies: the last part of `tank cluster status`.
Pure.

docs/operations.md continues from each sentence.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tank_cli.shell.brokers.reports import AskedBroker
from tank_cli.shell.figures import bytes_text, count_text, is_nearly_full, plural
from tank_cli.shell.output import Json
from tank_client import PartitionTrouble, Trouble
from tank_controller.leader.reports.report import Controller, Row, newest, silent
from tank_controller.pods import FIRST_BROKER, pod_of, shown
from tank_protos.generated import control_pb2 as pb

FAR_BEHIND = 10_000
"""The number of entries from which a controller counts as behind: it is slow, cut off, or new."""


@dataclass(slots=True, frozen=True)
class Advice:
    """A problem, and lines with details and remedies."""

    said: str
    more: tuple[str, ...] = ()

    def json(self) -> dict[str, Json]:
        """The problem as JSON."""
        return {"warning": self.said, "help": list(self.more)}


@dataclass(slots=True, frozen=True)
class Seen:
    """The answers of the cluster. The rows are the first few of their kind."""

    members: Sequence[Controller]
    found: pb.OverviewAnswer
    waiting: Sequence[Row]
    """Partitions without a leader."""
    lacking: Sequence[Row]
    """Under-replicated."""
    asked: Sequence[AskedBroker]


def advice(seen: Seen, command: Callable[[str], str], listed_in: str = "--controllers") -> list[Advice]:
    """Controllers first, then partitions, brokers, disks, as docs/operations.md says. command: returns a
    command line about this cluster. listed_in: as `of_controllers` takes it.
    """
    return [
        *of_controllers(seen.members, listed_in),
        *_of_secret(seen.found),
        *_of_partitions(seen, command),
        *_of_brokers(seen, command),
        *_of_clocks(seen),
        *_of_room(seen, command),
        *_of_disks(seen),
    ]


def of_controllers(members: Sequence[Controller], listed_in: str = "--controllers") -> Iterator[Advice]:
    """The problems of the controllers, which are all that is known while none leads. listed_in: the option or
    variable that named them; empty: the chart, whose list may be older than the last scale-down.
    """
    yield from _of_silent_controllers(members, listed_in)
    led = any(each.said.leads for each in members if each.said is not None)
    for each in members:
        if each.said is not None and each.said.problem:
            yield Advice(f"{_controller(each)}: {each.said.problem}.")
        elif each.said is not None and led and not each.said.leads and not each.said.leader:
            yield Advice(f"{_controller(each)} knows no leader: it reaches too few of the others.")
        elif each.behind > FAR_BEHIND:
            entries = count_text(each.behind)
            yield Advice(f"{_controller(each)} is {entries} entries behind: it is slow, or cut off.")


def _of_silent_controllers(members: Sequence[Controller], listed_in: str) -> Iterator[Advice]:
    """Problems of voters that don't answer; which controllers vote is unknown when none answers."""
    found = newest(members)
    named = {member.address for member in found.members} if found is not None else set()
    strange = [each.address for each in members if each.said is None and each.address not in named]
    voters = sum(member.votes for member in found.members) if found is not None else 0
    away = silent(members)
    down = [member.address or f"controller {member.node.ordinal}" for member in away if member.votes]
    if not voters:
        voters, down, strange = len(members), strange, []
    if down:
        left = (voters - 1) // 2 - len(down)
        what = ": one more loss, and none can lead" if left == 0 else ": none can lead" if left < 0 else ""
        if found is not None and found.leads and left < 0:
            what = " from here"
        yield Advice(f"{plural(len(down), 'controller')} can't be reached: {', '.join(down)}{what}.")
    if found is not None and found.leads and voters == len(found.members) == 2 and not down:
        yield Advice("Two controllers vote: without either of them none can lead. Start a third.")
    for member in away:
        if not member.votes:
            yield Advice(f"Controller {member.node.ordinal} doesn't vote yet, and can't be reached.")
    for address in strange if listed_in else ():
        yield Advice(
            f"No process answers at {address}, which is no controller's address: "
            f"don't name it in {listed_in}."
        )


def _of_secret(found: pb.OverviewAnswer) -> Iterator[Advice]:
    if found.secret == pb.OverviewAnswer.NO_SECRET:
        yield Advice(
            "The cluster has no secret: every process that reaches the controllers' port is trusted.",
            ("Give all its processes, and this command, one file with --secret-file (TANK_SECRET_FILE).",),
        )
    elif found.secret == pb.OverviewAnswer.OFFERED:
        lacking = [
            *(f"broker {number}" for number in found.brokers_unproven),
            *(f"controller {number}" for number in found.controllers_unproven),
        ]
        yield Advice(
            "The cluster's secret isn't demanded yet: every process that reaches the controllers' port "
            "is trusted.",
            (f"Not proved by {', '.join(lacking)}: start with --secret-file.",) if lacking else (),
        )


def _of_partitions(seen: Seen, command: Callable[[str], str]) -> Iterator[Advice]:
    found = seen.found
    if seen.waiting:
        first = seen.waiting[0]
        words = command(f"elect --unclean {first.topic.topic.name} {first.partition.partition}")
        yield Advice(
            "Leaderless partitions take no messages: start the brokers named here; restart those that run.",
            (
                "If a disk is gone for good, start its broker with an empty folder: the fullest other leads.",
                f"If it can't be started at all: {words}",
            ),
        )
    missing = _missing(seen)
    elsewhere = f"{missing} out of sync; {command('partitions --under-replicated')}"
    if found.below_min_insync > found.leaderless:
        partitions = plural(found.below_min_insync - found.leaderless, "partition")
        yield Advice(f"{partitions} below min.insync.replicas: nothing is acknowledged there.", (elsewhere,))
    elif found.under_replicated > found.leaderless:
        partitions = plural(found.under_replicated - found.leaderless, "partition")
        yield Advice(f"{partitions} under-replicated: one more loss may stop them.", (elsewhere,))
    if found.lossy_elections:
        yield Advice(
            f"Acknowledged messages may be lost, since {plural(found.lossy_elections, 'lossy election')}.",
            (f"{command('partitions --lossy')} says of which partitions; it stays counted",),
        )


def _missing(seen: Seen) -> str:
    """The brokers whose replicas these partitions lack."""
    out = {
        broker_id
        for row in seen.lacking
        for broker_id in row.partition.replicas
        if broker_id not in row.partition.in_sync and broker_id not in row.partition.adding
    }
    named = ", ".join(_broker(seen, each).removeprefix("Broker ") for each in sorted(out))
    return f"brokers {named} are" if len(out) > 1 else f"broker {named} is" if out else "replicas are"


def _broker(seen: Seen, broker_id: int) -> str:
    """The broker's name, with its pod if it has one."""
    brokers = (load.broker for load in seen.found.brokers if load.broker.broker_id == broker_id)
    hosts = (each.host for broker in brokers for each in broker.endpoints if each.name == "tank")
    return shown("Broker", broker_id, next(hosts, ""), FIRST_BROKER)


def _controller(each: Controller) -> str:
    """The controller's name, with its pod if it has one."""
    if each.ordinal is None:
        return f"Controller {each.ordinal}"
    return shown("Controller", each.ordinal, each.address.rpartition(":")[0], 0)


def _of_brokers(seen: Seen, command: Callable[[str], str]) -> Iterator[Advice]:
    for refused in seen.found.scale_down_refused:
        yield Advice(refused.why)
    for load in seen.found.brokers:
        number = load.broker.broker_id
        who = _broker(seen, number)
        if load.broker.fenced_index and not load.connected and load.broker.draining and not load.replicas:
            yield Advice(
                f"{who} is fenced: it was drained, and is down.",
                (f"It holds nothing any more: {command(f'remove {number}')}",),
            )
        elif load.broker.fenced_index and not load.connected:
            yield Advice(
                f"{who} is fenced: it is down, or can't reach the controllers.",
                (f"Start it. Gone for good: {command(f'drain {number}')}, then `remove {number}`.",),
            )
        elif load.broker.fenced_index:
            yield Advice(
                f"{who} is fenced although it is connected: it is starting, or gets no changes "
                f"from the controllers."
            )
    for each in seen.asked:
        if each.report is None:
            yield Advice(
                f"What {_low(_broker(seen, each.broker_id))} says of its disk is unknown: {each.why}."
            )
        else:
            yield from _of_troubles(_broker(seen, each.broker_id), each.report.troubles)


def _of_clocks(seen: Seen) -> Iterator[Advice]:
    found = seen.found
    if found.clocks_disagree:
        yield Advice(
            "The brokers' clocks disagree, and no majority agrees: messages are stamped with wrong times.",
            ("Retention and searches by time use these clocks: set them right.",),
        )
    elif found.clock_skew_max_ms and abs(found.controller_clock_ahead_ms) > found.clock_skew_max_ms:
        off = _off_text(found.controller_clock_ahead_ms)
        yield Advice(f"The leading controller's clock is {off}: set it right.")
    for load in found.brokers:
        if load.broker.clock_off:
            off = _off_text(load.clock_ahead_ms) if load.HasField("clock_ahead_ms") else "off"
            alone = f"it leads {plural(load.leads, 'partition')} that no other can"
            who = _low(_broker(seen, load.broker.broker_id))
            yield Advice(
                f"The clock of {who} is {off}: {alone if load.leads else 'others lead'}; set it right."
            )


def _off_text(ahead_ms: int) -> str:
    """40.0 s ahead."""
    return f"{abs(ahead_ms) / 1000:.1f} s {'ahead' if ahead_ms > 0 else 'behind'}"


def _of_troubles(who: str, troubles: Sequence[PartitionTrouble]) -> Iterator[Advice]:
    hanging = sum(each.trouble is Trouble.HANGS for each in troubles)
    if hanging:
        yield Advice(
            f"The disk of {_low(who)} hangs: {plural(hanging, 'partition')} acknowledge nothing there.",
            (f"If this lasts, kill -9 {_low(who)}: other brokers lead then. Check its disk.",),
        )
    believed = sum(each.trouble is Trouble.UNKNOWN_EPOCH for each in troubles)
    if believed:
        partitions = plural(believed, "partition")
        yield Advice(
            f"{who} heard of a leader epoch of {partitions} that the controllers have not announced.",
            (
                "It takes messages of no older leader until the controllers confirm the epoch: check its "
                "connection.",
            ),
        )
    if rest := len(troubles) - hanging - believed:
        partitions = plural(rest, "partition")
        yield Advice(f"{who} can't use {partitions} as it should: check its disk and log.")


def _of_room(seen: Seen, command: Callable[[str], str]) -> Iterator[Advice]:
    """Brokers whose volumes filled. The command is for the disk as it is now: larger, or with room again."""
    reports = {each.broker_id: each.report for each in seen.asked}
    for load in seen.found.brokers:
        number = load.broker.broker_id
        if not load.broker.no_room:
            continue
        who, report = _broker(seen, number), reports.get(number)
        rest = (
            f"it leads {plural(load.leads, 'partition')} that no other can" if load.leads else "others lead"
        )
        if report is not None and report.disk_bytes and not _little(report.free_bytes, report.disk_bytes):
            yield Advice(
                f"{who} has room again, and leads nothing that others can, since its disk was full.",
                (f"Restart it, or have it lead again: {command(f'drain {number} --undo')}",),
            )
            continue
        size = bytes_text(report.disk_bytes) if report is not None and report.disk_bytes else ""
        yield Advice(
            f"The disk of {_low(who)}{f', {size},' if size else ''} is full: {rest}.", _enlarge(load)
        )


def _enlarge(load: pb.BrokerLoad) -> tuple[str, str]:
    host = next((each.host for each in load.broker.endpoints if each.name == "tank"), "")
    more = "Or have one more broker, by scaling up or `tank cluster up`: replicas move there."
    if not (pod := pod_of(load.broker.broker_id, host, FIRST_BROKER)):
        return (
            "Enlarge it, or shorten what topics keep; once it is larger, the broker leads again by itself.",
            more,
        )
    larger = '{"spec":{"resources":{"requests":{"storage":"SIZE"}}}}'
    return f"Enlarge it: kubectl patch pvc data-{pod} --type merge -p '{larger}'", more


def _of_disks(seen: Seen) -> Iterator[Advice]:
    full = {load.broker.broker_id for load in seen.found.brokers if load.broker.no_room}
    for each in seen.members:
        if each.said is not None and (free := _little(each.said.free_bytes, each.said.disk_bytes)):
            yield Advice(f"{_controller(each)} has {free} free: a full disk takes no changes.")
    for asked in seen.asked:
        report = asked.report
        if report is None or asked.broker_id in full:
            continue
        if free := _little(report.free_bytes, report.disk_bytes):
            yield Advice(f"{_broker(seen, asked.broker_id)} has {free} free: a full disk takes no messages.")


def _low(named: str) -> str:
    """The name as it is written within a sentence."""
    return named[0].lower() + named[1:]


def _little(free_bytes: int | None, disk_bytes: int | None) -> str:
    """How little room a disk has; empty: it has enough, or its room is unknown."""
    if free_bytes is None or disk_bytes is None or not is_nearly_full(free_bytes, disk_bytes):
        return ""
    return f"{bytes_text(free_bytes)} of {bytes_text(disk_bytes)}"
