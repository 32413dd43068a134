"""The producers of one partition that wait for an answer: until their numbers are below the high-water mark,
or their time is over."""

from collections import deque
from typing import Generic, Protocol

from tank_node.metrics import Metrics
from tank_node.partition.waiters import P, Staged, Tick
from tank_protos.error_codes import ErrorCode
from tank_protos.storage.produce_run import ANSWER_BYTES


class Answerer(Protocol):
    """Whoever sent runs of produce requests."""

    def answer_run(self, answers: bytes, error: int) -> None:
        """Sends the answers that `ProduceRun.find` made, with the error in each; 0: as they are."""

    def count_answers(self, requests: int, error: int) -> None:
        """Counts so many answers: once for all that share a tick."""


class RunAcks:
    """Answers the requests of a `ProduceRun`: all get the same result. Many clients may share it."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[tuple[Answerer, bytes]] = []
        """Who is answered with what, in the order in which the requests came."""

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        answered = 0
        for answerer, answers in self.parts:
            answerer.answer_run(answers, error)
            answered += len(answers)
        if self.parts:
            self.parts[0][0].count_answers(answered // ANSWER_BYTES, error)


class PendingAcks(Generic[P]):
    """Invariants: nothing in `staged` outlives the tick; `waiters` is answered from its front, so a repeat
    that stands behind later batches is answered with them."""

    __slots__ = ("_metrics", "_tick", "staged", "waiting")

    def __init__(self, tick: Tick[P], metrics: Metrics) -> None:
        self._tick = tick
        self._metrics = metrics
        self.staged: list[Staged] = []
        """Of this tick: their batches are not written yet."""
        self.waiting: deque[Staged] = deque()
        """Of earlier ticks: written, and above the mark."""

    def batches_waiting(self) -> int:
        """How many of earlier ticks are not answered."""
        return sum(entry[6] for entry in self.waiting)

    def end_tick(self, last: int, mark: int) -> None:
        """The batches of this tick are written, up to `last`: answers what the mark has passed."""
        staged = self.staged
        if staged:
            self.staged = []
            if mark < last:
                self.waiting.extend(staged)
            else:
                for through, first, settler, token, _, _, _ in staged:
                    settler.settle(token, 0, first, through if first else 0)
        if self.waiting:  # repeats, and those who waited for what is behind the mark by now
            self.answer(mark)

    def answer(self, mark: int) -> None:
        """Answers those of earlier ticks whose numbers the mark has passed."""
        waiting = self.waiting
        now_us = self._tick.monotonic_us
        while waiting and waiting[0][0] <= mark:
            through, first, settler, token, began_us, _, batches = waiting.popleft()
            settler.settle(token, 0, first, through if first else 0)
            self._metrics.produce_latency.add((now_us - began_us) / 1_000_000, batches)

    def give_up_late(self, now_ms: int) -> None:
        """Tells producers whose time is over that their data may or may not stay. `now_ms` is monotonic."""
        if any(entry[5] <= now_ms for entry in self.waiting):
            late = [entry for entry in self.waiting if entry[5] <= now_ms]
            self.waiting = deque(entry for entry in self.waiting if entry[5] > now_ms)
            for _, _, settler, token, *_ in late:
                settler.settle(token, ErrorCode.NOT_ACKNOWLEDGED_IN_TIME, 0, 0)

    def drop_staged(self, error: ErrorCode) -> None:
        """The batches of this tick are not stored: tells their producers so."""
        staged, self.staged = self.staged, []
        for _, _, settler, token, *_ in staged:
            settler.settle(token, error, 0, 0)

    def drop_waiting(self, error: ErrorCode) -> None:
        """What was written is not safe and never will be, as far as we know."""
        waiting, self.waiting = self.waiting, deque()
        for _, _, settler, token, *_ in waiting:
            settler.settle(token, error, 0, 0)
