"""What a node that has started knows of the promises of its earlier processes. See `recollection`."""

from dataclasses import dataclass, field

from tank_controller.raft.messages import NodeId

LogEnd = tuple[int, int]
"""(term, index) of a log's last entry, as votes compare them."""


@dataclass(slots=True)
class Recollection:
    """The state of `recollection` at one start."""

    nonce: int
    """The nonce of this start's questions: answers to an earlier process may be older than its promises."""
    done: bool = False
    """Nothing is missing: the node votes as any other."""
    floor: LogEnd | None = None
    """Set once enough voters have answered: the node votes for no log that ends before this."""
    ticks: int = 0
    """Ticks since the start."""
    answers: dict[NodeId, tuple[LogEnd, int]] = field(default_factory=dict)
    """Each voter's last answer, and the tick in which it came."""
