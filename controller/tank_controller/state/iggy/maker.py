"""Who asked for something that has a name: what a repeat of its command is known by."""

from typing import NamedTuple


class Maker(NamedTuple):
    """One request of one broker's process."""

    broker_epoch: int
    request: int
    """A number that the process gives to no other request."""
