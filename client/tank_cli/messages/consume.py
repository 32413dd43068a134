"""`tank consume`: the messages of a topic, from where to where the person says."""

import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from tank_cli.messages.consume_cut import Cutter
from tank_cli.messages.consume_plan import ENDLESS, Plan, make_plan
from tank_cli.messages.consume_shared import SharedReader
from tank_cli.shell import render
from tank_cli.shell.brokers.positions import At, LogPosition, PartitionsType, PositionType
from tank_cli.shell.brokers.watch import BrokerWatch
from tank_cli.shell.complete import complete_topics
from tank_cli.shell.output import note, warn
from tank_cli.shell.progress import progress
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from tank_client.consuming.batch import MessageBatch
    from tank_client.sync import Client

FORMATS = ["text", "json", "hex", "template"]
POLL_MS = 1_000  # how long --follow waits before it looks whether positions are to be committed
COMMIT_EVERY_S = 5.0

FIELDS_HELP = "Template fields: " + ", ".join(f"{{{name}}}" for name in render.FIELDS) + r"; \n and \t work."
EXAMPLES = """\b
tank consume flights                                everything, then end
tank consume flights --from end --follow            new messages only
tank consume flights --from -10                     the last ten of each partition
tank consume flights --from now-10min --until now
tank consume flights --from 100 --until 199 --partition 0
tank consume flights --group audit --follow         share the partitions with others of the group
tank consume flights --template '{time} {key}: {value}'
"""


@click.command(epilog=f"{FIELDS_HELP}\n\n{EXAMPLES}")
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "--from", "begin", type=PositionType(committed=True, back=True),
    help="Where to begin: first, end, committed (of --group), a sequence number, -N for the last N, or a "
    "time: 2013-01-01T05:00 (UTC), now-10min, @SECONDS.  [default: first; with --group: committed]",
)  # fmt: skip
@click.option(
    "--until", type=PositionType(),
    help="Where to stop: a sequence number (included), end (as it is now), or a time (excluded).  "
    "[default: end; with --follow: never]",
)  # fmt: skip
@click.option("--follow", "-F", is_flag=True, help="At the end wait for new messages.")
@click.option("--count", "-n", type=click.IntRange(1), metavar="N", help="Stop after N messages.")
@click.option(
    "--partition", "-p", "partitions", type=PartitionsType(), help="0, or 0,3, or 0-3.  [default: all]"
)
@click.option(
    "--format", "-f", "form", type=click.Choice(FORMATS), help="[default: text; with --output json: json]"
)
@click.option(
    "--template", "-t", metavar="TEXT", help="A line a message, as in '{partition}:{number} {value}'."
)
@click.option(
    "--key-separator", metavar="TEXT", help="Show the key before the value, with this text between them."
)
@click.option(
    "--group",
    "-g",
    metavar="NAME",
    help="Read as a member of this consumer group: its members share the partitions, and what was shown is "
    "committed. With --from, --until or --partition: read these, and commit while the group has no members.",
)
@click.option(
    "--skip-damaged", is_flag=True, help="Go on behind a bundle that cannot be read, with a warning."
)
@click.option(
    "--no-commit", is_flag=True, help="With --group: begin at the group's positions, but commit nothing."
)
@shared_options
def consume(
    session: CommandSession,
    topic: str,
    begin: LogPosition | None,
    until: LogPosition | None,
    follow: bool,
    count: int | None,
    partitions: tuple[int, ...] | None,
    form: str | None,
    template: str | None,
    key_separator: str | None,
    group: str | None,
    no_commit: bool,
    skip_damaged: bool,
) -> None:
    """Read the messages of TOPIC.

    On a terminal, text shows control characters as \\xNN; a pipe or a file gets the bytes unchanged.
    """
    shares = group is not None and not (begin or until or partitions or no_commit)
    if begin is None:
        begin = LogPosition(At.COMMITTED if group else At.FIRST)
    if begin.at is At.COMMITTED and group is None:
        raise click.UsageError("--from committed needs --group NAME.")
    if no_commit and group is None:
        raise click.UsageError("--no-commit goes with --group NAME.")
    if until is not None and begin.at is until.at is At.NUMBER and until.value < begin.value:
        raise click.UsageError("--until is before --from.")
    renderer = choose_renderer(
        form or ("template" if template else "json" if session.as_json else "text"), template, key_separator
    )
    with session.client() as client:
        if group is not None and shares:
            reader = SharedReader(client, topic, group, follow=follow, skip_damaged=skip_damaged)
            with BrokerWatch(session.servers) as watch:
                reader.show(renderer, count, watch)
            _say_nothing_was_there(reader.given, topic, follow=follow)
            return
        if partitions is None:
            (found,) = client.admin.describe_topics([topic])
            partitions = tuple(each.partition for each in found.partitions)
        plan = make_plan(client, topic, partitions, begin, until, group, follow)
        plan = replace(plan, skip_damaged=skip_damaged)
        for warning in plan.warnings:
            warn(warning)
        with BrokerWatch(session.servers) as watch:
            given = show(client, topic, plan, renderer, count, follow, None if no_commit else group, watch)
    _say_nothing_was_there(given, topic, follow=follow)


def _say_nothing_was_there(given: int, topic: str, *, follow: bool) -> None:
    if given == 0 and sys.stdout.isatty() and not follow:
        note(f"There is nothing to show in {topic}; --follow waits for new messages.")


def choose_renderer(form: str, template: str | None, key_separator: str | None) -> render.Renderer:
    """The renderer that the options choose. Raises a usage error for options that don't go together."""
    if template is not None and form != "template":
        raise click.UsageError(f"--template doesn't go with --format {form}.")
    if key_separator is not None and form != "text":
        raise click.UsageError("--key-separator goes with --format text.")
    for_terminal = sys.stdout.isatty()
    if form == "template":
        if template is None:
            raise click.UsageError(
                "--format template needs --template TEXT, as in '{partition}:{number} {value}'."
            )
        return render.template_renderer(template, for_terminal=for_terminal)
    if form == "text":
        return render.text_renderer(for_terminal=for_terminal, key_separator=key_separator)
    return render.json_renderer(for_terminal=for_terminal) if form == "json" else render.render_hex


def show(
    client: "Client",
    topic: str,
    plan: Plan,
    renderer: render.Renderer,
    count: int | None,
    follow: bool,
    group: str | None,
    watch: BrokerWatch,
) -> int:
    """Reads, cuts and writes messages, and commits them once written. Returns how many were shown."""
    cutter = Cutter(plan.live(), count)
    ledger = Ledger(client, topic, group)
    out = sys.stdout.buffer
    total = None if any(span.last == ENDLESS for span in plan.spans.values()) else plan_size(plan, count)
    try:
        with progress("Read", total, quiet=follow or not writes_a_file()) as shown:
            for batch in batches(client, topic, plan, cutter, follow):
                if batch is not None:
                    watch.alive()
                columns = None if batch is None else cutter.cut(batch)
                if columns is not None:
                    written = renderer(columns)
                    out.write(written)
                    ledger.shown(columns.partition, cutter.positions[columns.partition])
                    shown.advance(len(columns.values), len(written))
                if follow:
                    out.flush()
                ledger.due()
        out.flush()
    except KeyboardInterrupt:
        out.flush()
        ledger.commit()
        raise
    ledger.commit()
    return cutter.given


def batches(
    client: "Client", topic: str, plan: Plan, cutter: Cutter, follow: bool
) -> "Iterator[MessageBatch | None]":
    """Yields the consumer's batches until the cutter has enough; None from time to time while none comes."""
    live = plan.live()
    if not live:
        return
    start = {(topic, partition): span.start for partition, span in live.items()}
    from tank_client.settings import ConsumerSettings, DamagedPolicy

    settings = ConsumerSettings(damaged=DamagedPolicy.SKIP if plan.skip_damaged else DamagedPolicy.ERROR)
    consumer = client.consumer({topic: sorted(live)}, start=start, stop_at_end=not follow, settings=settings)
    try:
        if follow:
            while not cutter.finished:
                yield consumer.poll(POLL_MS)
        else:
            for batch in consumer:
                yield batch
                if cutter.finished:
                    break
    finally:
        consumer.close()


def plan_size(plan: Plan, count: int | None) -> int:
    """The greatest number of messages that the command may show."""
    spans = plan.live().values()
    size = sum(span.last - span.start + 1 for span in spans)
    return size if count is None else min(size, count)


def writes_a_file() -> bool:
    """Whether stdout is a file: then a progress line on stderr disturbs no output."""
    try:
        return stat.S_ISREG(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


class Ledger:
    """Commits positions behind what was shown for a group, from time to time and at the end; does nothing
    without a group.
    """

    def __init__(self, client: "Client", topic: str, group: str | None) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        self._shown: dict[int, int] = {}
        self._committed: dict[int, int] = {}
        self._next = time.monotonic() + COMMIT_EVERY_S

    def shown(self, partition: int, position: int) -> None:
        """All messages before `position` that were to be shown were written."""
        self._shown[partition] = position

    def due(self) -> None:
        """Commits when the last commit is old enough. The output is flushed first, so that only shown
        messages are committed.
        """
        if self._group is not None and time.monotonic() >= self._next:
            sys.stdout.buffer.flush()
            self.commit()
            self._next = time.monotonic() + COMMIT_EVERY_S

    def commit(self) -> None:
        """Commits the positions that have changed."""
        news = {
            (self._topic, partition): number
            for partition, number in self._shown.items()
            if self._committed.get(partition) != number
        }
        if self._group is not None and news:
            self._client.admin.commit_positions(self._group, news)
            self._committed.update(self._shown)
