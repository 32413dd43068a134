"""What a process gives the sessions of Iggy's protocol: users, settings, and facts of the machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from tank_node.iggy.access import IggyAccess
from tank_node.iggy.settings import IggySettings


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What is shown of the process and its machine. Sizes are bytes."""

    process_id: int = 0
    cpu_percent: float = 0.0
    """Of this process, since it was last asked for."""
    total_cpu_percent: float = 0.0
    """Of the machine."""
    memory_bytes: int = 0
    total_memory_bytes: int = 0
    available_memory_bytes: int = 0
    threads: int = 0
    hostname: str = ""
    os_name: str = ""
    os_version: str = ""
    kernel_version: str = ""
    free_disk_bytes: int = 0
    total_disk_bytes: int = 0


class SnapshotPart(Enum):
    """What a file for diagnosis may have; the versions are in each."""

    METRICS = auto()
    LOG = auto()
    CONFIGURATION = auto()


class Packing(Enum):
    """How a file for diagnosis is packed."""

    STORED = auto()
    DEFLATE = auto()
    BZIP2 = auto()
    LZMA = auto()


class Snapshots(Protocol):
    """Makes files for diagnosis without holding up the event loop."""

    def make(self, parts: frozenset[SnapshotPart], packing: Packing, done: Callable[[bytes], None]) -> bool:
        """Begins to make a zip file. `done` gets it once, in a tick of the broker's; empty: it could not be
        made. False: another one is being made, and `done` is not called."""


@dataclass(frozen=True, slots=True)
class IggyServices:
    """The parts that all sessions of one listener share."""

    access: IggyAccess
    settings: IggySettings = field(default_factory=IggySettings)
    host: Callable[[], HostFacts] = HostFacts
    """Looks at the process and its machine."""
    snapshots: Snapshots | None = None
    """None: there are none."""
