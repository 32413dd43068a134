"""The leader epoch of each number of a log. Pure.

A history, as in `PartitionLog.epochs`, is a list of (leader epoch, first number given out in it), both
rising.
"""

from collections.abc import Sequence
from typing import TypeAlias

History: TypeAlias = Sequence[tuple[int, int]]


def epoch_at(history: History, number: int) -> int:
    """The epoch in which `number` was given out; 0 when none is known."""
    for epoch, first in reversed(history):
        if first <= number:
            return epoch
    return 0


def last_common(history: History, end: int, number: int, epoch: int) -> tuple[int, int]:
    """The last number of a log, at or below `number`, whose epoch is at or below `epoch`: (number, its
    epoch); (0, 0) when there is none. end: the log's last number.

    Two replicas find the point where their logs part by calling it in turn, each with the other's result.
    Results only fall, so this ends, after at most as many rounds as there are epochs that only one log has.
    """
    number = min(number, end)
    for own, first in reversed(history):
        if own <= epoch and first <= number:
            return number, own
        number = min(number, first - 1)
    return 0, 0
