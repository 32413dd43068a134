"""The memory of idempotent producers: what each wrote last in one partition. Pure.

Rebuilt from a snapshot and the index records behind it, so every replica comes to the same memory. States are
tuples and never changed in place: undoing an append is putting the old tuple back.
"""

from collections.abc import Iterable
from enum import Enum
from struct import Struct, error
from typing import NamedTuple

from fastcrc.crc32 import iscsi as crc32c

from tank_node.log.record import MARKER, Record

REMEMBERED_BATCHES = 5
"""As many as a producer may have in flight (Kafka's limit)."""
FORGOTTEN_AFTER_MS = 7 * 86_400_000
"""A producer that was silent for so long by the log's own append times is forgotten."""
LONGEST_STEP_MS = 86_400_000
"""The time between two appends counts as a day at most: a clock that jumps by more than the seven days, or a
partition that rests for them, makes no producer forgotten that wrote just before."""
MAX_PRODUCERS = 100_000
"""Per partition, about 100 MiB: beyond it the one that was silent longest is forgotten, when it may be."""
ACTIVE_FOR_MS = 60_000
"""A producer that wrote so recently is not forgotten to make room for another one: its next repeat would be
stored twice. Where all are as recent, new ones are refused."""

_WRAP = 2**31
_HEAD = Struct("<8sQI")
_PRODUCER = Struct("<QHQB")
_BATCH = Struct("<IIQI")
_MAGIC = b"TANKPRO1"


class Outcome(Enum):
    """What a log does with a batch of an idempotent producer."""

    APPEND = "append"
    REPEAT = "repeat"
    """Stored before; the verdict has the numbers it got."""
    OLD_REPEAT = "old_repeat"
    """Stored before, so long ago that its numbers are not known any more."""
    GAP = "gap"
    """Batches before this one are missing."""
    STALE_EPOCH = "stale_epoch"
    """A newer incarnation of the producer has written."""
    UNKNOWN = "unknown"
    """Not the first batch of a producer that is not remembered here."""
    TOO_MANY = "too_many"
    """The first batch of a new producer, and all that can be remembered wrote within the last minute."""


class ProducerVerdict(NamedTuple):
    """`first` and `last` are the numbers that a REPEAT got the first time, else 0."""

    outcome: Outcome
    first: int = 0
    last: int = 0


class ProducedBatch(NamedTuple):
    """Numbers are the log's; `sequence` and `messages` count as the producer does (modulo 2^31)."""

    sequence: int
    messages: int
    first: int
    span: int


class ProducerState(NamedTuple):
    """One producer's last batches, oldest first; never empty."""

    epoch: int
    append_ms: int
    batches: tuple[ProducedBatch, ...]


_APPEND = ProducerVerdict(Outcome.APPEND)


def _is_missing(batches: tuple[ProducedBatch, ...], begins: int, ends: int) -> bool:
    """Whether some of these sequences, counted back from the producer's end, is in none of its batches though
    it should be remembered: a crash took it, and what came behind it was kept. That was not acknowledged.

    A short memory that does not begin at 0 may also be that of a replica that was filled anew, below feature
    level 2, behind what retention had taken: there an old repeat is refused, too, because the two look the
    same.
    """
    newest = batches[-1]
    end = newest.sequence + newest.messages
    covered = 0
    for batch in reversed(batches):
        last = (end - batch.sequence - batch.messages) % _WRAP
        if ends < last > covered < begins:  # a hole, and it reaches into that
            return True
        covered = last + batch.messages
    begins_late = len(batches) < REMEMBERED_BATCHES and batches[0].sequence != 0
    return begins_late and begins > covered


def check_snapshot(content: bytes) -> int:
    """Of how many producers a snapshot tells. Raises ValueError where it is torn or something else."""
    body = content[:-4]
    if len(content) < _HEAD.size + 4 or crc32c(body) != int.from_bytes(content[-4:], "little"):
        raise ValueError("the snapshot of the producers does not match its checksum")
    magic, _, count = _HEAD.unpack_from(body, 0)
    if magic != _MAGIC:
        raise ValueError("not a snapshot of producers that this version knows")
    return int(count)


class Producers:
    """The producers of one partition, the longest silent first."""

    __slots__ = ("_states", "last_append_ms")

    def __init__(self) -> None:
        self._states: dict[int, ProducerState] = {}
        self.last_append_ms = 0
        """The newest append time of the whole partition: the clock by which producers are forgotten."""

    def __len__(self) -> int:
        return len(self._states)

    def check(self, producer_id: int, epoch: int, sequence: int, messages: int) -> ProducerVerdict:
        """What to do with a batch; changes nothing."""
        state = self._states.get(producer_id)
        if state is None or self.last_append_ms - state.append_ms > FORGOTTEN_AFTER_MS:
            if sequence:
                return ProducerVerdict(Outcome.UNKNOWN)
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
        """Remembers a batch that was appended; returns the state before it, for `undo`."""
        self.pass_over(append_ms)
        before = self._states.pop(producer_id, None)
        if before is None or self._begins_anew(before, epoch, batch):
            batches: tuple[ProducedBatch, ...] = (batch,)
        else:
            batches = (*before.batches[1 - REMEMBERED_BATCHES :], batch)
        self._states[producer_id] = ProducerState(epoch, append_ms, batches)
        if len(self._states) > MAX_PRODUCERS and self._has_silent():
            del self._states[next(iter(self._states))]
        return before

    def _begins_anew(self, before: ProducerState, epoch: int, batch: ProducedBatch) -> bool:
        """Whether this batch follows none of those before it. A leader may have forgotten them where this
        replica has not: compaction took batches here by which the leader counted time."""
        if before.epoch != epoch or self.last_append_ms - before.append_ms > FORGOTTEN_AFTER_MS:
            return True
        newest = before.batches[-1]
        return batch.sequence == 0 and (newest.sequence + newest.messages) % _WRAP != 0

    def _has_silent(self) -> bool:
        """Whether the longest silent producer may be forgotten for another one."""
        oldest = next(iter(self._states.values()))
        return self.last_append_ms - oldest.append_ms >= ACTIVE_FOR_MS

    def undo(self, producer_id: int, before: ProducerState | None) -> None:
        """Takes back the newest `append` of this producer."""
        self._states.pop(producer_id, None)
        if before is not None:
            self._states[producer_id] = before

    def replay(self, records: Iterable[Record]) -> None:
        """Remembers what index records say, in their order."""
        for record in records:
            self.pass_over(record.append_ms)
            if record.producer_id and not record.flags & MARKER:
                batch = ProducedBatch(record.producer_sequence, record.messages, record.first, record.span)
                self.append(record.producer_id, record.producer_epoch, batch, record.append_ms)

    def pass_over(self, append_ms: int) -> None:
        """Records were appended; the newest at this time.

        A step of more than `LONGEST_STEP_MS` counts as that: what is beyond it moves the producers' own times
        along, so that their ages, and snapshots of them, say what counts.
        """
        step_ms = append_ms - self.last_append_ms
        if step_ms <= 0:
            return
        if step_ms > LONGEST_STEP_MS and self._states:
            beyond_ms = step_ms - LONGEST_STEP_MS
            for producer_id, state in self._states.items():
                self._states[producer_id] = state._replace(append_ms=state.append_ms + beyond_ms)
        self.last_append_ms = append_ms

    def batches(self) -> list[ProducedBatch]:
        """Every batch that is remembered."""
        return [batch for state in self._states.values() for batch in state.batches]

    def snapshot(self) -> bytes:
        """All that is remembered, with a checksum: the content of `<first>.producers`."""
        parts = []
        kept = 0
        for producer_id, state in self._states.items():
            if self.last_append_ms - state.append_ms > FORGOTTEN_AFTER_MS:
                continue
            kept += 1
            parts.append(_PRODUCER.pack(producer_id, state.epoch, state.append_ms, len(state.batches)))
            parts += [_BATCH.pack(b.sequence, b.messages, b.first, b.span) for b in state.batches]
        body = _HEAD.pack(_MAGIC, self.last_append_ms, kept) + b"".join(parts)
        return body + crc32c(body).to_bytes(4, "little")

    @classmethod
    def restore(cls, content: bytes) -> "Producers":
        """What a snapshot holds. Raises ValueError when it is torn, damaged or something else."""
        check_snapshot(content)
        body = content[:-4]
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
        except error as broken:
            raise ValueError("the snapshot of the producers is shorter than it says") from broken
        return producers
