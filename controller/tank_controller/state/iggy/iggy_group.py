"""A consumer group of Iggy's clients."""

from dataclasses import dataclass

from tank_controller.state.iggy.maker import Maker


@dataclass(slots=True, frozen=True)
class IggyGroup:
    """A group's number and name; its members and positions are at its coordinator. Replaced, never
    changed.
    """

    number: int
    """The lowest that was free in its topic."""
    name: str
    topic_id: int
    born: int
    """The index of the entry that created it; its coordinator knows it by this. A purge of the topic keeps
    it."""
    maker: Maker | None = None
    """Who asked for it; None: not known."""
