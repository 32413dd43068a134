"""The result of a fetch without messages."""

from enum import Enum


class Reach(Enum):
    """Why a fetch found no messages."""

    WAIT = "no messages yet at this number"
    OUT_OF_BOUNDS = "below the first available number or beyond the end"
    UNREADABLE = "the partition can't be read here"
