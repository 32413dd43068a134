"""`tank cluster elect|drain|move|balance|remove`: an operator's changes of a cluster."""

import sys
from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import plural
from tank_cli.shell.output import done, print_json
from tank_cli.shell.session import CommandSession, offline_options
from tank_protos.error_codes import ErrorCode

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers
    from tank_controller.leader.reports.report import Row
    from tank_protos.generated import control_pb2 as pb

MAX_BROKER_ID = 0xFFFE
BROKER = click.argument("broker", metavar="BROKER", type=click.IntRange(1, MAX_BROKER_ID))
TOPIC = click.argument("topic", metavar="TOPIC")
PARTITION = click.argument("partition", metavar="PARTITION", type=click.IntRange(0, 65_535))
WAIT = click.option("--wait/--no-wait", default=True, help="Wait until it is done.  [default: wait]")
PATIENCE = click.option(
    "--patience",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    metavar="SECS",
    help="Give up waiting when nothing has changed for so long. The change itself goes on.",
)


class BrokersType(click.ParamType):  # type: ignore[type-arg] # generic in newer versions of click alone
    """`1,2,3`"""

    name = "1,2,3"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Numbers of brokers, each once."""
        try:
            found = [int(part) for part in str(value).split(",")]
        except ValueError:
            self.fail("write the brokers' numbers with commas between, such as 1,2,3", param, ctx)
        if len(set(found)) != len(found) or not all(1 <= each <= MAX_BROKER_ID for each in found):
            self.fail(f"a broker's number is from 1 to {MAX_BROKER_ID}, and is there once", param, ctx)
        return found


@click.command()
@TOPIC
@PARTITION
@click.option(
    "--unclean",
    is_flag=True,
    help="For a partition without a leader: elect any live replica; messages that it lacks are lost.",
)
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@controller_options
@offline_options
def elect(
    session: CommandSession, controllers: "Controllers", topic: str, partition: int, unclean: bool, yes: bool
) -> None:
    """Elect the preferred replica as leader; with --unclean, any live one.

    A partition without a leader waits for brokers whose messages no other broker may have. --unclean gives
    those messages up, acknowledged ones, too, and counts a lossy election. When all replicas are back and
    some have lost messages, the readable one with the greatest end leads. While a replica is away its end is
    unknown: starting a lost broker with an empty folder loses less.
    """
    from tank_protos.generated import control_pb2 as pb

    row = _find(controllers, topic, partition)
    if unclean and row.is_leaderless and not yes:
        _confirm(row)
    kind = pb.ElectLeader.UNCLEAN if unclean else pb.ElectLeader.PREFERRED
    ref = pb.PartitionRef(topic_id=row.topic.topic.topic_id, partition=partition)
    command = pb.Command(elect_leader=pb.ElectLeader(kind=kind, partitions=[ref]))
    _judge(controllers, controllers.change(command), row, unclean=unclean)
    after = _find(controllers, topic, partition)
    leader, lossy = after.partition.leader, after.partition.lossy_elections - row.partition.lossy_elections
    if session.as_json:
        print_json({"topic": topic, "partition": partition, "leader": leader or None, "lossy": lossy > 0})
    elif leader == row.partition.leader:
        done(f"Broker {leader} leads {row.place} already; nothing was changed.")
    else:
        price = ", and the messages that it lacked are lost" if lossy > 0 else ""
        done(f"Broker {leader} leads {row.place} now{price}.")


def _confirm(row: "Row") -> None:
    if not sys.stdin.isatty():
        raise CliError("An unclean election may lose acknowledged messages: say --yes.", ExitCode.USAGE)
    from tank_cli.cluster.report import ids_text

    eligible = ids_text(row.partition.eligible)
    question = f"{row.place}: give up what only broker {eligible} may have?"
    if not click.confirm(question, err=True):
        raise CliError("Nothing was changed.")


@click.command()
@BROKER
@click.option(
    "--undo",
    is_flag=True,
    help="End the drain: the broker may hold and lead partitions again, also after its disk was full.",
)
@WAIT
@PATIENCE
@controller_options
@offline_options
def drain(
    session: CommandSession, controllers: "Controllers", broker: int, undo: bool, wait: bool, patience: float
) -> None:
    """Move all leadership and replicas off a broker, so that it can be removed.

    Messages are read and written meanwhile. Ctrl-C ends the waiting, not the moving.
    """
    from tank_cli.shell.waiting import Left
    from tank_cli.shell.waiting import wait as await_done
    from tank_controller.leader.reports import checks
    from tank_protos.generated import control_pb2 as pb

    _check_drain(controllers, broker, undo=undo)
    controllers.change(pb.Command(set_broker=checks.draining(broker, on=not undo)))

    def look() -> Left:
        load = _load(controllers, broker)[0]
        return Left(
            load.replicas + load.leads, f"{plural(load.replicas, 'replica')} left, it leads {load.leads}"
        )

    if wait and not undo:
        stuck = CliError(
            f"Broker {broker} is drained no further: `status` shows the moves; draining goes on",
            hint=controllers.command("status"),
        )
        await_done(f"Draining broker {broker}", look, patience, stuck, quiet=session.as_json)
    load = _load(controllers, broker)[0]
    if session.as_json:
        print_json({"broker": broker, "draining": not undo, "replicas": load.replicas, "leads": load.leads})
    elif undo:
        done(f"Broker {broker} may hold partitions again; the controllers even the loads out.")
    elif load.replicas:
        done(f"Broker {broker} is being drained: {plural(load.replicas, 'replica')} left.")
    else:
        done(f"Broker {broker} holds nothing: stop it, then `{controllers.command(f'remove {broker}')}`.")


def _check_drain(controllers: "Controllers", broker: int, *, undo: bool) -> None:
    """Raises CliError unless the broker exists, and enough others can take its replicas."""
    from tank_controller.leader.reports import checks

    _, found = _load(controllers, broker)
    if not undo and (problem := checks.drain_problem(found, broker)):
        raise CliError(problem)


@click.command()
@TOPIC
@PARTITION
@click.option(
    "--to", "to", type=BrokersType(), help="The brokers of its replicas, the preferred leader first."
)
@click.option("--cancel", is_flag=True, help="Cancel the move under way; the added replicas are removed.")
@WAIT
@PATIENCE
@controller_options
@offline_options
def move(
    session: CommandSession,
    controllers: "Controllers",
    topic: str,
    partition: int,
    to: list[int] | None,
    cancel: bool,
    wait: bool,
    patience: float,
) -> None:
    """Move a partition's replicas to other brokers, or change their order.

    \b
    tank cluster move orders 0 --to 4,2,3
    """
    from tank_cli.cluster.report import ids_text
    from tank_cli.shell.waiting import Left
    from tank_cli.shell.waiting import wait as await_done
    from tank_controller.leader.reports import checks
    from tank_protos.generated import control_pb2 as pb

    if (to is None) is not cancel:
        raise CliError(
            "Say where to with --to 1,2,3, or --cancel.", ExitCode.USAGE, "tank cluster move --help"
        )
    row = _find(controllers, topic, partition)
    topic_id = row.topic.topic.topic_id
    if cancel and (problem := checks.cancel_problem(row)):
        raise CliError(problem)
    if to is None:
        ref = pb.PartitionRef(topic_id=topic_id, partition=partition)
        command = pb.Command(cancel_reassign=pb.CancelReassign(partitions=[ref]))
    else:
        placed = pb.Placed(topic_id=topic_id, partition=partition, replicas=to)
        command = pb.Command(reassign=pb.Reassign(partitions=[placed]))
    _judge(controllers, controllers.change(command), row)

    def look() -> Left:
        now = _find(controllers, topic, partition)
        behind = [each for each in now.partition.adding if each not in now.partition.in_sync]
        text = f"broker {ids_text(behind)} catches up" if behind else "the old replicas go"
        return Left(int(pb.MOVING in now.troubles) + len(behind), text)

    if wait and to is not None:
        stuck = CliError(
            f"{row.place} is not moved yet; the move goes on",
            hint=controllers.command(f"move {topic} {partition} --cancel"),
        )
        await_done(f"Moving {row.place}", look, patience, stuck, quiet=session.as_json)
    after = _find(controllers, topic, partition)
    moving = pb.MOVING in after.troubles
    if not moving:
        _must_be_there(controllers, after, to)
    if session.as_json:
        replicas = list(after.partition.replicas)
        print_json({"topic": topic, "partition": partition, "replicas": replicas, "moving": moving})
    elif moving:
        done(f"{row.place} is being moved to {ids_text(to or [])}.")
    else:
        done(f"{row.place} is at {ids_text(after.partition.replicas)}.")


def _must_be_there(controllers: "Controllers", after: "Row", to: list[int] | None) -> None:
    """Raises CliError when a move did not reach its target: controllers cancel moves to a broker that is
    gone.
    """
    from tank_cli.cluster.report import ids_text

    if to is None or set(to) == set(after.partition.replicas):
        return
    raise CliError(
        f"{after.place} was not moved to {ids_text(to)}, it is at {ids_text(after.partition.replicas)}: the "
        "move was cancelled, as any move to a broker that drains or has been away for minutes.",
        hint=controllers.command("brokers"),
    )


@click.command()
@WAIT
@PATIENCE
@controller_options
@offline_options
def balance(session: CommandSession, controllers: "Controllers", wait: bool, patience: float) -> None:
    """Balance replicas and leaders over the brokers now.

    The controllers do so by themselves, a few seconds after a broker came; this command makes them
    do it at once.
    """
    from tank_cli.shell.waiting import Left
    from tank_cli.shell.waiting import wait as await_done

    controllers.balance()

    def look() -> Left:
        found = controllers.overview()
        moving, displaced = plural(found.moving, "partition"), found.displaced
        text = f"{moving} moving, {displaced} with another leader than the preferred"
        return Left(found.moving + displaced + (not found.balanced), text)

    if wait:
        stuck = CliError("Loads are not even yet; the controllers go on", hint=controllers.command("status"))
        await_done("Balancing", look, patience, stuck, quiet=session.as_json)
    found = controllers.overview()
    if session.as_json:
        loads = [
            {"broker_id": load.broker.broker_id, "replicas": load.replicas, "leads": load.leads}
            for load in found.brokers
        ]
        print_json({"balanced": found.balanced, "brokers": loads})
    elif not found.balanced:
        done("The controllers look for something to even out.")
    else:
        loads_text = ", ".join(f"{load.broker.broker_id}: {load.replicas}" for load in found.brokers)
        done(f"Loads and leaders are even. Replicas by broker: {loads_text}.")


@click.command()
@BROKER
@controller_options
@offline_options
def remove(session: CommandSession, controllers: "Controllers", broker: int) -> None:
    """Remove a broker for good that is drained and stopped."""
    from tank_controller.leader.reports import checks
    from tank_protos.generated import control_pb2 as pb

    load, _ = _load(controllers, broker)
    try:
        checks.check_remove(load)
    except checks.CheckRefusedError as error:
        hint = controllers.command(f"drain {broker}" if load.replicas else "brokers")
        raise CliError(error.message, hint=hint) from None
    controllers.change(pb.Command(remove_broker=pb.RemoveBroker(broker_id=broker)))
    if session.as_json:
        print_json({"removed": broker})
    else:
        done(f"Removed broker {broker}.")


# --- for all of them ---


def _find(controllers: "Controllers", topic: str, partition: int) -> "Row":
    from tank_controller.leader.reports import report

    found = list(report.rows(controllers.partitions([topic])))
    if partition >= len(found):
        last = len(found) - 1
        raise CliError(f"{topic} has the partitions 0 to {last}, and no {partition}.", ExitCode.NOT_FOUND)
    return found[partition]


def _load(controllers: "Controllers", broker: int) -> "tuple[pb.BrokerLoad, pb.OverviewAnswer]":
    """The broker, and the overview that it comes from. Raises CliError when there is no such broker."""
    from tank_controller.leader.reports import checks

    found = controllers.overview()
    try:
        return checks.load_of(found, broker), found
    except checks.CheckRefusedError as error:
        raise CliError(error.message, ExitCode.NOT_FOUND) from None


def _judge(
    controllers: "Controllers", outcome: "pb.ProposalOutcome", row: "Row", *, unclean: bool = False
) -> None:
    """Raises CliError when the command's one partition was refused."""
    from tank_controller.leader.reports import checks

    words = f"{row.topic.topic.name} {row.partition.partition}"
    try:
        checks.check_partition(outcome, row, unclean=unclean)
    except checks.CheckRefusedError as error:
        if error.error is ErrorCode.IN_USE:
            hint = controllers.command(f"move {words} --cancel")
            raise CliError(error.message, ExitCode.EXISTS, hint) from None
        helps = error.error is ErrorCode.NOT_ELECTABLE and not unclean
        hint = controllers.command(f"elect --unclean {words}") if helps else ""
        raise CliError(error.message, hint=hint or None) from None
