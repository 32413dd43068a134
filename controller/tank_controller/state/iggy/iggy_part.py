"""What makes a topic one of Iggy's."""

from dataclasses import dataclass

from tank_controller.state.iggy.iggy_option import IggyOption
from tank_controller.state.iggy.maker import Maker


@dataclass(slots=True, frozen=True)
class IggyPart:
    """A topic's place among Iggy's streams, and what its client said of it. Replaced, never changed."""

    stream: int
    """The number of its stream."""
    number: int
    """Its number in the stream: the lowest that was free."""
    name: str
    """Its name in the stream. The topic's name in the cluster is fixed when it is created; this one may
    change."""
    expiry_us: int = 0
    """0: the server's default; 2^64 - 1: never. The exact value of the wire, as are the next three; the
    topic's settings follow from them (`commands.iggy.derived`)."""
    max_bytes: int = 0
    """0: the server's default; 2^64 - 1: unlimited."""
    compression: int = 1
    options: tuple[IggyOption, ...] = ()
    per_partition: bool = False
    """Whether `max_bytes` bounds each partition, or all of them together."""
    exposed: bool = False
    """A topic of another protocol, which was exposed: what is done to the whole stream leaves it alone."""
    created_ms: int = 0
    born: int = 0
    """The index of the entry that created or exposed it. A purge keeps it."""
    purged: tuple[int, ...] = ()
    """The topic's earlier ids, oldest first: a broker that was away when the topic was purged deletes the
    logs under these ids. A bounded number."""
    maker: Maker | None = None
    """Who asked for it; None: not known."""

    @property
    def option_bytes(self) -> int:
        """The size of all options."""
        return sum(option.size_bytes for option in self.options)
