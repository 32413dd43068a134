"""The states of a group, of the classic protocol and of the consumer protocol (KIP-848)."""

from enum import Enum


class GroupState(Enum):
    """A state; its value is the name that Kafka's tools show and compare."""

    EMPTY = "Empty"
    """It has no members; it may have committed offsets."""
    PREPARING_REBALANCE = "PreparingRebalance"
    """It waits for its members to join the next generation."""
    COMPLETING_REBALANCE = "CompletingRebalance"
    """It waits for the assignments from the generation's leader."""
    ASSIGNING = "Assigning"
    """A group of the consumer protocol whose members changed, and whose targets are not made yet."""
    RECONCILING = "Reconciling"
    """A group of the consumer protocol whose members are on their way to their targets."""
    STABLE = "Stable"
    """All members may have their assignments; in a group of the consumer protocol they have them."""
    DEAD = "Dead"
    """There is no such group here."""
