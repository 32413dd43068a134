"""A data folder read without a broker and without changing a byte: its partitions, batches and faults.

It reads the files of `tank_node.log`: `<base>.log` with batches, `<base>.index` with a record for each, one
`checkpoint`. A broker may be running on the folder: its writes meanwhile may be seen or not.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from tank_cli.files.contents import malformed, messages_in
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_node.log.recovery import checkpoint
from tank_node.log.recovery.checkpoint import Checkpoint, CheckpointEntry
from tank_node.segment.record import RECORD_BYTES, REWRITTEN, Record, checksum, read_record
from tank_node.segment.segment import INDEX
from tank_node.segment.swap import DELETED
from tank_protos.wire.errors import WireError

INDEX_READ_RECORDS = 4096
STRAY = ".stray-"


@dataclass(slots=True, frozen=True)
class PartitionFolder:
    """The files of one partition. `topic`: its name, or `#id` when the metadata doesn't have it."""

    path: Path
    topic: str
    topic_id: int
    partition: int
    stray: bool = False

    @property
    def place(self) -> str:
        """The partition as text: topic/partition."""
        return f"{self.topic}/{self.partition}"


@dataclass(slots=True, frozen=True)
class StoredBatch:
    """One record and the bytes it points to; `problem` is empty when they belong together."""

    segment: str
    record: Record
    content: memoryview
    problem: str = ""


@dataclass(slots=True)
class VerifiedPartition:
    """The findings of reading a whole partition. `unfinished_bytes`: bytes at the end without a whole record,
    which were never acknowledged, and which the next start cuts.
    """

    segments: int = 0
    batches: int = 0
    messages: int = 0
    size_bytes: int = 0
    first: int = 0
    last: int = 0
    unfinished_bytes: int = 0
    problems: list[str] = field(default_factory=list)


def find_partitions(data: Path) -> list[PartitionFolder]:
    """All partitions of a data folder, stray ones last; or the one whose folder this is."""
    if not data.is_dir():
        raise CliError(f"There is no folder {data}.", ExitCode.NOT_FOUND)
    topics = data / "topics"
    if not topics.is_dir():
        if segment_bases(data):
            return [one_partition(data)]
        raise CliError(
            f"{data} is no data folder: it has no folder topics, and no segments.", ExitCode.NOT_FOUND
        )
    from tank_cli.files.names import topic_names

    names = topic_names(data)
    found = []
    for folder in topics.iterdir():
        stray = folder.name.startswith(STRAY)
        number = folder.name.removeprefix(STRAY).partition("-")[0]
        if not folder.is_dir() or not number.isdecimal():
            continue
        topic_id = int(number)
        name = names.get(topic_id, f"#{topic_id}") if not stray else folder.name
        found += [
            PartitionFolder(path, name, topic_id, int(path.name), stray)
            for path in folder.iterdir()
            if path.name.isdecimal() and path.is_dir()
        ]
    return sorted(found, key=lambda each: (each.stray, each.topic, each.topic_id, each.partition))


def one_partition(path: Path) -> PartitionFolder:
    """The partition whose folder was named; its id and number are in the path."""
    topic_id = int(path.parent.name) if path.parent.name.isdecimal() else 0
    number = int(path.name) if path.name.isdecimal() else 0
    return PartitionFolder(path, f"#{topic_id}", topic_id, number)


def read_checkpoint(data: Path) -> Checkpoint:
    """The data folder's checkpoint, or the one before it; an empty one when there is none."""
    for name in ("checkpoint", "checkpoint.previous"):
        try:
            return checkpoint.decode((data / name).read_bytes())
        except (OSError, ValueError):
            continue
    return Checkpoint(False, {})


def segment_bases(folder: Path) -> list[int]:
    """The names of the segments in a partition's folder (the end before each + 1), rising, without those half
    removed."""
    stems = {path.stem for suffix in ("*.log", "*.index") for path in folder.glob(suffix)}
    stems -= {path.name.removesuffix(INDEX + DELETED) for path in folder.glob("*" + INDEX + DELETED)}
    return sorted(int(stem) for stem in stems if len(stem) == 20 and stem.isdecimal())


def read_batches(folder: PartitionFolder, base: int) -> Iterator[StoredBatch]:
    """A segment's batches, each checked against its record and the record before it. Stops where the log file
    ends; a missing file is as an empty one.
    """
    name = f"{base:020d}"
    last, position = base - 1, 0
    with LogFile(folder.path / f"{name}.index") as index, LogFile(folder.path / f"{name}.log") as log:
        done = 0
        while records := index.read(done, INDEX_READ_RECORDS * RECORD_BYTES):
            done += len(records)
            for offset in range(0, len(records) - RECORD_BYTES + 1, RECORD_BYTES):
                record = read_record(records, offset)
                content = log.read(record.position, record.length)
                yield StoredBatch(name, record, content, problem_of(record, content, last, position))
                last, position = max(last, record.last), record.end


def problem_of(record: Record, content: memoryview, last: int, position: int) -> str:
    """How a record and its bytes differ from those that were written; empty when they do not."""
    if len(content) < record.length:
        return f"the log ends inside it: {len(content)} bytes of {record.length} are there"
    if checksum(content, record) != record.crc:
        return "its checksum does not match"
    if record.first <= last:
        return f"its number is not above {last}, the one before it"
    if record.position != position:
        return f"it lies at byte {record.position}, and {position} was expected"
    return malformed(record, content)


def unreadable(batch: StoredBatch) -> str:
    """Why no reader can make messages of a batch's bytes; empty when they can."""
    try:
        messages_in(batch.record, batch.content)
    except WireError as error:
        return str(error)
    return ""


class LogFile:
    """A segment's log or index, for `with`; one that is missing is as an empty one."""

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = BytesIO()
        with contextlib.suppress(FileNotFoundError):
            self._file = path.open("rb")

    def __enter__(self) -> "LogFile":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, position: int, length: int) -> memoryview:
        """Up to `length` bytes from `position` on; fewer at the file's end."""
        if self._file.tell() != position:
            self._file.seek(position)
        return memoryview(self._file.read(length))


def verify(
    folder: PartitionFolder, entry: CheckpointEntry | None, *, contents: bool = False
) -> Iterator[tuple[int, VerifiedPartition]]:
    """Reads a whole partition. Gives (bytes just read, the verdict so far), the same verdict each time.
    `contents`: batches are unpacked and decoded, too, as a reader does."""
    verdict = VerifiedPartition()
    bases = segment_bases(folder.path)
    ends_before = 0  # where the segment before must end at its name's word; 0: it was rewritten, or is empty
    is_apart = False
    for place, base in enumerate(bases):
        verdict.segments += 1
        end = 0
        is_apart, ends_before, before = 0 < ends_before < base - 1, 0, ends_before
        for batch in read_batches(folder, base):
            record = batch.record
            is_tail = place == len(bases) - 1 and len(batch.content) < record.length
            if batch.problem and is_tail and (entry is None or record.first > entry.recovery_point):
                break
            if is_apart and not batch.problem:  # a crash may leave an empty one
                verdict.problems.append(f"the numbers {before + 1} to {base - 1} are missing")
                is_apart = False
            count(verdict, batch)
            if contents and not batch.problem and (reason := unreadable(batch)):
                where = f"segment {batch.segment}: the messages {record.first} to {record.last}"
                verdict.problems.append(f"{where} cannot be read, though they are as they came: {reason}")
            end = record.end
            ends_before = 0 if record.flags & REWRITTEN else record.last
            yield record.length, verdict
        check_files(folder, base, end, verdict, is_last=place == len(bases) - 1)
    # An empty segment at the end is named by it: compaction, or mending, took the messages before it.
    end = max(verdict.last, bases[-1] - 1) if bases and not is_apart else verdict.last
    if entry is not None and end < entry.recovery_point:
        verdict.problems.append(f"it ends at {end}, though messages up to {entry.recovery_point} were stored")
    yield 0, verdict


def count(verdict: VerifiedPartition, batch: StoredBatch) -> None:
    """Adds a batch, or its problem."""
    record = batch.record
    if record.first <= verdict.last and not batch.problem:
        batch = StoredBatch(batch.segment, record, batch.content, f"its number is not above {verdict.last}")
    if batch.problem:
        place = f"segment {batch.segment}, batch {record.first} to {record.last}"
        verdict.problems.append(f"{place}: {batch.problem}")
        return
    verdict.first = verdict.first or record.first
    verdict.last = record.last
    verdict.batches += 1
    verdict.messages += record.messages
    verdict.size_bytes += record.length


def check_files(
    folder: PartitionFolder, base: int, end: int, verdict: VerifiedPartition, *, is_last: bool
) -> None:
    """Checks the bytes beyond whole batches: an unfinished write at the log's end, a fault elsewhere."""
    sizes = []
    for suffix in ("log", "index"):
        try:
            sizes.append((folder.path / f"{base:020d}.{suffix}").stat().st_size)
        except FileNotFoundError:
            sizes.append(0)
            if not is_last or end:
                verdict.problems.append(f"the file {base:020d}.{suffix} is missing")
    rest = max(0, sizes[0] - end) + sizes[1] % RECORD_BYTES
    if rest and is_last:
        verdict.unfinished_bytes += rest
    elif rest and not verdict.problems:
        verdict.problems.append(f"segment {base:020d} has {rest} bytes without a record")
