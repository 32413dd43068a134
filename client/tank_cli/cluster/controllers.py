"""`tank cluster controllers|transfer|remove-controller`: the controllers themselves."""

from typing import TYPE_CHECKING

import click

from tank_cli.cluster.options import controller_options
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import plural
from tank_cli.shell.output import done, note, print_json, print_table, warn
from tank_cli.shell.session import CommandSession, offline_options

if TYPE_CHECKING:
    from tank_cli.cluster.controller_calls import Controllers
    from tank_controller.leader.reports.report import Controller
    from tank_protos.generated import control_pb2 as pb

CONTROLLER = click.argument("controller", metavar="CONTROLLER", type=click.IntRange(0, 999_999_999))
PATIENCE_S = 15.0
"""The longest wait for a new leader; an election takes a second or two."""


@click.command(name="controllers")
@controller_options
@offline_options
def show_controllers(session: CommandSession, controllers: "Controllers") -> None:
    """List the controllers: the leader, the voters, how far each is.

    A learner gets the log of the others, and votes when it has caught up. To bring a controller back
    whose disk is gone, start it with an empty folder: it asks to be added, and its earlier disk is removed.
    """
    from tank_cli.cluster import advice, report
    from tank_controller.leader.reports import report as api_report

    members = api_report.controllers(controllers.describe())
    if all(each.said is None for each in members):
        controllers.overview()  # its error says why
    if session.as_json:
        print_json({"controllers": [each.json() for each in members]})
        return
    print_table(report.CONTROLLER_COLUMNS, [report.controller_row(each) for each in members])
    for found in advice.of_controllers(members, controllers.listed_in):
        warn(found.said)
    for ordinal, disks in sorted(_disks(members).items()):
        if len(disks) > 1:
            named = " and ".join(disk.hex() for disk in disks)
            note(f"Controller {ordinal} is there with {len(disks)} disks, and the earlier one goes: {named}.")


@click.command()
@CONTROLLER
@controller_options
@offline_options
def transfer(session: CommandSession, controllers: "Controllers", controller: int) -> None:
    """Hand leadership of the controllers to another one.

    Messages are read and written meanwhile. A controller that is stopped in order does so by itself.
    """
    from tank_cli.shell.waiting import Left
    from tank_cli.shell.waiting import wait as await_done

    leader = _leader(controllers)
    if leader != controller:
        controllers.transfer(controller)

    def look() -> Left:
        leads = _leader(controllers)
        return Left(leads != controller, f"controller {leads} leads" if leads is not None else "none leads")

    stuck = CliError(
        f"Controller {controller} does not lead: it may have been too far behind, or another was elected",
        hint=controllers.command("controllers"),
    )
    await_done("Handing leadership over", look, PATIENCE_S, stuck, quiet=session.as_json)
    if session.as_json:
        print_json({"leader": controller})
    elif leader == controller:
        done(f"Controller {controller} leads already; nothing was changed.")
    else:
        done(f"Controller {controller} leads now.")


@click.command(name="remove-controller")
@CONTROLLER
@click.option(
    "--disk", metavar="HEX", default="", help="The controller's disk, when two members have its number."
)
@click.option("--yes", "-y", is_flag=True, help="Remove it although it answers.")
@controller_options
@offline_options
def remove_controller(
    session: CommandSession, controllers: "Controllers", controller: int, disk: str, yes: bool
) -> None:
    """Remove a controller that is not coming back.

    It no longer counts as a voter: of three, the two that are left must both run. A controller that is
    started with its number and an empty folder joins in its place; `tank cluster up` does that by
    itself. The command is refused while the controller answers, unless --yes is given.
    """
    try:
        wanted = bytes.fromhex(disk)
    except ValueError:
        message = "--disk takes hexadecimal digits, as `tank cluster controllers` shows them."
        raise CliError(message, ExitCode.USAGE) from None
    members = _members(controllers)
    if controller not in _disks(members):
        known = ", ".join(map(str, sorted(_disks(members)))) or "none"
        raise CliError(f"There is no controller {controller}, but {known}.", ExitCode.NOT_FOUND)
    heir = next((each.ordinal for each in members if each.state == "follows"), None)
    if _leader(controllers) == controller and not wanted:
        raise CliError(
            f"Controller {controller} leads: hand leadership over first.",
            hint=None if heir is None else controllers.command(f"transfer {heir}"),
        )
    said = next((each for each in members if each.ordinal == controller), None)
    if said is not None and said.said is not None and not wanted and not yes:
        raise CliError(f"Controller {controller} answers, so it still runs. Stop it first, or say --yes.")
    controllers.remove_controller(controller, wanted, only_silent=not yes)
    if session.as_json:
        print_json({"removed_controller": controller})
        return
    left = len(_voters(_members(controllers)))
    done(f"Removed controller {controller}. Of the {plural(left, 'voter')} left, {left // 2 + 1} must run.")
    if left and left % 2 == 0:
        warn(f"{plural(left, 'voter')} bear no more losses than {left - 1}: start another controller.")


def _members(controllers: "Controllers") -> "list[Controller]":
    from tank_controller.leader.reports import report as api_report

    return api_report.controllers(controllers.describe())


def _leader(controllers: "Controllers") -> int | None:
    return next((each.ordinal for each in _members(controllers) if each.state == "leads"), None)


def _newest(members: "list[Controller]") -> "pb.ControllersDescription | None":
    """Returns the description by the controller with the longest log."""
    said = [each.said for each in members if each.said is not None]
    return max(said, key=lambda each: (each.leads, each.commit_index), default=None)


def _disks(members: "list[Controller]") -> dict[int, list[bytes]]:
    """The disks of each controller; two while an emptied controller replaces its earlier disk."""
    found: dict[int, list[bytes]] = {}
    newest = _newest(members)
    for member in newest.members if newest is not None else ():
        found.setdefault(member.node.ordinal, []).append(member.node.disk)
    return found


def _voters(members: "list[Controller]") -> list[int]:
    newest = _newest(members)
    return [member.node.ordinal for member in newest.members if member.votes] if newest is not None else []
