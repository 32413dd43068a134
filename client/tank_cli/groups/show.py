"""`tank group list|describe|members`: the groups, their progress, their members."""

from collections import Counter
from typing import TYPE_CHECKING

import click

from tank_cli.groups.members import member_json, name_of, owners_of, partitions_text
from tank_cli.groups.progress import PartitionProgress, progress_of
from tank_cli.shell.complete import complete_groups
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import count_text, time_text
from tank_cli.shell.nearest import did_you_mean
from tank_cli.shell.output import Json, done, note, print_facts, print_gap, print_json, print_table
from tank_cli.shell.session import CommandSession, shared_options
from tank_protos.wire.names import is_iggys_group

if TYPE_CHECKING:
    from tank_client.model import GroupDescription, GroupMember, GroupSummary
    from tank_client.sync import Client

LISTING = "tank group list"  # what to type when a group to look at or to change is not there
GROUP = click.argument("name", metavar="GROUP", shell_complete=complete_groups)


@click.command("list")
@click.option("--names", is_flag=True, help="Print only the names, one a line.")
@click.option("--state", metavar="STATE", help="Only groups in this state, such as stable or empty.")
@shared_options
def list_groups(session: CommandSession, names: bool, state: str | None) -> None:
    """List the consumer groups.

    Those of Kafka's clients and of Spark's queries are among them. `-`: the brokers are of a version that
    can't say. Groups of Iggy's clients are followed by their stream, topic and name.
    """
    with session.client() as client:
        found = sorted(client.admin.groups(), key=lambda each: each.name)
    if state is not None:
        known = sorted({name for each in found if (name := state_of(each))})
        found = [each for each in found if state_of(each) == state.casefold().replace("_", " ")]
        if not found and not session.as_json:
            there = f"; there are: {', '.join(known)}" if known else ""
            done(f"No group is in the state {state!r}{there}.")
            return
    if session.as_json:
        print_json(
            {
                "groups": [
                    {
                        "group": each.name,
                        "state": state_of(each),
                        "protocol_type": each.protocol_type,
                        "members": each.members,
                        "title": each.title or None,
                    }
                    for each in found
                ]
            }
        )
    elif names:
        for each in found:
            click.echo(each.name.encode("utf-8", "surrogateescape"))  # as other commands take it
    elif not found:
        done("There are no consumer groups.")
    else:
        rows = [
            [
                each.name,
                state_of(each) or "-",
                "-" if each.members is None else count_text(each.members),
                each.protocol_type or "-",
                each.title,
            ]
            for each in found
        ]
        print_table(["Group", "State", ">Members", "Type", ""], rows)


def state_of(group: "GroupSummary") -> str | None:
    """The group's state; None: the broker gives none."""
    from tank_client.model import ConsumerGroupState

    return None if group.state is ConsumerGroupState.UNKNOWN else group.state.value


@click.command()
@GROUP
@shared_options
def describe(session: CommandSession, name: str) -> None:
    """Show a group's state, positions, lag and members' partitions.

    NEXT is the number that the group reads next, END the partition's last one. A partition that a member has
    and for which nothing was committed yet has no NEXT.
    """
    with session.client() as client:
        found = described_group(client, name)
        rows = partitions_of(client, session.servers, found)
        title = titles_of(client, [name]).get(name, "")
    if session.as_json:
        print_json(description_json(found, rows, title))
        return
    print_facts(facts(found, rows, title))
    if rows:
        print_gap()
        columns = ["Topic", ">Partition", ">Next", ">End", ">Lag", "Committed", "Member", ""]
        print_table(columns, [partition_row(each) for each in rows])
    else:
        note(f"{name} has committed no position, and its members have no partitions.")


@click.command()
@GROUP
@shared_options
def members(session: CommandSession, name: str) -> None:
    """Show the members of a group."""
    with session.client() as client:
        found = described_group(client, name)
    if session.as_json:
        print_json({"group": found.name, "members": [member_json(each) for each in found.members]})
    elif not found.members:
        done(f"{name} has no members.")
    else:
        columns = ["Member", "Static name", "Client", "Host", ">Epoch", "Partitions"]
        print_table(columns, [member_row(each) for each in found.members])


def described_group(client: "Client", name: str) -> "GroupDescription":
    """The group. Raises CliError for a name of no group, with the nearest one."""
    from tank_client.model import ConsumerGroupState

    (found,) = client.admin.describe_groups([name])
    if found.state is ConsumerGroupState.DEAD:
        raise unknown_group(client, name)
    return found


def unknown_group(client: "Client", name: str) -> CliError:
    """The error for a name of no group."""
    guess = did_you_mean(name, client.admin.list_groups())
    return CliError(f"There is no consumer group {name!r}.{guess}", ExitCode.NOT_FOUND, hint=LISTING)


def partitions_of(client: "Client", servers: str, found: "GroupDescription") -> list[PartitionProgress]:
    """The group's progress in each partition that it has a position in, or a member."""
    from dataclasses import replace

    from tank_cli.shell.brokers.described import known_ends

    (progress,) = progress_of(client, servers, [found.name])
    if progress.problem:
        raise CliError(f"The positions of {found.name} are unknown: {progress.problem}", ExitCode.UNREACHABLE)
    owners = owners_of(found.members)
    rows = {(each.topic, each.partition): each for each in progress.partitions}
    without = owners.keys() - rows.keys()
    ends = known_ends(client, servers, without)
    rows |= {route: PartitionProgress(*route, None, ends.get(route)) for route in without}
    names = labels(found.members)
    return [
        replace(rows[route], member=names[owners[route].member_id] if route in owners else "")
        for route in sorted(rows)
    ]


def labels(members: "tuple[GroupMember, ...]") -> dict[str, str]:
    """A label for each member id: the member's name, or the id itself where several have the name."""
    times = Counter(name_of(each) for each in members)
    return {
        each.member_id: name_of(each) if times[name_of(each)] == 1 else each.member_id for each in members
    }


def titles_of(client: "Client", names: list[str]) -> dict[str, str]:
    """What people know groups of Iggy's clients by, as far as one of these is one."""
    if not any(map(is_iggys_group, names)):
        return {}
    return {each.name: each.title for each in client.admin.groups() if each.title}


def facts(found: "GroupDescription", rows: list[PartitionProgress], title: str = "") -> list[tuple[str, str]]:
    """The lines above the table of `tank group describe`."""
    lag = sum(each.lag or 0 for each in rows)
    shown = [("group", found.name), *([("is", title)] if title else ()), ("state", found.state.value)]
    if found.protocol_type:
        shown.append(("type", found.protocol_type))
    if found.protocol:
        shown.append(("protocol", found.protocol))
    if found.epoch >= 0:
        shown.append(("epoch", str(found.epoch)))
    return [*shown, ("members", count_text(len(found.members))), ("lag", count_text(lag))]


def partition_row(each: PartitionProgress) -> list[str]:
    """A line of `tank group describe`."""
    return [
        each.topic,
        str(each.partition),
        "-" if each.position is None else str(each.position),
        "-" if each.ends is None else str(each.ends.high_water_mark),
        "-" if each.lag is None else count_text(each.lag),
        time_text(each.committed_ms) if each.committed_ms else "-",
        each.member or "-",
        f"{count_text(each.expired)} expired unread" if each.expired else "",
    ]


def member_row(member: "GroupMember") -> list[str]:
    """A line of `tank group members`."""
    return [
        member.member_id,
        member.instance_id or "-",
        member.client_name or "-",
        member.host.removeprefix("/") or "-",
        str(member.epoch),
        partitions_text(member.assignment) or "-",
    ]


def description_json(
    found: "GroupDescription", rows: list[PartitionProgress], title: str = ""
) -> dict[str, Json]:
    """The shape of `tank group describe --output json`."""
    return {
        "group": found.name,
        "title": title or None,
        "state": found.state.value,
        "protocol_type": found.protocol_type,
        "protocol": found.protocol,
        "epoch": found.epoch,
        "members": len(found.members),
        "lag": sum(each.lag or 0 for each in rows),
        "partitions": [{**each.json(), "member": each.member or None} for each in rows],
    }
