"""`tank group reset`: sets a group's positions anew."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from tank_cli.groups.members import members_text, owners_of
from tank_cli.groups.reset_options import TimeType, TopicPartitionsType, goal_of
from tank_cli.groups.show import GROUP
from tank_cli.shell.complete import complete_topics
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import count_text, plural
from tank_cli.shell.output import done, note, print_json, print_table
from tank_cli.shell.session import CommandSession, shared_options
from tank_protos.position_reset import Goal, NoPositionError, PositionChange, To, changes

if TYPE_CHECKING:
    from tank_client.model import GroupMember, Route
    from tank_client.sync import Client

EXAMPLES = """\b
tank group reset billing --to-first --dry-run       what would be read again
tank group reset billing --to-time now-1h --yes
tank group reset billing --to-end --topic orders:0,2-3
tank group reset billing --by -100                  the last hundred of each partition again
"""
COLUMNS = ["Topic", ">Partition", ">Now", ">Then", ""]


@click.command(epilog=EXAMPLES)
@GROUP
@click.option("--to-first", is_flag=True, help="To the first messages that are there.")
@click.option("--to-end", is_flag=True, help="Behind the last messages, as they are now.")
@click.option(
    "--to-time", type=TimeType(),
    help="To the first messages from this time on: 2013-01-01T05:00 (UTC), now-10min, @SECONDS; at most a "
    "batch too early.",
)  # fmt: skip
@click.option("--to-number", type=click.IntRange(0), metavar="N", help="To this sequence number.")
@click.option("--by", type=int, metavar="N", help="On by N messages; back, if N is negative.")
@click.option(
    "--topic", "-t", "topics", type=TopicPartitionsType(), multiple=True, shell_complete=complete_topics,
    help="Only this topic, or these of its partitions; may be repeated.  [default: where the group has "
    "positions]",
)  # fmt: skip
@click.option("--dry-run", "-n", is_flag=True, help="Show what would change, and change nothing.")
@click.option("--yes", "-y", is_flag=True, help="Don't ask.")
@click.option(
    "--yes-while-members-live", is_flag=True,
    help="Also while the group has members. They go on from where they are, and their next commits undo "
    "this; it holds for partitions whose member starts again before that.",
)  # fmt: skip
@shared_options
def reset(
    session: CommandSession,
    name: str,
    to_first: bool,
    to_end: bool,
    to_time: int | None,
    to_number: int | None,
    by: int | None,
    topics: tuple[tuple[str, tuple[int, ...] | None], ...],
    dry_run: bool,
    yes: bool,
    yes_while_members_live: bool,
) -> None:
    """Set a group's positions anew.

    Refused while the group has members, because these would go on from where they are: stop them first.
    """
    goal = goal_of(to_first, to_end, to_time, to_number, by)
    with session.client("tank topic list") as client:
        members = members_of(client, name)
        if members and not (dry_run or yes_while_members_live):
            raise while_members_live(name, members)
        planned = plan(client, name, goal, topics)
        if not dry_run:
            ask(session, name, planned, sure=yes or yes_while_members_live)
            commit(client, name, planned, members)
    if session.as_json:
        print_json({"group": name, "dry_run": dry_run, "partitions": [each.json() for each in planned]})
        return
    if dry_run or yes or yes_while_members_live:
        print_table(COLUMNS, [row(each) for each in planned])
    if dry_run:
        note("Nothing was changed.")
        if members:
            note(f"The group has {members_text(members)}: a reset is refused until they have stopped.")
    else:
        done(f"Reset {plural(len(planned), 'position')} of {name}.")


def members_of(client: "Client", name: str) -> "tuple[GroupMember, ...]":
    """The group's members; none when there is no such group, which a reset makes, and none where brokers know
    no members yet."""
    from tank_client import errors

    try:
        (found,) = client.admin.describe_groups([name])
    except (errors.LevelTooLow, errors.FeatureMissing):
        return ()
    return found.members


def while_members_live(name: str, members: "Sequence[GroupMember]") -> CliError:
    """The refusal while the group has members."""
    return CliError(
        f"Group {name!r} has {members_text(members)}. They would go on from where they are, and their next "
        "commits would undo the reset: stop them first, or say --yes-while-members-live.",
        hint=f"tank group members {name}",
    )


def plan(
    client: "Client", name: str, goal: Goal, topics: tuple[tuple[str, tuple[int, ...] | None], ...]
) -> list[PositionChange]:
    """The changes; asks the broker for positions, ends and times."""
    positions = {route: place.number for route, place in client.admin.fetch_positions(name).items()}
    routes = chosen(client, topics) if topics else set(positions)
    if not routes:
        raise CliError(
            f"Group {name!r} has committed no position: name the topics to set it in with --topic.",
            ExitCode.NOT_FOUND,
            hint="tank group list",
        )
    ends = client.admin.await_ends(dict.fromkeys(sorted(routes)))
    times: dict[Route, int] = {}
    if goal.to is To.TIME:
        by_topic: dict[str, dict[int, int]] = {}
        for topic, partition in routes:
            by_topic.setdefault(topic, {})[partition] = goal.value
        for topic, asked in by_topic.items():
            found = client.admin.find_by_time(topic, asked)
            times |= {(topic, partition): place.number for partition, place in found.items()}
    try:
        return changes(goal, routes, positions, ends, times)
    except NoPositionError as error:
        raise CliError(
            f"{str(error)[:1].upper()}{str(error)[1:]}: say --to-first, --to-end, --to-time or --to-number "
            "for these.",
            ExitCode.USAGE,
        ) from None


def chosen(client: "Client", topics: tuple[tuple[str, tuple[int, ...] | None], ...]) -> "set[Route]":
    """The partitions that the options name."""
    from tank_client import errors

    routes: set[Route] = set()
    counts = client.admin.partition_counts(dict.fromkeys(topic for topic, _ in topics))
    for topic, partitions in topics:
        for partition in range(counts[topic]) if partitions is None else partitions:
            if partition >= counts[topic]:
                raise errors.UnknownPartition(topic, partition)
            routes.add((topic, partition))
    return routes


def ask(session: CommandSession, name: str, planned: list[PositionChange], *, sure: bool) -> None:
    """Shows the changes and asks, unless it is `sure`. Raises CliError for the answer no, and without a
    terminal to ask on."""
    if sure:
        return
    if not sys.stdin.isatty() or session.as_json:
        raise CliError(
            "A reset makes members read again, or skip messages: look with --dry-run, then say --yes.",
            ExitCode.USAGE,
        )
    print_table(COLUMNS, [row(each) for each in planned])
    if not click.confirm(f"Reset {plural(len(planned), 'position')} of {name}?", err=True):
        raise CliError("Nothing was changed.")


def commit(
    client: "Client", name: str, planned: list[PositionChange], members: "Sequence[GroupMember]"
) -> None:
    """Stores the new positions; if the group has members, in the names of those that have the partitions."""
    from tank_client import errors

    owners = owners_of(members)
    shares: dict[GroupMember | None, dict[Route, int]] = {}
    for each in planned:
        route = each.topic, each.partition
        owner = owners.get(route, members[0] if members else None)
        shares.setdefault(owner, {})[route] = each.after
    for member, positions in shares.items():
        try:
            in_name_of = None if member is None else (member.member_id, member.epoch)
            client.admin.commit_positions(name, positions, member=in_name_of)
        except (errors.UnknownMember, errors.StaleMember):
            raise CliError(
                f"The members of group {name!r} changed meanwhile, and not all positions were set: look, and "
                "try again.",
                hint=f"tank group members {name}",
            ) from None


def row(each: PositionChange) -> list[str]:
    """A line of the table."""
    before = "-" if each.before is None else str(each.before)
    return [each.topic, str(each.partition), before, str(each.after), notice(each)]


def notice(each: PositionChange) -> str:
    """What a change does, in words."""
    found = []
    if each.messages is None:
        found.append("nothing was committed")
    elif each.messages:
        count = count_text(abs(each.messages))
        found.append(f"{count} skipped" if each.messages > 0 else f"{count} read again")
    if each.wanted < each.first:
        found.append(f"it begins at {each.first}")
    elif each.wanted > each.end:
        found.append(f"it ends at {each.end - 1}")
    return ", ".join(found)
