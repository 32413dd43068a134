"""Bytes of a controller's disk change while its process is down."""

from tests.simulation.world.controllers import FOLDER, Controller
from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.world import World


def change_a_byte(world: World, disk: SimulatedDisk, folder: str) -> bool:
    """A bit of a file flips. False: there is none with anything in it."""
    paths = [path for path in disk.paths() if path.startswith(folder + "/") and disk.content(path)]
    if not paths:
        return False
    path = world.random.choice(paths)
    content = bytearray(disk.content(path))
    position = world.random.randrange(len(content))
    content[position] ^= 1 << world.random.randrange(8)
    world.say("FAULT", "%s is changed at byte %s of %s", path, position, len(content))
    disk.overwrite(path, bytes(content))
    return True


def spoil(world: World, machine: Controller) -> bool:
    """A controller is killed, a byte of its disk changes, and it starts. Where it says that it is damaged, it
    is put up again with an empty disk; else the books see that it has all that it promised."""
    machine.end(False)
    machine.is_spoiled = change_a_byte(world, machine.disk, str(FOLDER))
    machine.start()
    if machine.is_spoiled and machine.life is None:
        world.counts["controllers that found themselves damaged"] += 1
        machine.empty()
    machine.is_spoiled = False
    return True
