"""Told stories of the basic guarantees, each with one fault. A leads, B leads next, C last."""

import copy
from collections.abc import Callable

from tank_node.log.recovery import checkpoint
from tank_node.partition.waiters import ProducerStamp
from tests.simulation.clients.consumers import MOST_BYTES, ONE_MESSAGE
from tests.simulation.told.told import ToldStory, telling
from tests.simulation.world.brokers import FOLDER, BrokerMachine
from tests.simulation.world.network import Weather
from tests.simulation.world.world import MS, SECOND, must

SYNCED = {"flush": "disk"}
ALONE_IS_ENOUGH = {"flush": "disk", "min.insync.replicas": "1"}
COMPACTS = {
    "flush": "disk",
    "log.cleanup.policy": "cleanup",
    "log.cleaner.min.cleanable.ratio": "0.1",
    "log.segment.bytes": "300",
}
RECORD_BYTES = 64


def every_disk_is_slow_once() -> None:
    """Nothing is committed before every member in sync has it on its disk."""
    with telling(SYNCED) as story:
        for machine in story.cast:
            machine.slow_until = story.world.now + 50 * MS
            story.append(story.cast[0])
            story.go_on(2 * SECOND)
        story.rest()


def a_member_is_not_heard() -> None:
    """It is waited for, for as long as it may lag: nobody is told that anything is stored."""
    with telling(SYNCED) as story:
        a, _, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, c.name)
        story.append(a)
        story.go_on(SECOND)
        must(story.at(a).high_water_mark == 2, "a member was not waited for")
        story.rest()


def a_reader_asks_for_all_that_there_is() -> None:
    """What a member has not got yet is shown to nobody."""
    with telling(SYNCED) as story:
        a, _, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, c.name)
        story.append(a)
        story.go_on(100 * MS)
        must(story.at(a).log.written == 3, "it isn't stored at A")
        _read(story, a, 2)
        must(story.at(a).high_water_mark == 2, "a member was not waited for")
        story.rest()


def _read(story: ToldStory, machine: BrokerMachine, last: int, most_bytes: int = MOST_BYTES) -> None:
    """One reads there, from the first message to this one."""
    reader = story.reader(machine, most_bytes)
    story.until(lambda: reader.next > last, "its reading all that is committed")
    reader.retire()


def a_repeat_comes_before_the_first_is_committed() -> None:
    """It is answered with the first, and not before it."""
    with telling(SYNCED) as story:
        a, _, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.part(a, c.name)
        story.append_again(a, ProducerStamp(1, 0, 0), 2)
        story.go_on(SECOND)
        story.rest()


def a_leader_dies_that_only_one_has_heard() -> None:
    """B and C have a message that A has committed, and C alone knows that it is. B leads, with its lower
    mark: it keeps the message, and C its mark."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.network.weather = Weather(usual_us=20 * MS)  # B hears of it later than this story looks
        story.append(a)
        story.until(lambda: story.at(b).log.synced == 3, "the message at B")
        story.until(lambda: story.at(a).high_water_mark == 3, "its being committed")
        story.part(a, b.name, one_way=True)
        story.until(lambda: story.at(c).high_water_mark == 3, "C's hearing of it")
        must(story.at(b).high_water_mark == 2, "B has heard of it")
        story.network.weather = Weather()
        a.end(False)
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.part(b, c.name, one_way=True)
        story.go_on(500 * MS)
        story.rejoin(b, c.name)
        story.go_on(3 * SECOND)
        story.rest()


def two_leaders_die_that_knew_what_was_committed() -> None:
    """C has a message that is committed, and doesn't know that it is: it keeps it under the next leader, and
    leads with it when that one is gone, too."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.go_on(SECOND)
        story.network.weather = Weather(usual_us=20 * MS)  # C hears of it later than this story looks
        story.append(a)
        story.until(lambda: story.at(c).log.synced == 3, "the message at C")
        story.part(a, c.name, one_way=True)
        story.until(lambda: story.at(a).high_water_mark == 3, "its being committed")
        must(story.at(c).high_water_mark == 2, "C has heard of it")
        story.network.weather = Weather()
        story.part(c, a.name, b.name)
        a.end(False)
        story.until(lambda: story.placed.leader == b.broker_id, "another leader")
        story.until(lambda: story.at(c).leader_epoch == story.placed.leader_epoch, "C's hearing of it")
        b.end(False)
        story.until(lambda: story.placed.leader == c.broker_id, "the next leader")
        story.go_on(SECOND)
        story.rest()


def a_leader_dies_under_load() -> None:
    """Idempotent producers go on at the next one, and readers behind what they have read."""
    with telling(SYNCED, clients=True) as story:
        a, b, c = story.cast
        story.go_on(3 * SECOND)
        story.part(a, c.name)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.go_on(SECOND)
        c.slow_until = story.world.now + 10 * SECOND
        a.end(False)
        story.go_on(10 * SECOND)
        story.rest()


def a_brokers_disk_is_emptied() -> None:
    """A and B alone are in sync; B's disk is emptied, and A dies. B has nothing, and doesn't lead."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.append(a, 3)
        story.go_on(SECOND)
        b.empty()
        a.end(False)
        b.start()
        story.go_on(3 * SECOND)
        must(story.placed.leader == 0, "B leads, with nothing")
        story.rest()


def a_brokers_folder_is_put_back_in_time() -> None:
    """All stop in order, B last of all; its folder is put back to a copy of an earlier clean stop, and it
    starts alone. It lacks what was acknowledged since, and doesn't lead."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 3)
        story.go_on(SECOND)
        story.stop(b)
        earlier = copy.deepcopy(b.disk)
        b.start()
        story.until(lambda: story.is_back(b) and story.are_in_sync(a, b, c), "B's return")
        story.append(a, 5)
        story.go_on(SECOND)
        story.stop(c, a, b)
        b.put_back(earlier)
        b.start()
        story.go_on(3 * SECOND)
        must(story.placed.leader == 0, "B leads, and lacks five messages")
        # Nor after it has started once more: the folder knows the newest registration now.
        b.end(False)
        b.start()
        story.go_on(3 * SECOND)
        must(story.placed.leader == 0, "B's second start made its folder a sound one")
        a.start()
        story.until(lambda: story.placed.leader == a.broker_id, "A's leading")
        story.rest()


def the_logs_of_a_folder_are_put_back_and_its_checkpoint_is_unreadable() -> None:
    """All stop in order, B last of all. Its logs are put back to a copy of its stop before, and its newest
    checkpoint can't be read: the one before it fits those logs, and says that they ended in order. B starts
    alone. It lacks what was acknowledged since, and doesn't lead."""
    with telling({"flush": "replicated"}) as story:
        a, b, c = story.cast
        story.append(a, 3)
        story.go_on(SECOND)
        story.stop(b)
        logs = f"{FOLDER}/topics/"
        earlier = {path: b.disk.content(path) for path in b.disk.paths() if path.startswith(logs)}
        newest, previous = f"{FOLDER}/checkpoint", f"{FOLDER}/checkpoint.previous"
        earlier[previous] = b.disk.content(newest)  # as where the next run is too short for one of its own
        must(checkpoint.decode(earlier[previous]).clean, "it is of no stop")
        b.start()
        story.until(lambda: story.is_back(b) and story.are_in_sync(a, b, c), "B's return")
        story.append(a, 5)
        story.go_on(100 * MS)
        story.stop(c, a, b)
        for path, content in earlier.items():
            b.disk.overwrite(path, content)
        b.disk.overwrite(newest, b"")
        b.put_back(b.disk)
        b.start()
        story.go_on(3 * SECOND)
        must(story.placed.leader == 0, "B leads, and lacks five messages")
        a.start()
        story.until(lambda: story.placed.leader == a.broker_id, "A's leading")
        story.rest()


def a_process_ends_before_its_registration_is_written_down() -> None:
    """B registers, and is killed before its folder knows: it was never unfenced, so nothing is missing, and
    it may lead when all others are gone."""
    with telling(SYNCED) as story:
        a, b, c = story.cast
        story.append(a, 3)
        story.go_on(SECOND)
        story.stop(c, a, b)
        before = copy.deepcopy(b.disk)
        b.start()
        epoch = story.state.brokers[b.broker_id].epoch
        story.until(lambda: story.state.brokers[b.broker_id].epoch != epoch, "its registration")
        must(story.state.brokers[b.broker_id].fenced, "it was unfenced at once")
        b.end(False)
        b.put_back(before)  # as if the write had not come to pass
        b.start()
        story.until(lambda: story.placed.leader == b.broker_id, "B's leading")
        story.rest()


def the_last_one_restarts() -> None:
    """A is alone in sync, and its process starts again: it leads in another epoch."""
    with telling(ALONE_IS_ENOUGH) as story:
        a, b, c = story.cast
        story.append(a, 2)
        b.end(False)
        c.end(False)
        story.until(lambda: story.are_in_sync(a), "their leaving")
        epoch = story.placed.leader_epoch
        a.end(False)
        a.start()
        story.until(lambda: story.is_back(a) and story.placed.leader == a.broker_id, "A's return")
        must(story.placed.leader_epoch > epoch, "A leads on in the epoch of the process before it")
        story.rest()


def an_answer_to_a_proposal_is_late() -> None:
    """C is in sync as soon as the controllers have written it down: A waits for it from the moment that it
    asks, and not from when it is told."""
    with telling(ALONE_IS_ENOUGH) as story:
        a, b, c = story.cast
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.append(a, 2)
        story.go_on(SECOND)

        def strike() -> None:
            story.part(a, c.name)
            for controller in story.cluster.nodes.values():
                story.network.cut([controller.name], [a.name], one_way=True)

        story.when_proposed(a, c, strike)
        c.start()
        story.until(lambda: story.are_in_sync(a, b, c), "C's joining")
        story.append(a)
        story.go_on(SECOND)
        story.rest()


def an_index_ends_too_early() -> None:
    """Others have what it lacks: it is filled anew from them, and not made up by reading the batches."""
    with telling(SYNCED) as story:
        a, b, _ = story.cast
        story.append(a, 5)
        story.go_on(15 * SECOND)
        folder = f"{FOLDER}/topics/{story.wanted.topic_id}/0/"
        b.end(False)
        [path] = [path for path in b.disk.paths(".index") if path.startswith(folder)]
        b.disk.overwrite(path, b.disk.content(path)[: 2 * RECORD_BYTES])
        story.books.of(story.key).spoiled.add(b.name)
        b.start()
        story.go_on(5 * SECOND)
        story.append(story.cast[0])
        story.rest()


def a_log_is_compacted() -> None:
    """Of each key the newest message stays, at every replica, and who reads from the start gets through."""
    with telling(COMPACTS, clients=True) as story:
        a = story.cast[0]
        story.append(a, keys=[b"once", b"k0"])
        story.go_on(20 * SECOND)
        _read(story, a, story.at(a).high_water_mark, most_bytes=ONE_MESSAGE)
        a.end(False)
        story.go_on(3 * SECOND)
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    every_disk_is_slow_once,
    a_member_is_not_heard,
    a_reader_asks_for_all_that_there_is,
    a_repeat_comes_before_the_first_is_committed,
    a_leader_dies_that_only_one_has_heard,
    two_leaders_die_that_knew_what_was_committed,
    a_leader_dies_under_load,
    a_brokers_disk_is_emptied,
    a_brokers_folder_is_put_back_in_time,
    the_logs_of_a_folder_are_put_back_and_its_checkpoint_is_unreadable,
    a_process_ends_before_its_registration_is_written_down,
    the_last_one_restarts,
    an_answer_to_a_proposal_is_late,
    an_index_ends_too_early,
    a_log_is_compacted,
)
