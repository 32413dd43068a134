"""How long writes waited while something was done to the cluster. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from tests.chaos.record import Fate, History

Wait = tuple[int, int, str]
"""When the values of one call left, and when they were acknowledged, in milliseconds since 1970; and which
producer wrote to which partition."""
NAMED = 3
"""The longest waits of a step, named so that one that is far longer than the others can be looked into."""


@dataclass(slots=True, frozen=True)
class Step:
    """Something that was done to the cluster under load."""

    name: str
    began_ms: int
    ended_ms: int


@dataclass(slots=True, frozen=True)
class Figures:
    """The latencies of a step's writes, in milliseconds."""

    writes: int
    median_ms: int
    p99_ms: int
    longest_ms: int
    """The longest wait of a write: writers wrote all the time."""
    longest: tuple[str, ...]
    """Whose waits were the longest, where, and when in the step they began."""

    def __str__(self) -> str:
        return (
            f"{self.writes:,} writes, median {self.median_ms} ms, p99 {self.p99_ms} ms, "
            f"longest {self.longest_ms} ms ({'; '.join(self.longest)})"
        )


def waits(history: History) -> list[Wait]:
    """Of each call of an idempotent producer that was acknowledged, in the order of leaving."""
    calls = {
        (sent.sent_ms, sent.told_ms, sent.writer, sent.place)
        for sent in history.sent.values()
        if sent.once and sent.fate is Fate.STORED
    }
    return [
        (sent_ms, told_ms, f"{writer} to {topic}-{partition}")
        for sent_ms, told_ms, writer, (topic, partition) in sorted(calls)
    ]


def figures(all_waits: Iterable[Wait], step: Step) -> Figures | None:
    """Of the writes that were under way in the step; None: there were none."""
    took = sorted(
        (told_ms - sent_ms, sent_ms - step.began_ms, whose)
        for sent_ms, told_ms, whose in all_waits
        if told_ms >= step.began_ms and sent_ms <= step.ended_ms
    )
    if not took:
        return None
    longest = tuple(
        f"{waited} ms by {whose} from {at} ms on" for waited, at, whose in took[: -NAMED - 1 : -1]
    )
    return Figures(len(took), took[len(took) // 2][0], took[len(took) * 99 // 100][0], took[-1][0], longest)
