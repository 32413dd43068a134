"""`tank cluster status|brokers|topics|partitions`: what there is, and what is the matter with it."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster_options import controller_options
from tank_cli.exit_codes import CliError, ExitCode
from tank_cli.figures import count_text, plural
from tank_cli.output import note, print_facts, print_gap, print_json, print_table, warn
from tank_cli.session import Session, offline_options

if TYPE_CHECKING:
    from tank_cli.controllers import Controllers
    from tank_controller.api_report import Controller, Row
    from tank_protos.generated import control_pb2 as pb


@click.command()
@controller_options
@offline_options
def status(session: Session, controllers: "Controllers") -> None:
    """Show at a glance how the cluster is."""
    from tank_cli import cluster_report as report
    from tank_controller import api_report
    from tank_protos.generated import control_pb2 as pb

    members = api_report.controllers(controllers.describe())
    try:
        found = controllers.overview()
    except CliError as error:
        if not session.as_json and any(each.said is not None for each in members):
            print_table(report.CONTROLLER_COLUMNS, [report.controller_row(each) for each in members])
            _warn_of_controllers(members)
        raise error from None
    waiting = list(api_report.rows(controllers.partitions(only=pb.LEADERLESS, limit=api_report.SHOWN)))
    moving = list(api_report.rows(controllers.partitions(only=pb.MOVING, limit=api_report.SHOWN)))
    fenced = api_report.fenced_of(found)
    if session.as_json:
        print_json(api_report.status_json(members, found, waiting, moving))
        return
    print_facts(_facts(members, found))
    print_gap()
    print_table(report.CONTROLLER_COLUMNS, [report.controller_row(each) for each in members])
    print_gap()
    print_table(report.BROKER_COLUMNS, [report.broker_row(load) for load in found.brokers])
    if waiting:
        print_gap()
        table = [
            [row.place, report.ids_text(row.partition.replicas), report.waiting_text(row, fenced)]
            for row in waiting
        ]
        print_table(["Leaderless", "Replicas", "Why"], table)
    if moving:
        print_gap()
        table = [[row.place, report.move_text(row.partition)] for row in moving]
        print_table(["Moving", "Where"], table)
    _warn_of_controllers(members)
    _warn(controllers, found, waiting)


def _facts(members: "list[Controller]", found: "pb.OverviewAnswer") -> list[tuple[str, str]]:
    from tank_cli import cluster_report as report

    leader = next((each for each in members if each.state == "leads"), None)
    facts = [("cluster", next((each.said.cluster_id for each in members if each.said is not None), "?"))]
    if leader is not None and leader.said is not None:
        facts.append(("leader", f"controller {leader.ordinal} at {leader.address}, term {leader.said.term}"))
    return [
        *facts,
        ("brokers", report.brokers_text(found)),
        ("topics", count_text(found.topics)),
        ("partitions", report.partitions_text(found)),
        ("lossy elections", count_text(found.lossy_elections) if found.lossy_elections else "none"),
        ("moving", plural(found.moving, "partition") if found.moving else "none"),
        ("balance", "even" if found.balanced else "being looked at"),
    ]


def _warn_of_controllers(members: "list[Controller]") -> None:
    down = [each for each in members if each.said is None]
    if down:
        left = (len(members) - 1) // 2 - len(down)
        what = "one more loss, and none can lead" if left == 0 else "none can lead" if left < 0 else ""
        named = ", ".join(each.address for each in down)
        warn(f"{plural(len(down), 'controller')} can't be reached: {named}{': ' + what if what else ''}.")


def _warn(controllers: "Controllers", found: "pb.OverviewAnswer", waiting: "list[Row]") -> None:
    if waiting:
        first = waiting[0]
        words = controllers.command(f"elect --unclean {first.topic.topic.name} {first.partition.partition}")
        warn("Leaderless partitions take no messages: start the brokers that are named, also those that run.")
        note("  If a disk is gone for good, start its broker with an empty folder: the fullest other leads.")
        note(f"  If it can't be started at all: {words}")
    elif found.below_min_insync:
        warn("Partitions below min.insync.replicas acknowledge nothing: start the brokers that are fenced.")


@click.command()
@controller_options
@offline_options
def brokers(session: Session, controllers: "Controllers") -> None:
    """List the brokers: which live, and what they hold."""
    from tank_cli import cluster_report as report
    from tank_controller import api_report

    found = controllers.overview()
    if session.as_json:
        print_json({"brokers": [api_report.broker_json(load) for load in found.brokers]})
    elif not found.brokers:
        note("No broker has registered yet.")
    else:
        print_table(report.BROKER_COLUMNS, [report.broker_row(load) for load in found.brokers])


@click.command()
@controller_options
@offline_options
def topics(session: Session, controllers: "Controllers") -> None:
    """List the topics: how many of their partitions are in trouble."""
    from tank_cli import cluster_report as report
    from tank_controller import api_report

    found = api_report.topic_counts(api_report.rows(controllers.partitions()))
    if session.as_json:
        print_json({"topics": [each.json() for each in found]})
    elif not found:
        note("There are no topics yet; `tank topic create NAME` makes one.")
    else:
        print_table(report.TOPIC_COLUMNS, [report.topic_row(each) for each in found])


@click.command()
@click.option("--topic", metavar="NAME", multiple=True, help="Of these topics alone; may be repeated.")
@click.option("--under-replicated", is_flag=True, help="Only those that miss a replica in sync.")
@click.option("--leaderless", is_flag=True, help="Only those that nobody leads.")
@controller_options
@offline_options
def partitions(
    session: Session,
    controllers: "Controllers",
    topic: tuple[str, ...],
    under_replicated: bool,
    leaderless: bool,
) -> None:
    """Show who leads each partition, who is in sync, and what is the matter.

    \b
    ELIGIBLE  out of sync, but nothing was acknowledged without them: they may be elected.
    LOSSY     elections that may have lost acknowledged messages.
    """
    from tank_cli import cluster_report as report
    from tank_controller import api_report
    from tank_protos.generated import control_pb2 as pb

    if under_replicated and leaderless:
        raise CliError("Leaderless ones are under-replicated, too: say one of both.", ExitCode.USAGE)
    only = pb.UNDER_REPLICATED if under_replicated else pb.LEADERLESS if leaderless else pb.NO_TROUBLE
    found = list(api_report.rows(controllers.partitions(topic, only)))
    waits = leaderless or any(row.is_leaderless for row in found)
    fenced = api_report.fenced_of(controllers.overview()) if waits else []
    if session.as_json:
        print_json({"partitions": [api_report.partition_json(row, fenced) for row in found]})
    elif found:
        print_table(report.PARTITION_COLUMNS, [report.partition_row(row, fenced) for row in found])
    else:
        note("There are none." if only else "There are no topics yet; `tank topic create NAME` makes one.")
