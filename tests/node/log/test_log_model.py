"""A log against a dumb model: append, read, roll, truncate, retention, compaction, restarts, in any order."""

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.log.producers import REMEMBERED_BATCHES, Outcome
from tank_node.log.settings import LogSettings
from tests.support.examples import examples
from tests.support.storage.logs import Folder, append, append_sparse, read_all, read_chunk

KEYS = st.sampled_from([None, b"a", b"b", b"c"])
MESSAGE = st.tuples(KEYS, st.binary(max_size=30))
BATCH = st.lists(MESSAGE, min_size=1, max_size=5)


class LogAgainstModel(RuleBasedStateMachine):
    """The model is a dictionary: number -> (key, value), and the batches' first numbers."""

    @initialize(segment_bytes=st.sampled_from([60, 200, 1000]), retention=st.sampled_from([0, 2, 4]))
    def begin(self, segment_bytes: int, retention: int) -> None:
        self.folder = Folder(
            settings=LogSettings(
                segment_bytes=segment_bytes, retention_segments=retention, min_cleanable_ratio=0.0
            )
        )
        self.log = self.folder.log()
        self.stored: dict[int, tuple[bytes | None, bytes]] = {}
        self.batches: list[tuple[int, int]] = []
        self.last = 0
        self.sequence = 0
        self.sequences: dict[int, int] = {}
        self.mark = 0  # the high-water mark: nothing at or below it is ever truncated

    def _appended(self, numbers: list[int], messages: list[tuple[bytes | None, bytes]]) -> None:
        self.stored |= dict(zip(numbers, messages, strict=True))
        self.batches.append((numbers[0], numbers[-1]))
        self.last = numbers[-1]

    @rule(messages=BATCH, write=st.booleans(), idempotent=st.booleans())
    def append(self, messages: list[tuple[bytes | None, bytes]], write: bool, idempotent: bool) -> None:
        producer = (5, 0, self.sequence) if idempotent else (0, 0, 0)
        first, last = append(
            self.log,
            *[value for _, value in messages],
            keys=[key for key, _ in messages],
            producer=producer,
            write=write,
        )
        assert (first, last) == (self.last + 1, self.last + len(messages))
        if idempotent:
            self.sequences = {self.sequence: first}
            self.sequence += len(messages)
        self._appended(list(range(first, last + 1)), messages)

    @rule(gaps=st.lists(st.integers(1, 5), min_size=1, max_size=4), value=st.binary(max_size=20))
    def append_own_numbers(self, gaps: list[int], value: bytes) -> None:
        numbers = [self.last + sum(gaps[: i + 1]) for i in range(len(gaps))]
        append_sparse(self.log, numbers, *[value] * len(numbers))
        self._appended(numbers, [(None, value)] * len(numbers))

    @rule()
    def write(self) -> None:
        self.log.tail.write()

    @rule()
    def fsync(self) -> None:
        self.log.flush()

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def checkpoint(self) -> None:
        self.folder.data.write_checkpoint()

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        self.log.tail.write()
        to = data.draw(st.integers(max(self.last - 8, self.mark), self.last))
        self.log.truncate_to(to)
        while self.batches and self.batches[-1][1] > to:
            first, _ = self.batches.pop()
            self.stored = {n: m for n, m in self.stored.items() if n < first}
        before = self.last
        self.last = self.log.last
        assert self.last <= to or self.last == before
        assert not self.batches or self.last >= self.batches[-1][1]
        if self.last < before:
            self.sequence, self.sequences = 10**6 * (1 + self.sequence // 10**6), {}

    @rule()
    def retain(self) -> None:
        self.log.tail.write()
        maintain(self.log, 1000, self.last)
        self.mark = self.last
        self._forget_below(self.log.first_available)

    def _forget_below(self, first: int) -> None:
        self.stored = {n: m for n, m in self.stored.items() if n >= first}
        self.batches = [b for b in self.batches if b[0] >= first]

    @rule()
    def compact(self) -> None:
        self.log.flush()
        self.log.apply_settings(
            LogSettings(segment_bytes=self.log.settings.segment_bytes, compact=True, min_cleanable_ratio=0.0)
        )
        compacted_before = self.log.segments.compacted_through
        sealed_before = self.log.segments[-1].base if self.log.segments else 0
        # What is known behind the round's last number stays, for replicas that copy the log.
        batches = self.log.producers.restore(sealed_before).batches()
        remembered = {n for batch in batches for n in range(batch.first, batch.first + batch.span + 1)}
        maintain(self.log, 1000, self.last)
        self.mark = self.last
        self.log.apply_settings(self.folder.settings)
        if not compacted_before < self.log.segments.compacted_through == sealed_before - 1:
            return  # there was no round, or not of all that is sealed
        newest = {key: n for n, (key, _) in sorted(self.stored.items()) if key and n < sealed_before}
        kept = {
            n: (key, value)
            for n, (key, value) in self.stored.items()
            if n >= sealed_before or n in remembered or (newest[key] == n if key else value)
        }
        held = [b for b in self.batches if b[1] < sealed_before and self._messages(b)]
        if held and kept.keys().isdisjoint(self._messages(held[-1])):  # the log's end stays a batch's
            kept |= self._messages(held[-1])
        self.stored = dict(sorted(kept.items()))

    def _messages(self, batch: tuple[int, int]) -> dict[int, tuple[bytes | None, bytes]]:
        """What there is of one."""
        return {n: m for n, m in self.stored.items() if batch[0] <= n <= batch[1]}

    @rule(how=st.sampled_from(["kill", "reopen"]))
    def restart(self, how: str) -> None:
        if how == "kill":
            self.log.tail.write()
            self.log = self.folder.kill()
        else:
            self.log = self.folder.reopen()
        assert self.log.last == self.log.synced == self.last

    @precondition(lambda self: self.sequences)
    @rule()
    def repeat(self) -> None:
        for sequence, first in self.sequences.items():
            verdict = self.log.tail.check_producer(5, 0, sequence, self.sequence - sequence)
            assert (verdict.outcome, verdict.first) == (Outcome.REPEAT, first)
        assert self.log.tail.check_producer(5, 0, self.sequence, 3).outcome is Outcome.APPEND

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), max_bytes=st.integers(1, 400))
    def read_somewhere(self, data: st.DataObject, max_bytes: int) -> None:
        self.log.tail.write()
        number = data.draw(st.integers(self.log.first_available, self.last))
        through = data.draw(st.integers(number, self.last))
        chunk = read_chunk(self.log, number, max_bytes, through)
        wanted = {n: value for n, (_, value) in self.stored.items() if n >= number}
        if chunk is None:
            assert not any(
                first <= through and self._held(max(first, number), last) for first, last in self.batches
            )
            return
        read = {n: value for n, value in chunk.messages().items() if n >= number}
        assert read == {n: v for n, v in wanted.items() if n <= chunk.last}

    def _held(self, first: int, last: int) -> bool:
        return any(first <= n <= last for n in self.stored)

    @invariant()
    def nothing_is_missing_or_wrong(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.state is LogState.ACTIVE
        assert log.synced <= log.written <= log.last == self.last
        written = {n: value for n, (_, value) in self.stored.items() if n <= log.written}
        assert read_all(log, max_bytes=150) == written
        assert log.size_bytes == sum(segment.size_bytes for segment in log.segments)


LogAgainstModel.TestCase.settings = settings(
    examples(60), stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestLogAgainstModel = LogAgainstModel.TestCase


def test_what_producers_memory_has_left_behind_goes_when_something_more_is_sealed() -> None:
    """Found by the machine above, which took each call for a round: without anything new there is none."""
    state = LogAgainstModel()
    state.begin(segment_bytes=1000, retention=0)
    state.append([(None, b"")], write=True, idempotent=True)
    state.append([(None, b"x")], write=True, idempotent=False)
    state.roll()
    state.compact()
    for _ in range(REMEMBERED_BATCHES):
        state.append([(None, b"")], write=False, idempotent=True)
    state.compact()
    assert 1 in state.stored
    state.nothing_is_missing_or_wrong()
    state.roll()
    state.compact()
    assert 1 not in state.stored
    state.nothing_is_missing_or_wrong()
