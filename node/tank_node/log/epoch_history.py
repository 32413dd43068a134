"""Under which leader epoch each number of a log was written. Pure.

A history is what `PartitionLog.epochs` holds: (leader epoch, the first number written in it), both rising.
"""

from collections.abc import Sequence
from typing import TypeAlias

History: TypeAlias = Sequence[tuple[int, int]]


def epoch_at(history: History, number: int) -> int:
    """The epoch in which this number, or the last one before it that exists, was written; 0: none is
    known."""
    for epoch, first in reversed(history):
        if first <= number:
            return epoch
    return 0


def last_common(history: History, end: int, number: int, epoch: int) -> tuple[int, int]:
    """The last point of a log at or below `number` whose epoch is at or below `epoch`: (number, its epoch);
    (0, 0) when there is none. `end` is the log's last number.

    Where two logs part is found with it: each side in turn names its last point at or below the other's.
    Both only go down, so it ends, after as many rounds as there are epochs that one of them lacks. (An answer
    of the log's end alone need not lead there: an epoch that the other side lacks would come back for ever.)
    """
    number = min(number, end)
    for own, first in reversed(history):
        if own <= epoch and first <= number:
            return number, own
        number = min(number, first - 1)
    return 0, 0
