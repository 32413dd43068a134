"""Told stories of a broker's volume that fills. A leads, B leads next, C last."""

from collections.abc import Callable

from tank_node.disk import write_file
from tests.simulation.told.told import ToldStory, telling
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.world import SECOND, must

IN_MEMORY = {"flush": "replicated", "min.insync.replicas": "2"}
BALLAST = "/ballast"
MIB = 1 << 20


def a_leaders_volume_is_full() -> None:
    """Another leads in A's place and takes messages; A leads again when its volume is larger."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        story.append(a)
        _fill(story, a)
        story.until(lambda: story.placed.leader == b.broker_id, "B's leading")
        story.append(b)
        a.disk.capacity_bytes = None
        story.until(lambda: story.are_in_sync(a, b, c), "A's being in sync")
        story.until(lambda: story.placed.leader == a.broker_id, "A's leading again", 60 * SECOND)
        story.rest()


def room_that_is_free_again_brings_no_leadership_back() -> None:
    """Retention may have made it: A follows and is in sync, and leads again as a new process."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        _fill(story, a)
        story.until(lambda: story.placed.leader == b.broker_id, "B's leading")
        a.disk.remove(BALLAST)
        story.until(lambda: story.are_in_sync(a, b, c), "A's being in sync")
        story.go_on(60 * SECOND)
        must(story.placed.leader == b.broker_id, "A leads again, on the volume that it filled")
        a.end(False)
        story.go_on(SECOND)
        a.start()
        story.until(lambda: story.placed.leader == a.broker_id, "A's leading again", 60 * SECOND)
        a.disk.capacity_bytes = None
        story.rest()


def volumes_that_are_all_full_change_no_leader() -> None:
    """Nobody could do better: A leads on, consumers read, and messages are taken when there is room."""
    with telling(IN_MEMORY) as story:
        a = story.cast[0]
        for machine in story.brokers.values():
            _fill(story, machine)
        full = [each.broker_id for each in story.state.brokers.values() if each.no_room]
        story.until(lambda: all(each.no_room for each in story.state.brokers.values()), f"all; {full} are")
        story.go_on(10 * SECOND)
        must(story.placed.leader == a.broker_id, "another leads, which has no room either")
        for machine in story.brokers.values():
            machine.disk.remove(BALLAST)
        story.go_on(5 * SECOND)
        story.append(story.cast[0])
        for machine in story.brokers.values():
            machine.disk.capacity_bytes = None
        story.rest()


def a_volume_without_a_byte_keeps_the_registration_out_of_the_folder() -> None:
    """A alone has what was acknowledged last. It is started on a volume where not even its registration can
    be written: it takes no part, so what it does then can't be of a registration that the next start does not
    know, by which the controllers would take the folder for one that was put back in time."""
    with telling({"flush": "disk", "min.insync.replicas": "1"}) as story:
        a, b, c = story.cast
        story.append(a)
        b.end(False)
        c.end(False)
        story.until(lambda: story.placed.in_sync == (a.broker_id,), "A's being alone")
        story.append(a)
        a.end(False)
        a.disk.remove("/data/meta.spare")  # which is there for this
        a.disk.capacity_bytes = a.disk.used_bytes
        a.start()
        registered = story.state.brokers[a.broker_id].epoch
        story.until(lambda: story.state.brokers[a.broker_id].epoch > registered, "A's registration")
        story.go_on(10 * SECOND)
        must(story.state.brokers[a.broker_id].fenced, "A takes part with a folder that does not know it")
        a.end(True)
        b.start()
        c.start()
        a.disk.capacity_bytes = None
        a.start()
        story.until(lambda: story.are_in_sync(a, b, c), "all being in sync")
        must(story.placed.lossy_elections == 0, "an election was lossy")
        story.rest()


def _fill(story: ToldStory, machine: BrokerMachine) -> None:
    """What is free is less than the volume's hundredth from now on; removing BALLAST frees most of it."""
    disk = machine.disk
    disk.capacity_bytes = disk.used_bytes + 2 * MIB
    write_file(disk, BALLAST, bytes(2 * MIB - 8_192))
    story.go_on(0)


STORIES: tuple[Callable[[], None], ...] = (
    a_leaders_volume_is_full,
    room_that_is_free_again_brings_no_leadership_back,
    volumes_that_are_all_full_change_no_leader,
    a_volume_without_a_byte_keeps_the_registration_out_of_the_folder,
)
