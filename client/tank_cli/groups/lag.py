"""`tank lag`: how far consumer groups are behind."""

from typing import TYPE_CHECKING

import click

from tank_cli.groups.progress import GroupProgress, PartitionProgress, progress_of
from tank_cli.groups.show import titles_of
from tank_cli.shell.complete import complete_groups, complete_topics
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import count_text, plural, time_text
from tank_cli.shell.nearest import did_you_mean
from tank_cli.shell.output import Json, done, note, print_json, print_table
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from tank_client.sync import Client

SHOWN = 100
"""The most groups in a table for people, unless they ask for more."""


@click.command()
@click.argument("groups", metavar="[GROUP]...", nargs=-1, shell_complete=complete_groups)
@click.option(
    "--topic", "-t", "topics", multiple=True, metavar="NAME", shell_complete=complete_topics,
    help="Only this topic; may be repeated.",
)  # fmt: skip
@click.option(
    "--limit", type=click.IntRange(1), metavar="N",
    help=f"The most groups to show.  [default: {SHOWN}; with --output json: all]",
)  # fmt: skip
@shared_options
def lag(session: CommandSession, groups: tuple[str, ...], topics: tuple[str, ...], limit: int | None) -> None:
    """Show how far consumer groups are behind.

    Without GROUP: all groups with positions, those of Kafka's clients and of Spark's queries among them, in
    a line each, the greatest lag first. With GROUP: each of their partitions.

    Lag is the number of messages between the position that the group has committed and the partition's end.
    """
    with session.client("tank topic list") as client:
        if topics:
            client.admin.describe_topics(topics)
        found = _found(client, session.servers, groups, topics)
        titles = titles_of(client, [each.group for each in found])
    most = limit or (len(found) if session.as_json else SHOWN)
    shown = found[:most]
    if session.as_json:
        print_json({"groups": [_group_json(each, titles.get(each.group)) for each in shown]})
    elif not found:
        done("No consumer group has committed a position here.")
    elif groups:
        columns = ["Group", "Topic", ">Partition", ">Next", ">End", ">Lag", "Committed", ""]
        print_table(columns, [_partition_row(each.group, part) for each in shown for part in each.partitions])
    else:
        columns = ["Group", ">Topics", ">Partitions", ">Lag", "Committed", ""]
        print_table(columns, [_group_row(each, titles.get(each.group)) for each in shown])
    _say_what_lacks(found, shown, session, named=bool(groups))


def _found(
    client: "Client", servers: str, groups: tuple[str, ...], topics: tuple[str, ...]
) -> list[GroupProgress]:
    """The named groups in their order, or all with positions, the greatest lag first."""
    known = client.admin.list_groups()
    for name in groups:
        if name not in known:
            raise CliError(
                f"There is no consumer group {name!r}.{did_you_mean(name, known)}",
                ExitCode.NOT_FOUND,
                hint="tank group list",
            )
    names = list(dict.fromkeys(groups)) or known
    from tank_cli.shell.connect import hasty_client

    with hasty_client(servers) as hasty:
        found = progress_of(hasty, servers, names, topics)
    if groups:
        return found
    kept = [each for each in found if each.partitions or each.problem]
    return sorted(kept, key=lambda each: (not each.problem, -each.lag, each.group))


def _say_what_lacks(
    found: list[GroupProgress], shown: list[GroupProgress], session: CommandSession, *, named: bool
) -> None:
    """Notes on stderr, for people, about groups that the table lacks."""
    if session.as_json:
        return
    if len(found) > len(shown):
        note(f"{plural(len(found) - len(shown), 'more group')}: --limit {len(found)} shows all.")
    for each in shown if named else ():
        if each.problem:
            note(f"{each.group}: {each.problem}")
        elif not each.partitions:
            note(f"{each.group} has committed no position.")


def _partition_row(group: str, part: PartitionProgress) -> list[str]:
    return [
        group,
        part.topic,
        str(part.partition),
        "-" if part.position is None else str(part.position),
        "-" if part.ends is None else str(part.ends.high_water_mark),
        "-" if part.lag is None else count_text(part.lag),
        time_text(part.committed_ms) if part.committed_ms else "-",
        f"{count_text(part.expired)} expired unread" if part.expired else "",
    ]


def _group_row(each: GroupProgress, title: str | None) -> list[str]:
    notes = [title] if title else []
    if each.problem:
        return [each.group, "-", "-", "-", "-", ", ".join([*notes, "its coordinator does not answer"])]
    if each.expired:
        notes.append(f"{count_text(each.expired)} expired unread")
    if each.unknown:
        notes.append(f"the ends of {plural(each.unknown, 'partition')} are unknown")
    return [
        each.group,
        count_text(len({part.topic for part in each.partitions})),
        count_text(len(each.partitions)),
        count_text(each.lag),
        time_text(each.committed_ms) if each.committed_ms else "-",
        ", ".join(notes),
    ]


def _group_json(each: GroupProgress, title: str | None) -> dict[str, Json]:
    return {
        "group": each.group,
        "title": title,
        "lag": each.lag,
        "problem": each.problem or None,
        "partitions": [part.json() for part in each.partitions],
    }
