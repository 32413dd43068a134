"""`tank lag`: how far consumer groups are behind."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from tank_cli.shell.complete import complete_topics
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import count_text, time_text
from tank_cli.shell.nearest import did_you_mean
from tank_cli.shell.output import Json, done, print_json, print_table
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from tank_client.sync import Client


@dataclass(slots=True, frozen=True)
class Behind:
    """A group's progress in a partition. `position`: the next number that it reads."""

    group: str
    topic: str
    partition: int
    position: int
    first_available: int
    high_water_mark: int
    committed_ms: int

    @property
    def lag(self) -> int:
        """Messages between its position and the end."""
        return max(0, self.high_water_mark + 1 - max(self.position, 1))

    @property
    def expired(self) -> int:
        """Messages that the group has not read, and that were deleted from the log."""
        return max(0, self.first_available - max(self.position, 1))


@click.command()
@click.argument("groups", metavar="[GROUP]...", nargs=-1)
@click.option(
    "--topic", "-t", "topics", multiple=True, metavar="NAME", shell_complete=complete_topics,
    help="Only this topic; may be repeated.",
)  # fmt: skip
@shared_options
def lag(session: CommandSession, groups: tuple[str, ...], topics: tuple[str, ...]) -> None:
    """Show how far consumer groups are behind.

    Lag is the number of messages between the position that the group has committed and the partition's end.
    """
    with session.client("tank topic list") as client:
        if topics:
            client.admin.describe_topics(topics)
        rows = behind(client, groups, topics)
    if session.as_json:
        print_json({"groups": [group_json(name, rows) for name in dict.fromkeys(row.group for row in rows)]})
    elif not rows:
        done("No consumer group has committed a position here.")
    else:
        columns = ["Group", "Topic", ">Partition", ">Next", ">End", ">Lag", "Committed", ""]
        print_table(columns, [table_row(row) for row in rows])


def behind(client: "Client", groups: Iterable[str], topics: Iterable[str]) -> list[Behind]:
    """All rows, by group, topic and partition. A group that is named and has no position is an error."""
    known = client.admin.list_groups()
    for name in groups:
        if name not in known:
            raise CliError(
                f"There is no consumer group {name!r}.{did_you_mean(name, known)}",
                ExitCode.NOT_FOUND,
                hint="tank lag",
            )
    wanted = list(topics) or None
    rows: list[Behind] = []
    for name in list(groups) or known:
        positions = client.admin.fetch_positions(name, wanted)
        ends = client.admin.await_ends(dict.fromkeys(positions)) if positions else {}
        for (topic, partition), place in sorted(positions.items()):
            reach = ends[topic, partition]
            rows.append(
                Behind(
                    group=name,
                    topic=topic,
                    partition=partition,
                    position=place.number,
                    first_available=reach.first_available,
                    high_water_mark=reach.high_water_mark,
                    committed_ms=place.committed_ms,
                )
            )
    return rows


def table_row(row: Behind) -> list[str]:
    """The row of `tank lag`'s table."""
    return [
        row.group,
        row.topic,
        str(row.partition),
        str(row.position),
        str(row.high_water_mark),
        count_text(row.lag),
        time_text(row.committed_ms) if row.committed_ms else "-",
        f"{count_text(row.expired)} expired unread" if row.expired else "",
    ]


def group_json(name: str, rows: list[Behind]) -> dict[str, Json]:
    """A group of `tank lag --output json`."""
    own = [row for row in rows if row.group == name]
    return {
        "group": name,
        "lag": sum(row.lag for row in own),
        "partitions": [
            {
                "topic": row.topic,
                "partition": row.partition,
                "position": row.position,
                "first_available": row.first_available,
                "high_water_mark": row.high_water_mark,
                "lag": row.lag,
                "expired": row.expired,
                "committed_ms": row.committed_ms,
            }
            for row in own
        ],
    }
