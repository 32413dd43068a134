"""What a majority of the voters says. Pure."""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from tank_controller.raft.messages import NodeId


class Vote(Enum):
    """How an election stands."""

    PENDING = 0
    WON = 1
    LOST = 2


def majority(voters: int) -> int:
    """The least number of which any two sets share a voter."""
    return voters // 2 + 1


def reached_by_majority(values: Sequence[int]) -> int:
    """The greatest number that a majority has reached; one value a voter. 0 without voters."""
    if not values:
        return 0
    return sorted(values, reverse=True)[majority(len(values)) - 1]


def tally(voters: Collection[NodeId], votes: Mapping[NodeId, bool]) -> Vote:
    """Who isn't a voter isn't counted; who hasn't answered may still say either."""
    needed = majority(len(voters))
    granted = sum(votes.get(voter) is True for voter in voters)
    refused = sum(votes.get(voter) is False for voter in voters)
    if granted >= needed and voters:
        return Vote.WON
    return Vote.LOST if refused > len(voters) - needed else Vote.PENDING
