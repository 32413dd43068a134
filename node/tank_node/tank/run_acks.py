"""Answers to a run of produce requests (`ProduceRun`): requests with one bundle each for the same partition,
which have the same result."""

from typing import Protocol

from tank_node.partition.refusal import Refusal
from tank_protos.storage.produce_run import ANSWER_BYTES


class Answerer(Protocol):
    """A session that received requests of the run."""

    def answer_run(self, answers: bytes, refusal: Refusal) -> None:
        """Sends the answers that `ProduceRun.find` made, with this refusal in each."""

    def count_answers(self, requests: int, refusal: Refusal) -> None:
        """Counts this many answers in the metrics, once for all sessions of the run."""


class RunAcks:
    """The completion of a run, which several sessions may share."""

    __slots__ = ("parts",)

    def __init__(self) -> None:
        self.parts: list[tuple[Answerer, bytes]] = []
        """Sessions with their answers, in the order in which the requests came."""

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        answered = 0
        for answerer, answers in self.parts:
            answerer.answer_run(answers, refusal)
            answered += len(answers)
        if self.parts:
            self.parts[0][0].count_answers(answered // ANSWER_BYTES, refusal)
