"""`tank cluster status|brokers|topics|partitions`: the state of a cluster, and its problems."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import count_text, plural
from tank_cli.shell.output import note, print_facts, print_gap, print_json, print_table, warn
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tank_cli.cluster.advice import Advice
    from tank_cli.cluster.controller_calls import Controllers
    from tank_controller.leader.reports.report import Controller, Row
    from tank_protos.generated import control_pb2 as pb


@click.command()
@controller_options
@offline_options
def status(session: CommandSession, controllers: "Controllers") -> None:
    """Show the state and the problems of the cluster."""
    from tank_cli.cluster import advice, report
    from tank_cli.shell.brokers.reports import ask_brokers
    from tank_controller.leader.reports import report as api_report
    from tank_protos.generated import control_pb2 as pb

    members = api_report.controllers(controllers.describe())
    try:
        found = controllers.overview()
    except CliError as error:
        if session.as_json:
            warnings = [each.json() for each in advice.of_controllers(members, controllers.listed_in)]
            print_json({"controllers": [each.json() for each in members], "warnings": warnings})
        elif any(each.said is not None for each in members):
            print_table(report.CONTROLLER_COLUMNS, [report.controller_row(each) for each in members])
            _advise(advice.of_controllers(members, controllers.listed_in))
        raise error from None
    waiting = _rows_of(controllers, pb.LEADERLESS)
    moving = _rows_of(controllers, pb.MOVING)
    lacking = _rows_of(controllers, pb.UNDER_REPLICATED)
    asked = ask_brokers(found)
    wrong = advice.advice(
        advice.Seen(members, found, waiting, lacking, asked), controllers.command, controllers.listed_in
    )
    fenced = api_report.fenced_of(found)
    if session.as_json:
        told = api_report.status_json(members, found, waiting, moving)
        reports, warnings = [each.json() for each in asked], [each.json() for each in wrong]
        print_json({**told, "reports": reports, "warnings": warnings})
        return
    print_facts(_facts(members, found))
    print_gap()
    print_table(report.CONTROLLER_COLUMNS, [report.controller_row(each) for each in members])
    print_gap()
    free = {each.broker_id: report.free_text(each) for each in asked}
    table = [[*report.broker_row(load), free.get(load.broker.broker_id, "-")] for load in found.brokers]
    print_table([*report.BROKER_COLUMNS, ">Free"], table)
    troubles = [row for each in asked for row in report.trouble_rows(each)]
    if troubles:
        print_gap()
        print_table(report.TROUBLE_COLUMNS, troubles)
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
    _advise(wrong)


def _rows_of(controllers: "Controllers", only: "pb.PartitionTrouble") -> "list[Row]":
    """The first few partitions in this trouble."""
    from tank_controller.leader.reports import report as api_report

    return list(api_report.rows(controllers.partitions(only=only, limit=api_report.SHOWN)))


def _facts(members: "list[Controller]", found: "pb.OverviewAnswer") -> list[tuple[str, str]]:
    from tank_cli.cluster import report

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
        ("feature level", report.level_text(found)),
    ]


def _advise(found: "Iterable[Advice]") -> None:
    for each in found:
        warn(each.said)
        for line in each.more:
            note(f"  {line}")


@click.command()
@controller_options
@offline_options
def brokers(session: CommandSession, controllers: "Controllers") -> None:
    """List the brokers: which are alive, and how much each holds."""
    from tank_cli.cluster import report
    from tank_controller.leader.reports import report as api_report

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
def topics(session: CommandSession, controllers: "Controllers") -> None:
    """List the topics: how many of their partitions are in trouble."""
    from tank_cli.cluster import report
    from tank_controller.leader.reports import report as api_report

    found = api_report.topic_counts(api_report.rows(controllers.partitions()))
    if session.as_json:
        print_json({"topics": [each.json() for each in found]})
    elif not found:
        note("There are no topics yet; `tank topic create NAME` makes one.")
    else:
        print_table(report.TOPIC_COLUMNS, [report.topic_row(each) for each in found])


@click.command()
@click.option(
    "--topic", metavar="NAME", multiple=True, help="Only partitions of this topic; may be repeated."
)
@click.option("--under-replicated", is_flag=True, help="Only partitions with a replica out of sync.")
@click.option("--leaderless", is_flag=True, help="Only partitions without a leader.")
@click.option("--lossy", is_flag=True, help="Only partitions that may have lost acknowledged messages.")
@controller_options
@offline_options
def partitions(
    session: CommandSession,
    controllers: "Controllers",
    topic: tuple[str, ...],
    under_replicated: bool,
    leaderless: bool,
    lossy: bool,
) -> None:
    """Show each partition's leader, in-sync replicas and problems.

    \b
    ELIGIBLE  replicas out of sync without which nothing was acknowledged: they may be elected.
    LOSSY     elections that may have lost acknowledged messages.
    """
    from tank_cli.cluster import report
    from tank_controller.leader.reports import report as api_report
    from tank_protos.generated import control_pb2 as pb

    wanted = [
        trouble
        for said, trouble in (
            (under_replicated, pb.UNDER_REPLICATED),
            (leaderless, pb.LEADERLESS),
            (lossy, pb.LOSSY),
        )
        if said
    ]
    if len(wanted) > 1:
        raise CliError("One kind at a time: say one of these options.", ExitCode.USAGE)
    only = wanted[0] if wanted else pb.NO_TROUBLE
    found = list(api_report.rows(controllers.partitions(topic, only)))
    waits = leaderless or any(row.is_leaderless for row in found)
    fenced = api_report.fenced_of(controllers.overview()) if waits else []
    if session.as_json:
        print_json({"partitions": [api_report.partition_json(row, fenced) for row in found]})
    elif found:
        print_table(report.PARTITION_COLUMNS, [report.partition_row(row, fenced) for row in found])
    else:
        note("There are none." if only else "There are no topics yet; `tank topic create NAME` makes one.")
