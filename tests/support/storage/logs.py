"""Building and reading logs in tests: batches of known messages, folders on a fault disk, what a log
serves."""

from dataclasses import dataclass
from itertools import pairwise

import pytest

from tank_node.disk import Disk
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import LogDamaged, StorageError
from tank_node.segment.record import SPARSE
from tank_node.store.checkpoint_file import CheckpointFile
from tank_node.store.data_folder import DataFolder
from tank_protos import bundle
from tests.support.manual_clock import ManualClock
from tests.support.storage.fault_disk import FaultDisk

TOPIC = 7
DATA = "/data"
FOLDER = f"{DATA}/topics/{TOPIC}/0"


def batch(*values: bytes, keys: list[bytes | None] | None = None, timestamp_ms: int = 1) -> memoryview:
    """A dense batch of these messages, as a produce request carries it."""
    return memoryview(bundle.as_batch(bundle.encode(values, timestamps=timestamp_ms, keys=keys)))


def sparse_batch(numbers: list[int], *values: bytes, keys: list[bytes | None] | None = None) -> memoryview:
    """A batch that carries its own numbers."""
    return memoryview(bundle.as_batch(bundle.encode_sparse(numbers, values, timestamps=1, keys=keys)))


def append(
    log: PartitionLog,
    *values: bytes,
    keys: list[bytes | None] | None = None,
    now_ms: int = 1000,
    timestamp_ms: int = 0,
    epoch: int = 1,
    producer: tuple[int, int, int] = (0, 0, 0),
    write: bool = True,
) -> tuple[int, int]:
    """Stages one batch, and writes it; `producer` is id, epoch, sequence. Returns (first, last)."""
    numbers = log.tail.stage(
        batch(*values, keys=keys),
        messages=len(values),
        first=None,
        span=len(values) - 1,
        max_timestamp_ms=timestamp_ms,
        leader_epoch=epoch,
        now_ms=now_ms,
        producer_id=producer[0],
        producer_epoch=producer[1],
        producer_sequence=producer[2],
    )
    if write:
        log.tail.write()
    return numbers


def append_sparse(
    log: PartitionLog,
    numbers: list[int],
    *values: bytes,
    keys: list[bytes | None] | None = None,
    epoch: int = 1,
) -> tuple[int, int]:
    """Appends one batch with its own numbers."""
    found = log.tail.stage(
        sparse_batch(numbers, *values, keys=keys),
        messages=len(values),
        first=numbers[0],
        span=numbers[-1] - numbers[0],
        max_timestamp_ms=0,
        leader_epoch=epoch,
        now_ms=1000,
        flags=SPARSE,
    )
    log.tail.write()
    return found


@dataclass
class Chunk:
    """What one read gave: as a consumer would take it apart."""

    first: int
    last: int
    sparse_first: bool
    content: bytes

    def messages(self) -> dict[int, bytes]:
        """Number -> value, counted as TANK's clients do: from the base, sparse bundles by their own
        numbers."""
        found: dict[int, bytes] = {}
        number = self.first
        for one in bundle.bundles(memoryview(self.content)):
            for message in bundle.decode(one, number):
                found[message.sequence_number] = message.value
                number = message.sequence_number + 1
        return found


def read_chunk(
    log: PartitionLog, number: int, max_bytes: int = 1 << 20, through: int = 2**62
) -> Chunk | None:
    stretch = log.read(number, max_bytes, through)
    if stretch is None:
        return None
    try:
        content = log.disk.read_at(stretch.file.fd, stretch.length, stretch.position)
    finally:
        stretch.file.release()
    return Chunk(stretch.first, stretch.last, stretch.sparse_first, content)


def read_chunks(log: PartitionLog, max_bytes: int = 1 << 20, through: int = 2**62) -> list[Chunk]:
    """Every chunk from the log's beginning, as a consumer would ask for them."""
    chunks = []
    number = log.first_available
    while (chunk := read_chunk(log, number, max_bytes, through)) is not None:
        chunks.append(chunk)
        number = chunk.last + 1
    for before, after in pairwise(chunks):
        assert before.last < after.first, "chunks come in order"
    return chunks


def read_all(log: PartitionLog, max_bytes: int = 1 << 20, through: int = 2**62) -> dict[int, bytes]:
    """Number -> value of everything that can be read; nothing of a damaged log."""
    found: dict[int, bytes] = {}
    if log.state is LogState.DAMAGED:
        with pytest.raises(LogDamaged):
            log.read(1, max_bytes, through)
        return found
    for chunk in read_chunks(log, max_bytes, through):
        found.update(chunk.messages())
    return found


class Folder:
    """A data folder on a fault disk (or another), which can be closed, killed and opened again."""

    def __init__(
        self, disk: Disk | None = None, path: str = DATA, settings: LogSettings | None = None
    ) -> None:
        self.disk = disk if disk is not None else FaultDisk()
        self.path = path
        self.settings = settings or LogSettings()
        self.clock = ManualClock()
        self.open_files = 64
        self.boot = "boot-1"
        self.data = self.open()

    def open(self) -> DataFolder:
        """Takes the folder as a process that starts does; the caller keeps it as `data`."""
        return DataFolder.open(
            self.path, self.disk, self.clock, open_files=self.open_files, boot_id=lambda: self.boot
        )

    @property
    def fault(self) -> FaultDisk:
        assert isinstance(self.disk, FaultDisk)
        return self.disk

    def log(self, partition: int = 0) -> PartitionLog:
        return self.data.open_log(TOPIC, partition, self.settings)

    def reopen(self) -> PartitionLog:
        """An orderly stop and start."""
        self.data.close()
        self.data = self.open()
        return self.log()

    def kill(self) -> PartitionLog:
        """kill -9 and start: all written bytes are there, nothing was told to the disk."""
        self.fault.kill_process()
        self.data = self.open()
        return self.log()

    def reopen_after_power_loss(self) -> PartitionLog:
        self.boot += "x"
        self.data = self.open()
        return self.log()


def written_checkpoint(folder: Folder) -> CheckpointFile:
    """What the folder's checkpoint says on the disk."""
    written = CheckpointFile(folder.disk, folder.path, {})
    assert written.read(), "it is the newest"
    return written


def error_of(log: PartitionLog, value: bytes = b"x") -> StorageError | None:
    """What an append says: None when it is stored."""
    try:
        append(log, value)
    except StorageError as error:
        return error
    return None
