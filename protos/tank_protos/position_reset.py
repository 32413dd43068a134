"""Where a reset puts a consumer group: the present and the next position in each partition. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class PartitionEnds(Protocol):
    """The range of a partition: the smallest number that can be read, and the greatest committed one; both 0
    where no message was ever written."""

    @property
    def first_available(self) -> int: ...
    @property
    def high_water_mark(self) -> int: ...


class To(Enum):
    """The kinds of goals."""

    FIRST = "first"
    END = "end"
    TIME = "time"
    NUMBER = "number"
    BY = "by"


@dataclass(slots=True, frozen=True)
class Goal:
    """Where to set positions. `value`: milliseconds of the epoch, the number, or by how many messages;
    negative: back."""

    to: To
    value: int = 0


class NoPositionError(ValueError):
    """A goal counts from positions, and these partitions have none."""

    def __init__(self, without: list[tuple[str, int]]) -> None:
        topic, partition = without[0]
        more = f" (and {len(without) - 1} more)" if len(without) > 1 else ""
        super().__init__(f"the group has no position in {topic}/{partition}{more} to count from")


@dataclass(slots=True, frozen=True)
class PositionChange:
    """The change of one position. `before`: None where nothing was committed. `wanted`: what was asked for,
    which may lie outside of `first` to `end`, the numbers that a position can have.
    """

    topic: str
    partition: int
    before: int | None
    wanted: int
    first: int
    end: int

    @property
    def after(self) -> int:
        """The new position."""
        return max(self.first, min(self.wanted, self.end))

    @property
    def messages(self) -> int | None:
        """How many messages are skipped; negative: read again; None: unknown, as nothing was committed."""
        if self.before is None:
            return None
        return self.after - max(self.first, min(self.before, self.end))

    def json(self) -> dict[str, str | int | None]:
        """The change for programs."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "before": self.before,
            "after": self.after,
            "messages": self.messages,
        }


def changes(
    goal: Goal,
    partitions: Iterable[tuple[str, int]],
    positions: Mapping[tuple[str, int], int],
    ends: Mapping[tuple[str, int], PartitionEnds],
    times: Mapping[tuple[str, int], int],
) -> list[PositionChange]:
    """The changes by topic and partition. `times`: for a goal of this kind, the number of the first message
    from its time on. Raises NoPositionError."""
    chosen = sorted(partitions)
    if goal.to is To.BY and (without := [each for each in chosen if each not in positions]):
        raise NoPositionError(without)
    found = []
    for each in chosen:
        reach, before = ends[each], positions.get(each)
        first, end = max(reach.first_available, 1), reach.high_water_mark + 1
        wanted = {
            To.FIRST: first,
            To.END: end,
            To.TIME: times.get(each, end),
            To.NUMBER: goal.value,
            To.BY: max(before or 0, first) + goal.value,
        }[goal.to]
        found.append(PositionChange(*each, before, wanted, first, end))
    return found
