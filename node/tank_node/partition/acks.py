"""The appends of one partition that are not answered: they wait until the high-water mark passes them, or
until this leader has written them, or their timeout ends."""

from collections import deque
from typing import Final, Generic

from tank_node.metrics import Metrics
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import P, Staged, Tick

_NONE: Final = Refusal.NONE


class PendingAcks(Generic[P]):
    """The unanswered appends of a partition.

    Invariants: `staged` is empty after each tick. `waiting` and `written` are answered in their order, so a
    repeat that was queued behind later batches is answered with them.
    """

    __slots__ = ("_metrics", "_tick", "staged", "waiting", "written")

    def __init__(self, tick: Tick[P], metrics: Metrics) -> None:
        self._tick = tick
        self._metrics = metrics
        self.staged: list[Staged] = []
        """Appends of this tick."""
        self.waiting: deque[Staged] = deque()
        """Appends of earlier ticks: written, and above the mark."""
        self.written: deque[Staged] = deque()
        """Appends that wait for this leader's own flush alone, those of this tick included."""

    @property
    def is_empty(self) -> bool:
        """Whether no append of an earlier tick waits."""
        return not (self.waiting or self.written)

    def batches_waiting(self) -> int:
        """Number of batches in `waiting` and `written`."""
        return sum(entry[6] for entry in self.waiting) + sum(entry[6] for entry in self.written)

    def end_tick(self, last: int, mark: int) -> None:
        """Answers the appends that the mark has passed; the others of this tick, written up to `last`,
        wait."""
        staged = self.staged
        if staged:
            self.staged = []
            if mark < last:
                self.waiting.extend(staged)
            else:
                answered = 0
                for through, first, completion, token, _, _, batches in staged:
                    completion.complete(token, _NONE, first, through if first else 0)
                    answered += batches
                self._metrics.acknowledged_now += answered
        if self.waiting:  # repeats, and appends of earlier ticks
            self.answer(mark)

    def answer(self, mark: int) -> None:
        """Answers the waiting appends that the mark has passed."""
        waiting = self.waiting
        now_us = self._tick.monotonic_us
        while waiting and waiting[0][0] <= mark:
            through, first, completion, token, began_us, _, batches = waiting.popleft()
            completion.complete(token, _NONE, first, through if first else 0)
            self._metrics.produce_latency.add((now_us - began_us) / 1_000_000, batches)

    def answer_written(self, end: int) -> None:
        """Answers the appends that wait for this leader alone, which has flushed up to `end`."""
        written = self.written
        now_us = self._tick.monotonic_us
        while written and written[0][0] <= end:
            through, first, completion, token, began_us, _, batches = written.popleft()
            completion.complete(token, _NONE, first, through if first else 0)
            if began_us == now_us:
                self._metrics.acknowledged_now += batches
            else:
                self._metrics.produce_latency.add((now_us - began_us) / 1_000_000, batches)

    def give_up_late(self, now_ms: int) -> None:
        """Answers waiting appends whose deadline has passed: their messages may or may not be committed.
        now_ms: monotonic."""
        for queue in (self.waiting, self.written):
            if any(entry[5] <= now_ms for entry in queue):
                late = [entry for entry in queue if entry[5] <= now_ms]
                kept = [entry for entry in queue if entry[5] > now_ms]
                queue.clear()
                queue.extend(kept)
                _complete(late, Refusal.NOT_ACKNOWLEDGED_IN_TIME)

    def drop_staged(self, error: Refusal, end: int) -> None:
        """Answers the appends of this tick with an error. end: the log's written end, behind which they
        were."""
        staged, self.staged = self.staged, []
        if self.written:
            kept = [entry for entry in self.written if entry[0] <= end]
            staged += [entry for entry in self.written if entry[0] > end]
            self.written.clear()
            self.written.extend(kept)
        _complete(staged, error)

    def drop_waiting(self, error: Refusal) -> None:
        """Answers all waiting appends with an error: this node can't commit them."""
        dropped = [*self.waiting, *self.written]
        self.waiting.clear()
        self.written.clear()
        _complete(dropped, error)


def _complete(entries: list[Staged], error: Refusal) -> None:
    for _, _, completion, token, *_ in entries:
        completion.complete(token, error, 0, 0)
