"""The idempotent producers of one partition: the last batches of each. Pure.

The table is rebuilt from a snapshot and the index records behind it, so all replicas have the same. A state
is an immutable tuple: an append is undone by putting the old tuple back.
"""

from collections.abc import Iterable, Sequence
from enum import Enum
from struct import Struct, error
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_node.segment.record import MARKER, Record

REMEMBERED_BATCHES = 5
"""The remembered batches of a producer: as many as it may have in flight (Kafka's limit)."""
FORGOTTEN_AFTER_MS = 7 * 86_400_000
"""A producer without a batch for this long, by the log's append times, is forgotten."""
LONGEST_STEP_MS = 86_400_000
"""The most that the time between two appends counts. So no producer is forgotten because the clock jumped, or
the partition had no appends for a week."""
MAX_PRODUCERS = 100_000
"""The most producers of one partition, about 100 MiB. Beyond it the longest silent one is forgotten, unless
it is active."""
ACTIVE_FOR_MS = 60_000
"""A producer that wrote within this time is active, and not forgotten for a new one: a repeat of its last
batch would be stored twice. When all are active, new producers are refused."""

_WRAP = 2**31
_HEAD = Struct("<8sQI")
_PRODUCER = Struct("<QHQB")
_BATCH = Struct("<IIQI")
_MAGIC = b"TANKPRO1"
_FORGOTTEN = b"\1"
"""Stands behind the producers of a snapshot if others were forgotten. Readers that don't know it skip it."""
_CHECKSUM_BYTES = 4


class Outcome(Enum):
    """What a log does with a batch of an idempotent producer."""

    APPEND = "append"
    REPEAT = "repeat"
    """The batch was stored before; the verdict has its numbers."""
    OLD_REPEAT = "old_repeat"
    """The batch was stored before, but its numbers are no longer remembered."""
    GAP = "gap"
    """Batches of the producer before this one are missing."""
    STALE_EPOCH = "stale_epoch"
    """A later process of the producer has written."""
    UNKNOWN = "unknown"
    """The producer has stored nothing here, and this is not its first batch."""
    FORGOTTEN = "forgotten"
    """The producer is not remembered, and this is not its first batch. It may have stored batches: the table
    has forgotten producers."""
    TOO_MANY = "too_many"
    """The producer is new, and the table is full of active producers."""


class ProducerVerdict(NamedTuple):
    """The decision about a batch. first, last: the numbers of a REPEAT's stored batch, otherwise 0."""

    outcome: Outcome
    first: int = 0
    last: int = 0


class ProducedBatch(NamedTuple):
    """A stored batch of a producer. `first` and `span` are the log's numbers; `sequence` counts the
    producer's messages, modulo 2^31."""

    sequence: int
    messages: int
    first: int
    span: int


class ProducerState(NamedTuple):
    """A producer's epoch and last batches, the oldest first; never without a batch."""

    epoch: int
    append_ms: int
    batches: tuple[ProducedBatch, ...]


class RememberedProducer(NamedTuple):
    """A producer, as administrators see it."""

    producer_id: int
    epoch: int
    last_sequence: int
    """The sequence number of its last message."""
    append_ms: int
    """The append time of its last batch."""


_APPEND = ProducerVerdict(Outcome.APPEND)


def _is_missing(batches: tuple[ProducedBatch, ...], begins: int, ends: int) -> bool:
    """Whether a sequence number from `begins` to `ends`, counted back from the producer's end, is in no
    remembered batch though it should be. A crash lost that batch and kept later ones; it was not
    acknowledged.
    """
    newest = batches[-1]
    end = newest.sequence + newest.messages
    covered = 0
    for batch in reversed(batches):
        last = (end - batch.sequence - batch.messages) % _WRAP
        if ends < last > covered < begins:  # numbers between two batches are missing, some of the range
            return True
        covered = last + batch.messages
    begins_late = len(batches) < REMEMBERED_BATCHES and batches[0].sequence != 0
    return begins_late and begins > covered


def check_snapshot(content: bytes) -> bool:
    """Checks a snapshot, and returns whether it says anything: one of no producers, of which none was
    forgotten, doesn't. Raises ValueError when it is torn or of another format."""
    body = content[:-_CHECKSUM_BYTES]
    checksum = content[-_CHECKSUM_BYTES:]
    if len(body) < _HEAD.size or crc32c(body) != int.from_bytes(checksum, "little"):
        raise ValueError("the snapshot of the producers does not match its checksum")
    magic, _, _ = _HEAD.unpack_from(body, 0)
    if magic != _MAGIC:
        raise ValueError("the snapshot of the producers has a format that this version doesn't know")
    return len(body) > _HEAD.size


class Producers:
    """The producers of one partition, the longest silent first."""

    __slots__ = ("_states", "has_forgotten", "last_append_ms")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.has_forgotten = False
        """Whether a producer was ever removed from the table, or may have been: a producer that is not in it
        may have stored batches."""
        self.last_append_ms = 0
        """The newest append time in the partition: the clock by which producers are forgotten."""

    def __len__(self) -> int:
        return len(self._states)

    @property
    def is_empty(self) -> bool:
        """Whether the table says nothing that a new one doesn't."""
        return not self._states and not self.has_forgotten

    def check(self, producer_id: int, epoch: int, sequence: int, messages: int) -> ProducerVerdict:
        """Decides what to do with a batch; changes nothing."""
        state = self._states.get(producer_id)
        if state is None or self.last_append_ms - state.append_ms > FORGOTTEN_AFTER_MS:
            if sequence:
                is_new = state is None and not self.has_forgotten
                return ProducerVerdict(Outcome.UNKNOWN if is_new else Outcome.FORGOTTEN)
            full = state is None and len(self._states) >= MAX_PRODUCERS and not self._has_silent()
            return ProducerVerdict(Outcome.TOO_MANY) if full else _APPEND
        if epoch != state.epoch:
            if epoch < state.epoch:
                return ProducerVerdict(Outcome.STALE_EPOCH)
            return _APPEND if sequence == 0 else ProducerVerdict(Outcome.GAP)
        newest = state.batches[-1]
        expected = (newest.sequence + newest.messages) % _WRAP
        if sequence == expected:
            return _APPEND
        for batch in reversed(state.batches):
            if batch.sequence == sequence and batch.messages == messages:
                return ProducerVerdict(Outcome.REPEAT, batch.first, batch.first + batch.span)
        behind = (expected - (sequence + messages)) % _WRAP
        stored = behind < _WRAP // 2 and not _is_missing(state.batches, (expected - sequence) % _WRAP, behind)
        return ProducerVerdict(Outcome.OLD_REPEAT if stored else Outcome.GAP)

    def append(
        self, producer_id: int, epoch: int, batch: ProducedBatch, append_ms: int
    ) -> ProducerState | None:
        """Remembers an appended batch. Returns the producer's state before, for `undo`."""
        return self.append_run(producer_id, epoch, (batch,), append_ms)

    def append_run(
        self, producer_id: int, epoch: int, run: Sequence[ProducedBatch], append_ms: int
    ) -> ProducerState | None:
        """Remembers appended batches, at least one, whose sequence numbers follow one another. Returns the
        producer's state before, for `undo`."""
        self.pass_over(append_ms)
        before = self._states.pop(producer_id, None)
        batches = tuple(run[-REMEMBERED_BATCHES:])
        if before is not None and not self._begins_anew(before, epoch, run[0]):
            batches = (*before.batches, *batches)[-REMEMBERED_BATCHES:]
        self._states[producer_id] = ProducerState(epoch, append_ms, batches)
        if len(self._states) > MAX_PRODUCERS and self._has_silent():
            del self._states[next(iter(self._states))]
            self.has_forgotten = True
        return before

    def _begins_anew(self, before: ProducerState, epoch: int, batch: ProducedBatch) -> bool:
        """Whether the producer's earlier batches must be forgotten with this one. A leader may have forgotten
        them earlier than this replica: compaction removed batches here whose append times the leader
        counted."""
        if before.epoch != epoch or self.last_append_ms - before.append_ms > FORGOTTEN_AFTER_MS:
            return True
        newest = before.batches[-1]
        return batch.sequence == 0 and (newest.sequence + newest.messages) % _WRAP != 0

    def _has_silent(self) -> bool:
        """Whether the longest silent producer may be forgotten for a new one."""
        oldest = next(iter(self._states.values()))
        return self.last_append_ms - oldest.append_ms >= ACTIVE_FOR_MS

    def undo(self, producer_id: int, before: ProducerState | None) -> None:
        """Undoes the newest `append` of this producer."""
        self._states.pop(producer_id, None)
        if before is not None:
            self._states[producer_id] = before

    def replay(self, records: Iterable[Record]) -> None:
        """Remembers the batches of index records, in order."""
        for record in records:
            self.pass_over(record.append_ms)
            if record.producer_id and not record.flags & MARKER:
                batch = ProducedBatch(record.producer_sequence, record.messages, record.first, record.span)
                self.append(record.producer_id, record.producer_epoch, batch, record.append_ms)

    def pass_over(self, append_ms: int) -> None:
        """Advances the clock of the table to the append time of a new batch.

        A step counts as LONGEST_STEP_MS at most: the excess is added to the producers' own times, so that
        their ages, also in snapshots, don't contain it.
        """
        step_ms = append_ms - self.last_append_ms
        if step_ms <= 0:
            return
        if step_ms > LONGEST_STEP_MS and self._states:
            beyond_ms = step_ms - LONGEST_STEP_MS
            for producer_id, state in self._states.items():
                self._states[producer_id] = state._replace(append_ms=state.append_ms + beyond_ms)
        self.last_append_ms = append_ms

    def remembered(self) -> list[RememberedProducer]:
        """All producers that are not forgotten, the longest silent first."""
        found = []
        for producer_id, state in self._states.items():
            if self.last_append_ms - state.append_ms <= FORGOTTEN_AFTER_MS:
                newest = state.batches[-1]
                last = (newest.sequence + newest.messages - 1) % _WRAP
                found.append(RememberedProducer(producer_id, state.epoch, last, state.append_ms))
        return found

    def batches(self) -> list[ProducedBatch]:
        """All remembered batches."""
        return [batch for state in self._states.values() for batch in state.batches]

    def snapshot(self) -> bytes:
        """Encodes the table with a checksum: the content of a file `<base>.producers`."""
        parts = []
        kept = 0
        for producer_id, state in self._states.items():
            if self.last_append_ms - state.append_ms > FORGOTTEN_AFTER_MS:
                continue
            kept += 1
            parts.append(_PRODUCER.pack(producer_id, state.epoch, state.append_ms, len(state.batches)))
            parts += [_BATCH.pack(b.sequence, b.messages, b.first, b.span) for b in state.batches]
        if self.has_forgotten or kept < len(self._states):
            parts.append(_FORGOTTEN)
        body = _HEAD.pack(_MAGIC, self.last_append_ms, kept) + b"".join(parts)
        return body + crc32c(body).to_bytes(_CHECKSUM_BYTES, "little")

    @classmethod
    def restore(cls, content: bytes) -> "Producers":
        """Decodes a snapshot. Raises ValueError when it is torn, damaged or of another format."""
        check_snapshot(content)
        body = content[:-_CHECKSUM_BYTES]
        try:
            _, last_append_ms, count = _HEAD.unpack_from(body, 0)
            producers = cls()
            producers.last_append_ms = last_append_ms
            at = _HEAD.size
            for _ in range(count):
                producer_id, epoch, append_ms, batches = _PRODUCER.unpack_from(body, at)
                at += _PRODUCER.size
                stored = [
                    ProducedBatch(*_BATCH.unpack_from(body, at + i * _BATCH.size)) for i in range(batches)
                ]
                at += batches * _BATCH.size
                producers._states[producer_id] = ProducerState(epoch, append_ms, tuple(stored))
            producers.has_forgotten = body[at:] == _FORGOTTEN
        except error as broken:
            raise ValueError("the snapshot of the producers is shorter than it says") from broken
        return producers
