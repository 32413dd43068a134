"""A byte of a log that changes on the disk while the broker's process runs."""

from dataclasses import dataclass

from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.world import Life, World


@dataclass(slots=True, frozen=True)
class ChangedByte:
    """Until the process has found it, or ends, it may show it to consumers: what a broker has checked goes
    out unseen. A process that starts behind it has to find it first."""

    life: Life
    disk: SimulatedDisk
    path: str
    position: int
    value: int

    @property
    def is_there(self) -> bool:
        """Whether the file still has it, so that nobody has mended it."""
        content = self.disk.content(self.path) if self.path in self.disk.paths() else b""
        return self.position < len(content) and content[self.position] == self.value

    @property
    def may_be_shown(self) -> bool:
        return self.life.alive and self.is_there


def change(world: World, life: Life, disk: SimulatedDisk, folder: str) -> ChangedByte | None:
    """A bit of a partition's log or index flips; None: there is nothing in them."""
    suffix = world.random.choice((".log", ".log", ".index"))
    paths = [path for path in disk.paths(suffix) if path.startswith(folder + "/") and disk.content(path)]
    if not paths:
        return None
    path = world.random.choice(paths)
    content = bytearray(disk.content(path))
    position = world.random.randrange(len(content))
    content[position] ^= 1 << world.random.randrange(8)
    world.say("FAULT", "%s is changed at byte %s of %s", path, position, len(content))
    disk.overwrite(path, bytes(content))
    return ChangedByte(life, disk, path, position, content[position])
