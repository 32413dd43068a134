"""The acks that a TANK client asks for, where they are more than the topic demands."""

from typing import Final

from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Settler
from tank_protos.error_codes import ErrorCode

HALF: Final = 255
"""In required_acks: the leader and half of those in sync with it + 1, but never more than there are."""
_EASY_ACKS: Final = (0, HALF)
"""Requests with these need no look at the replicas in sync: too few of them refuse all appends."""


def has_in_sync(partition: Partition, required_acks: int) -> bool:
    """Whether so many more replicas than the leader are in sync. A lone broker takes any number, as TANK
    does."""
    return required_acks == HALF or partition.stands_alone or required_acks < partition.in_sync_size


class RequiredAcks:
    """Between an append and its settler, where the client wants more in sync than the topic does: too few
    when its answer is due is told as "not acknowledged in time". It is stored, and may stay."""

    __slots__ = ("_partition", "_required_acks", "_settler")

    def __init__(self, settler: Settler, partition: Partition, required_acks: int) -> None:
        self._settler = settler
        self._partition = partition
        self._required_acks = required_acks

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        if not error and not has_in_sync(self._partition, self._required_acks):
            error, first, last = ErrorCode.NOT_ACKNOWLEDGED_IN_TIME, 0, 0
        self._settler.settle(token, error, first, last)


def settler_for(settler: Settler, partition: Partition, required_acks: int) -> Settler:
    """What takes the result of an append, when the client wants so many in sync."""
    return settler if required_acks in _EASY_ACKS else RequiredAcks(settler, partition, required_acks)


def is_easy(required_acks: int) -> bool:
    """Whether the topic's own demand is all that the client asks for."""
    return required_acks in _EASY_ACKS
