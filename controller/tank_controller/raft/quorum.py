"""Majorities of voters. Pure."""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum

from tank_controller.raft.messages import NodeId


class Vote(Enum):
    """The result of an election so far."""

    PENDING = 0
    WON = 1
    LOST = 2


def majority(voters: int) -> int:
    """The least number such that any two sets of so many voters share one."""
    return voters // 2 + 1


def reached_by_majority(values: Sequence[int]) -> int:
    """Returns the greatest number that a majority has reached; `values` has one number for each voter. 0
    without voters.
    """
    if not values:
        return 0
    return sorted(values, reverse=True)[majority(len(values)) - 1]


def tally(voters: Collection[NodeId], votes: Mapping[NodeId, bool]) -> Vote:
    """Counts the answers of voters; a voter without an answer may still vote either way."""
    needed = majority(len(voters))
    granted = sum(votes.get(voter) is True for voter in voters)
    refused = sum(votes.get(voter) is False for voter in voters)
    if granted >= needed and voters:
        return Vote.WON
    return Vote.LOST if refused > len(voters) - needed else Vote.PENDING
