"""`tank log dump|verify`: inspects a data folder without a broker."""

import json
from pathlib import Path

import click

from tank_cli.files.contents import StoredMessage, messages_in
from tank_cli.files.reader import (
    PartitionFolder,
    StoredBatch,
    VerifiedPartition,
    find_partitions,
    read_batches,
    read_checkpoint,
    segment_bases,
    verify,
)
from tank_cli.shell.brokers.positions import MAX_PARTITION
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.figures import bytes_text, count_text, plural, safe_text, time_text
from tank_cli.shell.lazy import LazyGroup
from tank_cli.shell.nearest import did_you_mean
from tank_cli.shell.output import Json, done, print_json, print_table
from tank_cli.shell.progress import TransferProgress, progress
from tank_cli.shell.render import json_content
from tank_cli.shell.session import CommandSession, offline_options
from tank_node.log.recovery.checkpoint import CheckpointEntry
from tank_protos.wire.errors import WireError

SHOWN_PROBLEMS = 20  # of a partition; a broken disk has thousands
ALL_NUMBERS = 2**64 - 1
FOLDER = click.argument("folder", type=click.Path(path_type=Path))
TOPIC = click.option("--topic", "-t", metavar="NAME", help="Only this topic (its name, or its id as #7).")
PARTITION = click.option(
    "--partition", "-p", type=click.IntRange(0, MAX_PARTITION), metavar="N", help="Only this partition."
)


@click.group(cls=LazyGroup)
def log() -> None:
    """Inspect a data folder without a broker.

    Nothing is changed. FOLDER is what `tank serve` calls --data, or the folder of one partition in it.
    """


@log.command("verify")
@FOLDER
@TOPIC
@PARTITION
@click.option("--contents", is_flag=True, help="Unpack and decode all batches, as their readers do; slower.")
@offline_options
def verify_folder(
    session: CommandSession, folder: Path, topic: str | None, partition: int | None, contents: bool
) -> None:
    """Read everything and check it against its checksums.

    Ends with exit code 8 when something is damaged. Bytes of a write that a crash left unfinished are no
    damage: they were never acknowledged, and the next start cuts them. Best without a broker on the
    folder: files that are being replaced at this moment can look damaged.
    """
    partitions = choose(folder, topic, partition)
    entries = read_checkpoint(folder).entries
    with progress("Checked") as shown:
        verdicts = [
            (each, verified(each, entries.get((each.topic_id, each.partition)), shown, contents=contents))
            for each in partitions
        ]
    damaged = [(each, verdict) for each, verdict in verdicts if verdict.problems]
    if session.as_json:
        print_json({"ok": not damaged, "partitions": [verdict_json(*pair) for pair in verdicts]})
    else:
        columns = ["Partition", ">Segments", ">Batches", ">Messages", ">First", ">Last", ">Size", "State"]
        print_table(columns, [verdict_row(*pair) for pair in verdicts])
        for each, verdict in damaged:
            click.echo(f"\n{each.place} ({each.path}):", err=True)
            for problem in verdict.problems[:SHOWN_PROBLEMS]:
                click.echo(f"  {problem}", err=True)
            if len(verdict.problems) > SHOWN_PROBLEMS:
                click.echo(f"  ... and {count_text(len(verdict.problems) - SHOWN_PROBLEMS)} more", err=True)
    if damaged:
        places = ", ".join(each.place for each, _ in damaged[:5]) + (", …" if len(damaged) > 5 else "")
        raise CliError(
            f"{count_text(len(damaged))} of {count_text(len(verdicts))} partitions are damaged ({places}): "
            "keep a copy of the folder before a broker starts on it.",
            ExitCode.DAMAGED,
        )
    if not session.as_json:
        size = sum(verdict.size_bytes for _, verdict in verdicts)
        done(f"{plural(len(verdicts), 'partition')}, {bytes_text(size)}: everything is as it was written.")


def choose(folder: Path, topic: str | None, partition: int | None) -> list[PartitionFolder]:
    """The requested partitions. Raises an error when there is none."""
    found = find_partitions(folder)
    if topic is not None:
        names = {each.topic for each in found}
        found = [each for each in found if topic in (each.topic, f"#{each.topic_id}")]
        if not found:
            message = f"{folder} holds no topic {topic!r}.{did_you_mean(topic, names)}"
            raise CliError(message, ExitCode.NOT_FOUND)
    if partition is not None:
        found = [each for each in found if each.partition == partition]
        if not found:
            raise CliError(f"There is no partition {partition} in {folder}.", ExitCode.NOT_FOUND)
    return found


def verified(
    folder: PartitionFolder, entry: CheckpointEntry | None, shown: TransferProgress, *, contents: bool
) -> VerifiedPartition:
    """Verifies one partition, and shows the progress."""
    verdict = VerifiedPartition()
    seen = 0
    for size, verdict in verify(folder, entry, contents=contents):
        shown.advance(verdict.messages - seen, size)
        seen = verdict.messages
    return verdict


def state_of(folder: PartitionFolder, verdict: VerifiedPartition) -> str:
    """The partition's state in a word or a few."""
    if verdict.problems:
        return "DAMAGED"
    if folder.stray:
        return "stray: set aside"
    if verdict.unfinished_bytes:
        return f"ok, {count_text(verdict.unfinished_bytes)} unfinished bytes"
    return "ok"


def verdict_row(folder: PartitionFolder, verdict: VerifiedPartition) -> list[str]:
    """The row of a partition in `tank log verify`."""
    return [
        folder.place,
        count_text(verdict.segments),
        count_text(verdict.batches),
        count_text(verdict.messages),
        str(verdict.first),
        str(verdict.last),
        bytes_text(verdict.size_bytes),
        state_of(folder, verdict),
    ]


def verdict_json(folder: PartitionFolder, verdict: VerifiedPartition) -> dict[str, Json]:
    """A partition of `tank log verify --output json`."""
    return {
        "topic": folder.topic,
        "topic_id": folder.topic_id,
        "partition": folder.partition,
        "path": str(folder.path),
        "stray": folder.stray,
        "segments": verdict.segments,
        "batches": verdict.batches,
        "messages": verdict.messages,
        "first": verdict.first,
        "last": verdict.last,
        "bytes": verdict.size_bytes,
        "unfinished_bytes": verdict.unfinished_bytes,
        "problems": list(verdict.problems),
    }


@log.command("dump")
@FOLDER
@TOPIC
@PARTITION
@click.option("--from", "begin", type=click.IntRange(0), default=0, metavar="N", help="From this number on.")
@click.option("--until", type=click.IntRange(0), default=ALL_NUMBERS, metavar="N", help="Up to this number.")
@click.option("--messages", "-m", is_flag=True, help="Show the messages, too.")
@offline_options
def dump_folder(
    session: CommandSession,
    folder: Path,
    topic: str | None,
    partition: int | None,
    begin: int,
    until: int,
    messages: bool,
) -> None:
    """Show the batches of a log, one a line, as their records in the index say.

    With --output json each is a JSON object a line.
    """
    for each in choose(folder, topic, partition):
        if not session.as_json:
            click.secho(f"{each.place}  {each.path}", bold=True)
        for base in segment_bases(each.path):
            for batch in read_batches(each, base):
                if batch.record.last >= begin and batch.record.first <= until:
                    show_batch(session, each, batch, messages, begin, until)


def show_batch(
    session: CommandSession,
    folder: PartitionFolder,
    batch: StoredBatch,
    messages: bool,
    begin: int,
    until: int,
) -> None:
    """Prints one batch, as text or JSON."""
    contents = messages_of(batch, begin, until) if messages else []
    if session.as_json:
        body = batch_json(folder, batch)
        if messages:
            body["messages"] = [message_json(each) for each in contents]
        click.echo(json.dumps(body, ensure_ascii=False))
        return
    click.echo(batch_line(batch))
    for each in contents:
        click.echo(message_line(each))


def batch_line(batch: StoredBatch) -> str:
    """A batch as a line of text."""
    record = batch.record
    parts = [
        f"{record.first}-{record.last}",
        plural(record.messages, "message"),
        bytes_text(record.length),
        f"at {batch.segment.lstrip('0') or '0'}.log:{record.position}",
        time_text(record.append_ms),
        f"epoch {record.leader_epoch}",
    ]
    if record.producer_id:
        parts.append(f"producer {record.producer_id}:{record.producer_epoch}:{record.producer_sequence}")
    problem = click.style(f"  DAMAGED: {batch.problem}", fg="red") if batch.problem else ""
    return "  " + "  ".join(parts) + problem


def batch_json(folder: PartitionFolder, batch: StoredBatch) -> dict[str, Json]:
    """A line of `tank log dump --output json`; `problem` null when the batch is whole."""
    record = batch.record
    return {
        "topic": folder.topic,
        "topic_id": folder.topic_id,
        "partition": folder.partition,
        "segment": int(batch.segment),
        "position": record.position,
        "length": record.length,
        "first": record.first,
        "last": record.last,
        "message_count": record.messages,
        "append_ms": record.append_ms,
        "max_timestamp_ms": record.max_timestamp_ms,
        "leader_epoch": record.leader_epoch,
        "producer_id": record.producer_id,
        "producer_epoch": record.producer_epoch,
        "producer_sequence": record.producer_sequence,
        "format": record.format,
        "flags": record.flags,
        "crc32c": record.crc,
        "problem": batch.problem or None,
    }


def messages_of(batch: StoredBatch, begin: int, until: int) -> list[StoredMessage]:
    """A batch's messages between two numbers; none of a damaged one."""
    if batch.problem:
        return []
    try:
        decoded = messages_in(batch.record, batch.content)
    except WireError:
        return []
    return [each for each in decoded if begin <= each.number <= until]


def message_line(message: StoredMessage) -> str:
    """A message as a line of text, below its batch."""
    time = time_text(message.timestamp_ms) if message.timestamp_ms >= 0 else "no time"
    key = "" if message.key is None else f"{safe_text(message.key)}: "
    value = "null" if message.value is None else safe_text(message.value)
    headers = "".join(
        f"  [{safe_text(name)}={'null' if content is None else safe_text(content)}]"
        for name, content in message.headers
    )
    return f"    {message.number}  {time}  {key}{value}{headers}"


def message_json(message: StoredMessage) -> dict[str, Json]:
    """A message of `tank log dump --messages --output json`. A message without headers has no such field."""
    headers: list[Json] = [
        {**json_content("key", name), **json_content("value", content)} for name, content in message.headers
    ]
    return {
        "number": message.number,
        "timestamp_ms": message.timestamp_ms,
        **json_content("key", message.key),
        **json_content("value", message.value),
        **({"headers": headers} if headers else {}),
    }
