"""A stream, which is a folder of topics for Iggy's clients."""

from dataclasses import dataclass

from tank_controller.state.iggy.maker import Maker


@dataclass(slots=True, frozen=True)
class StreamState:
    """A stream. Replaced, never changed: an image of the state may be reading it."""

    number: int
    """Its number on the wire of newer clients; older ones count from 1. The lowest that was free: a number
    that became free is given again."""
    name: str
    created_ms: int
    born: int
    """The index of the entry that created it. Permissions hang on it, so that a new stream under an old
    number inherits none."""
    going: bool = False
    """It is being deleted, one topic after another: it takes no topic, and keeps its number and name until
    all are gone."""
    maker: Maker | None = None
    """Who asked for it; None: not known."""
