"""Two replicas of one partition in tests: makes a leader's pushes, and compares replicas."""

from tank_node.log.epoch_history import epoch_at
from tank_node.log.log import PartitionLog
from tank_node.log.pushed import Pushed, append_stretch, last_of
from tank_node.log.pushing import PushReader
from tank_node.log.settings import LogSettings
from tank_node.segment.record import Record
from tank_node.segment.segment import LOG, FileRange
from tests.support.storage.logs import Folder, append


def stretch_of(leader: PartitionLog, start: int, max_bytes: int = 1 << 20, epoch: int = 0) -> Pushed:
    """The stretch that a leader pushes from `start` on; its epoch is the log's newest one unless given."""
    leader_epoch = epoch or (leader.epochs[-1][0] if leader.epochs else 1)
    piece = PushReader(leader).read(start, max_bytes)
    if piece is None:
        return Pushed(start, epoch_at(leader.epochs, start - 1), leader_epoch, b"", b"")
    batches = piece.batches
    if isinstance(batches, FileRange):
        found = batches
        batches = leader.disk.read_at(found.file.fd, found.length, found.position)
        found.file.release()
    return Pushed(start, piece.previous_epoch, leader_epoch, piece.records, batches)


def push(
    leader: PartitionLog, follower: PartitionLog, start: int = 0, max_bytes: int = 1 << 20, keep: int = 0
) -> None:
    """Pushes everything behind the follower's end, or from `start` on, in stretches of so many bytes."""
    start = start or follower.last + 1
    while start <= leader.written:
        pushed = stretch_of(leader, start, max_bytes)
        append_stretch(follower, pushed, keep)
        start = last_of(pushed) + 1


def records_of(log: PartitionLog) -> list[Record]:
    """All records, without their positions."""
    return [record._replace(position=0) for s in log.segments for record in s.index.records()]


def bytes_of(log: PartitionLog) -> bytes:
    """The segments' bytes, joined."""
    parts = []
    for segment in log.segments:
        fd = log.disk.open(segment.path(LOG))
        try:
            parts.append(log.disk.read_at(fd, segment.size_bytes, 0))
        finally:
            log.disk.close(fd)
    return b"".join(parts)


def assert_copies(leader: PartitionLog, follower: PartitionLog) -> None:
    """The same batches and records, but for positions, and the same history."""
    assert records_of(follower) == records_of(leader)
    assert bytes_of(follower) == bytes_of(leader)
    assert follower.epochs == leader.epochs
    for segment in follower.segments:
        positions = [(record.position, record.length) for record in segment.index.records()]
        assert [at for at, _ in positions] == [
            sum(length for _, length in positions[:i]) for i in range(len(positions))
        ], "positions are the follower's own"


def with_memory() -> Folder:
    """Of a leader whose log begins at 9. Messages 1 to 3 of producer 9 and 4 of producer 8 are remembered,
    and none of its records tells of them."""
    folder = Folder(settings=LogSettings(segment_bytes=100, replication_factor=3))
    log = folder.log()
    for sequence in range(3):
        append(log, b"%05d" % sequence * 6, producer=(9, 0, sequence))
    append(log, b"x" * 30, producer=(8, 0, 0))
    for number in range(12):
        append(log, b"%05d" % number * 6)
    log.retain_from(9)
    assert not any(record.producer_id for record in records_of(log))
    return folder
