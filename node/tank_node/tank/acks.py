"""The acks that a TANK client asks for, when these are more than the topic demands."""

from typing import Final

from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.waiters import Completion

HALF: Final = 255
"""The required_acks of a client that wants the leader and half of the other in-sync replicas + 1, but never
more than there are."""
_EASY_ACKS: Final = (0, HALF)
"""The required_acks that need no check here: the partition itself refuses appends with too few in-sync
replicas."""


def has_in_sync(partition: Partition, required_acks: int) -> bool:
    """Whether at least `required_acks` replicas besides the leader are in sync. True for any number at a
    broker that stands alone, as in TANK."""
    return required_acks == HALF or partition.stands_alone or required_acks < partition.in_sync_size


class RequiredAcks:
    """The completion of an append whose client wants more in-sync replicas than the topic demands. With too
    few when the answer is due, it answers "not acknowledged in time"; the message is stored, and may stay."""

    __slots__ = ("_completion", "_partition", "_required_acks")

    def __init__(self, completion: Completion, partition: Partition, required_acks: int) -> None:
        self._completion = completion
        self._partition = partition
        self._required_acks = required_acks

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        if not refusal and not has_in_sync(self._partition, self._required_acks):
            refusal, first, last = Refusal.NOT_ACKNOWLEDGED_IN_TIME, 0, 0
        self._completion.complete(token, refusal, first, last)


def completion_for(completion: Completion, partition: Partition, required_acks: int) -> Completion:
    """Returns the completion for an append whose client asks for `required_acks`."""
    return completion if required_acks in _EASY_ACKS else RequiredAcks(completion, partition, required_acks)


def is_easy(required_acks: int) -> bool:
    """Whether the client asks for no more than the topic demands."""
    return required_acks in _EASY_ACKS
