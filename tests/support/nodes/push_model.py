"""Logs as lists, to try the leader's pure parts against followers that keep every rule."""

from tank_node.log.epoch_history import History, epoch_at, last_common
from tank_node.log.pushing import Piece
from tank_node.replication.in_sync import InSync
from tank_node.replication.progress import Progress
from tank_node.replication.push_frame import Part
from tank_node.replication.stream import ReplicationStream
from tank_node.segment.errors import DiskFailed
from tank_node.segment.record import Record
from tank_protos.error_codes import PushError
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceWithBaseSeqNumRequest,
    PushAnswer,
    PushedPartition,
)
from tank_protos.storage import stretch as stretches
from tank_protos.storage.index_record import RECORD, RECORD_BYTES
from tank_protos.wire.framing import HEADER_BYTES

TOPIC_ID = 7


def history_of(log: list[int]) -> list[tuple[int, int]]:
    """A log is the epoch of each of its numbers."""
    return [(epoch, log.index(epoch) + 1) for epoch in sorted(set(log))]


def record(number: int, epoch: int) -> bytes:
    return Record(number, 0, 0, 1, 0, 0, 0, 0, 0, epoch, 0, 0, 0, 1).pack()


class ModelLeader:
    """A partition in memory. Its batches are one byte each."""

    __slots__ = (
        "_start", "batch_bytes", "epoch", "in_sync", "log", "marks", "places", "read_ones", "steps_down",
    )  # fmt: skip

    def __init__(self, log: list[int], epoch: int, followers: tuple[int, ...], mark: int = 0) -> None:
        self.log = log
        self.epoch = epoch
        self._start = 1
        self.in_sync = InSync(0, len(log), mark, flush_disk=False)
        self.in_sync.view(1, (0, *followers), (0, *followers), 1)
        self.in_sync.appended(0, len(log), 3000)
        self.places: dict[int, tuple[ReplicationStream, Progress]] = {}
        self.marks = [mark]
        self.batch_bytes = 1
        self.steps_down = False
        """At the next read or match: its disk has failed."""
        self.read_ones: list[int] = []

    topic_id = property(lambda self: TOPIC_ID)
    topic_name = property(lambda self: b"topic")
    number = property(lambda self: 0)
    leader_epoch = property(lambda self: self.epoch)
    log_end = property(lambda self: len(self.log))
    mark = property(lambda self: self.in_sync.mark)

    log_start = property(lambda self: self._start)

    def has_start(self, follower: int, log_start: int) -> None:
        self.in_sync.has_start(follower, log_start)

    def ends(self) -> tuple[int, int, int, int]:
        return self._start, self._start, len(self.log), self.in_sync.mark

    @property
    def history(self) -> History:
        return history_of(self.log)

    def drop_before(self, start: int) -> None:
        self._start = start

    def read(self, start: int, max_bytes: int) -> Piece | None:
        if start > len(self.log):
            return None
        if self.steps_down:
            self._step_down()
            raise DiskFailed("a bad disk")
        last = min(len(self.log), start + 2)
        self.read_ones.append(start)
        numbers = range(start, last + 1)
        records = b"".join(record(number, self.log[number - 1]) for number in numbers)
        previous = epoch_at(self.history, start - 1)
        batches = bytes(self.batch_bytes * len(numbers))
        return Piece(records, batches, len(batches), last, previous)

    def producers_before(self, number: int) -> bytes:
        return b"before %d" % number

    def bytes_behind(self, number: int) -> int:
        return (len(self.log) - number) * self.batch_bytes

    def is_member(self, follower: int) -> bool:
        return follower in self.in_sync.members

    def counts_on(self, follower: int) -> bool:
        return self.in_sync.counts_on(follower)

    def matched(self, follower: int, matched: int, synced: int) -> None:
        self.in_sync.matched(follower, matched, synced)
        self.advance()
        if self.steps_down:
            self._step_down()

    def _step_down(self) -> None:
        for line, place in self.places.values():
            line.remove(place)

    def refused(self, follower: int, error: PushError, before: int) -> None:
        self.in_sync.unmatched(follower)
        if self.steps_down:
            self._step_down()

    def append(self, now_ms: int = 0) -> None:
        self.log.append(self.epoch)
        self.in_sync.appended(now_ms, len(self.log), 3000)
        for line, place in self.places.values():
            line.appended(place)
        self.advance()

    def advance(self) -> None:
        if self.in_sync.advance() != self.marks[-1]:
            self.marks.append(self.in_sync.mark)
            for line, place in self.places.values():
                line.marked(place)

    def connect(self, line: ReplicationStream) -> None:
        self.in_sync.connected(line.follower, 1)
        self.places[line.follower] = line, line.add(self, self.log_end)

    def disconnect(self, follower: int) -> None:
        line, _ = self.places.pop(follower)
        line.close()
        self.in_sync.disconnected(follower)


class ModelFollower:
    """Takes pushes as section 5 of the design says."""

    def __init__(self, log: list[int], mark: int = 0, *, by_the_letter: bool = False) -> None:
        self.log = log
        self.mark = mark
        self.failures = 0
        """So many of the next stretches are refused by its disk."""
        self.by_the_letter = by_the_letter
        """It answers where its log ends, whatever it was asked."""

    def take(self, frame: list[Part]) -> PushAnswer:
        answers = [self._take(entry.base_seq_num, content) for entry, content in entries(frame)]
        return PushAnswer(decoded(frame).request_id, 0, answers)

    def _take(self, start: int, content: stretches.Stretch) -> PushedPartition:
        history = history_of(self.log)
        if self.failures:
            self.failures -= 1
            return PushedPartition(TOPIC_ID, 0, PushError.STORAGE, 0, 0, len(self.log), 0)
        if start - 1 > len(self.log) or epoch_at(history, start - 1) != content.previous_epoch:
            if start != content.log_start:
                asked = (2**63, 2**31) if self.by_the_letter else (start - 1, content.previous_epoch)
                return PushedPartition(
                    TOPIC_ID, 0, PushError.DISAGREES, 0, 0, *last_common(history, len(self.log), *asked)
                )
            # The leader has nothing older: what it had is committed, and stands for it here.
            self.log = [content.previous_epoch] * (start - 1)
        last = start - 1
        records = bytes(content.records)
        for at in range(0, len(records), RECORD_BYTES):
            number = int.from_bytes(records[at : at + 8], "little")
            epoch = Record._make(_unpack(records, at)).leader_epoch
            if number <= len(self.log) and self.log[number - 1] != epoch:
                assert number > self.mark, "what is committed was to be cut"
                del self.log[number - 1 :]
            if number > len(self.log):
                self.log.append(epoch)
            last = number
        self.mark = max(self.mark, min(content.high_water_mark, last))
        return PushedPartition(TOPIC_ID, 0, 0, last, last, len(self.log), self.log[-1] if self.log else 0)


def _unpack(records: bytes, at: int) -> tuple[int, ...]:

    return RECORD.unpack_from(records, at)


def line_to(
    follower: int,
    *,
    now_ms: int = 0,
    bytes_per_s: int = 0,
    far_bytes: int = 1 << 20,
    short_pushes: int = 1 << 20,
    version: int = stretches.PUSH_VERSION,
) -> ReplicationStream:
    return ReplicationStream(
        follower,
        now_ms=now_ms,
        window_bytes=4096,
        far_bytes=far_bytes,
        heartbeat_ms=500,
        bytes_per_s=bytes_per_s,
        short_pushes=short_pushes,
        version=version,
    )


class NamedLeader(ModelLeader):
    """One of many partitions."""

    def __init__(self, number: int, topic: bytes = b"t") -> None:
        super().__init__([1], 2, (1,))
        self._number = number
        self._topic = topic

    number = property(lambda self: self._number)
    topic_name = property(lambda self: self._topic)


def taken(frame: list[Part]) -> PushAnswer:
    """What a follower says that takes everything."""
    told = []
    for entry, content in entries(frame):
        last = entry.base_seq_num - 1 + len(content.records) // 64
        told.append(PushedPartition(content.topic_id, entry.partition, 0, last, last, last, 2))
    return PushAnswer(decoded(frame).request_id, 0, told)


def decoded(frame: list[Part]) -> ProduceWithBaseSeqNumRequest:
    payload = b"".join(bytes(part) for part in frame if isinstance(part, bytes))
    assert int.from_bytes(payload[1:HEADER_BYTES], "little") == len(payload) - HEADER_BYTES
    return ProduceWithBaseSeqNumRequest.decode(payload[HEADER_BYTES:])


def entries(frame: list[Part]) -> list[tuple[ProduceBasePartition, stretches.Stretch]]:
    return [
        (entry, stretches.decode(memoryview(entry.bundle)))
        for topic in decoded(frame).topics
        for entry in topic.partitions
    ]
