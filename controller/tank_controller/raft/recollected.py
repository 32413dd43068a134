"""What a node that started has heard of its earlier promises so far. See `recollection`."""

from dataclasses import dataclass, field

from tank_controller.raft.messages import NodeId

LogEnd = tuple[int, int]
"""(term, index) of a log's last entry, as votes compare them."""


@dataclass(slots=True)
class Recollection:
    """Of one start."""

    nonce: int
    """Of this start's questions: answers to an earlier process may be older than what that promised."""
    done: bool = False
    """Nothing is missing: it votes as any other."""
    floor: LogEnd | None = None
    """Once enough have answered: for no log that ends before this it votes."""
    ticks: int = 0
    """Since the start."""
    answers: dict[NodeId, tuple[LogEnd, int]] = field(default_factory=dict)
    """The last of each voter, and in which tick it came."""
    heard: set[NodeId] = field(default_factory=set)
    """Voters that anything came from since the start."""
