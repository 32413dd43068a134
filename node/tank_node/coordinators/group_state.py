"""The states of a group of the classic protocol."""

from enum import Enum


class GroupState(Enum):
    """A state; its value is the name that Kafka's tools show and compare."""

    EMPTY = "Empty"
    """It has no members; it may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """It waits for its members to join the next generation."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """It waits for the assignments from the generation's leader."""
    STABLE = "Stable"
    """All members may have their assignments."""
    DEAD = "Dead"
    """There is no such group here."""
