"""Told stories of a broker's disk, and of its stream to the controllers. A leads, B leads next, C last."""

from collections.abc import Callable

from tank_node.cluster.link import (
    TopicAlteration,
    TopicOutcome,
)
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_node.segment.errors import LogDamaged
from tests.simulation.told.told import LIMITS, ToldStory, lose_power, telling
from tests.simulation.world.brokers import FOLDER, BrokerMachine
from tests.simulation.world.controllers import SESSION_TIMEOUT_MS
from tests.simulation.world.world import MS, SECOND, must

IN_MEMORY = {"flush": "replicated", "min.insync.replicas": "2"}


def a_lost_tail_stays_unsure_over_one_start() -> None:
    """See `_lose_a_tail`."""
    _lose_a_tail(1)


def a_lost_tail_stays_unsure_over_two_starts() -> None:
    """The first of which is forgotten by everybody."""
    _lose_a_tail(2)


def no_producer_id_is_given_twice() -> None:
    """By no broker, nor by one that starts again, nor while no controller leads: ids come in blocks."""
    with telling(IN_MEMORY) as story:
        given: list[int] = []

        def begin(machine: BrokerMachine, count: int) -> None:
            assert machine.server is not None
            link = machine.server.broker.link

            def ask() -> None:
                for _ in range(count):
                    link.requests.init_producer("", 0, lambda outcome: given.append(outcome.producer_id))

            story.until(lambda: link.requests.producer_ids_left >= count, f"a block of ids at {machine.name}")
            story.do(machine, ask)

        a, b, _ = story.cast
        for machine in (a, b, a, b):
            begin(machine, 600)
        a.end(False)
        story.go_on(SECOND)
        a.start()
        story.until(lambda: story.is_back(a), "A's coming back")
        begin(a, 600)
        for node in list(story.cluster.nodes.values())[1:]:
            node.end(False)
        story.go_on(5 * SECOND)
        for machine in (a, b):
            begin(machine, 300)
        must(len(given) == 3600 and all(given), "%s of 3,600 producers began", len(given))
        must(len(set(given)) == len(given), "%s ids were given twice", len(given) - len(set(given)))
        for node in list(story.cluster.nodes.values())[1:]:
            node.start()
        story.rest()


def a_machine_with_both_leaders_is_lost() -> None:
    """The broker that leads, and the controller that would have to replace it, fall silent at the same
    moment, and no connection breaks. The other brokers leave that controller soon, and don't go back to it
    while it is named; the controller that is elected waits no longer than brokers take that live."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        leader = story.cluster.leader()
        assert leader is not None
        rest = [name for name in story.controllers if name != leader.name] + [b.name, c.name]
        story.network.cut([a.name, leader.name], rest, one_way=False)

        def is_replaced() -> bool:
            return any(story.at(machine).role is Role.LEADER for machine in (b, c))

        story.until(is_replaced, "another leader within a session", SESSION_TIMEOUT_MS * MS)
        story.network.heal()
        story.rest()


def _lose_a_tail(starts: int) -> None:
    """A and B acknowledge from memory, and B's machine loses its power. However often B's process starts
    before anybody hears of it, B doesn't lead: it has lost what was acknowledged."""
    with telling(IN_MEMORY, clients=True) as story:
        a, b, c = story.cast
        c.end(False)
        story.go_on(4 * SECOND)
        must(story.are_in_sync(a, b), "not A and B alone are in sync")
        lose_power(b)
        for _ in range(starts):
            b.start()
            b.end(False)  # nobody has heard of it yet
        a.end(False)
        b.start()
        story.go_on(3 * SECOND)
        must(story.placed.leader == 0, "B leads, and has lost what was acknowledged")
        _come_back(story, a, c)


def flush_becomes_disk_after_messages_were_acknowledged_from_memory() -> None:
    """What was acknowledged before is no surer for that: a B that has lost it doesn't lead."""
    with telling(IN_MEMORY) as story:
        a, b, c = story.cast
        c.end(False)
        story.until(lambda: story.are_in_sync(a, b), "C's leaving")
        story.append(a, 3)
        story.until(lambda: story.at(a).high_water_mark == 3, "their being acknowledged")
        story.part(b, *story.controllers)  # it goes on without fsyncs
        change = TopicAlteration("told", settings={"flush": "disk"})
        told: list[TopicOutcome] = []
        assert a.link is not None
        link = a.link
        story.do(a, lambda: link.requests.alter_topic(change, told.append))
        story.until(lambda: bool(told), "the alteration")
        lose_power(b)
        a.end(False)
        story.rejoin(b, *story.controllers)
        b.start()
        story.go_on(3 * SECOND)
        must(story.placed.leader == 0, "B leads, and has lost what was acknowledged")
        _come_back(story, a, c)


def _come_back(story: ToldStory, a: BrokerMachine, c: BrokerMachine) -> None:
    a.start()
    story.go_on(3 * SECOND)
    must(story.placed.leader == a.broker_id, "A has everything, and doesn't lead")
    c.start()
    story.go_on(5 * SECOND)
    must(len(story.placed.in_sync) == 3, "not all have come back")
    must(story.placed.lossy_elections == 0, "an election was lossy")
    story.books.check_acknowledged()


def a_topic_is_made_again() -> None:
    """Under its name, while C is away: it begins empty everywhere."""
    with telling({"flush": "disk"}) as story:
        a, _, c = story.cast
        story.append(a, 3)
        story.go_on(SECOND)
        before = story.key
        c.end(False)
        story.go_on(SECOND)
        story.delete()
        c.start()
        story.create()
        must(story.key != before, "it is the topic of before")
        for machine in story.brokers.values():
            must(story.at(machine).log.written == 0, "%s has messages of an older topic", machine.name)
        story.append(story.cast[0], 2)
        story.rest()


def a_chosen_replica_is_damaged_again() -> None:
    """All three are damaged, and a lossy election chooses one: it makes do with what it has. What it loses
    later in that epoch others have: it gives up leading, though the controllers haven't heard of it."""
    with telling({"flush": "disk", "min.insync.replicas": "3"}) as story:
        story.append(story.cast[0], 3)
        story.go_on(SECOND)
        for machine in story.brokers.values():
            machine.end(False)
        for machine in story.brokers.values():
            spoil(story, machine, FIRST_BATCH)
            machine.start()
        story.until(lambda: story.placed.lossy_elections == 1, "a lossy election", 30 * SECOND)
        story.until(lambda: len(story.placed.in_sync) == 3, "their coming together", 60 * SECOND)
        leader, other, _ = story.cast
        story.append(leader, 3)
        story.go_on(SECOND)
        story.part(leader, *story.controllers, one_way=True)
        spoil(story, leader, LAST_BATCH)
        partition = story.at(leader)
        story.do(leader, lambda: notice(partition))
        told: list[TopicOutcome] = []
        assert other.link is not None
        link = other.link
        change = TopicAlteration("told", settings={"min.insync.replicas": "1"})
        story.do(other, lambda: link.requests.alter_topic(change, told.append))
        story.until(lambda: bool(told), "the alteration")
        story.go_on(500 * MS)
        must(partition.role is not Role.LEADER, "%s leads with what is left of it, twice", leader.name)
        story.rest()


CHECKPOINTED_WITHIN_US = 4 * LIMITS.maintenance_ms * MS


def a_replica_is_moved_away_and_back_unheard() -> None:
    """B hears nothing of the controllers while it is moved away and back. A pushes to it, and it is a member
    on its word. What it hears then doesn't make it delete what it was made a member for."""
    with telling({"flush": "disk", "min.insync.replicas": "1"}, replicas=2) as story:
        a, b = story.cast
        c = next(machine for machine in story.brokers.values() if machine not in (a, b))
        story.append(a, 3)
        story.until(lambda: story.at(b).high_water_mark == 3, "B's hearing of them")
        story.network.cut(story.controllers, [b.name], one_way=True)
        story.move(a, c)
        story.until(lambda: story.are_in_sync(a, c) and not story.placed.removing, "the move")
        story.move(a, b)
        story.until(lambda: story.are_in_sync(a, b) and not story.placed.removing, "the move back")
        story.rejoin(b, *story.controllers)
        story.go_on(3 * SECOND)
        must(story.are_in_sync(a, b), "B is not in sync")
        must(story.at(b).log.written == 3, "B has deleted what it was made a member for")
        must(c.replica(story.key) is None, "C keeps what nobody counts on")
        story.rest()


OF_ANYBODY = {"flush": "replicated", "unclean.leader.election": "true"}


def _leave_behind(story: ToldStory) -> None:
    """C hears of nothing from now on, and is in sync no more."""
    a, b, c = story.cast
    c.end(False)
    story.until(lambda: story.are_in_sync(a, b), "C's leaving")


def _let_the_last_lead(
    story: ToldStory, cast: tuple[BrokerMachine, ...], leave: Callable[[BrokerMachine], None],
    come_back: Callable[[BrokerMachine], None],
) -> None:  # fmt: skip
    """A and B leave, C is started and leads, and they come back and in sync."""
    *others, c = cast
    for machine in others:
        leave(machine)
    c.start()
    story.until(lambda: story.placed.leader == c.broker_id, "C's leading", 30 * SECOND)
    for machine in others:
        come_back(machine)
    story.until(lambda: len(story.placed.in_sync) == 3, "their coming together", 30 * SECOND)


def _lead_again(story: ToldStory, a: BrokerMachine) -> None:
    story.until(lambda: story.placed.leader == a.broker_id, "A's leading again", 60 * SECOND)


def _kill(machine: BrokerMachine) -> None:
    machine.end(False)


def an_old_log_comes_back_after_an_unclean_election() -> None:
    """C, which has one message, is all that is left when A and B, which have committed four, are away. They
    come back to a leader that has written nothing: they have what it has, and no older mark."""
    with telling(OF_ANYBODY) as story:
        a, b, c = story.cast
        story.append(a)
        story.until(lambda: story.at(c).high_water_mark == 1, "C's hearing of the first message")
        _leave_behind(story)
        story.append(a, 3)
        story.until(lambda: story.at(b).high_water_mark == 4, "B's hearing of the others")
        story.go_on(CHECKPOINTED_WITHIN_US)
        _let_the_last_lead(story, (a, b, c), _kill, BrokerMachine.start)
        story.until(lambda: {story.at(each).high_water_mark for each in story.cast} == {1}, "one mark of all")
        _lead_again(story, a)
        story.append(a, 2)
        story.rest()


def what_was_compacted_for_what_is_lost_comes_back() -> None:
    """As before; but A and B have compacted what C has, because of later messages that are lost."""
    settings = OF_ANYBODY | {"log.cleanup.policy": "compact", "log.segment.bytes": "100"}
    with telling(settings) as story:
        a, b, c = story.cast
        for key in (b"key", b"another"):
            story.append(a, keys=[key])
            story.go_on(100 * MS)
        must(story.at(c).high_water_mark == 2, "C has not heard of both messages")
        _leave_behind(story)
        for _ in range(4):
            story.append(a, keys=[b"key"])
            story.go_on(100 * MS)
        logs = [story.at(machine).log for machine in (a, b)]
        story.until(
            lambda: all(log.segments.compacted_through for log in logs), "their compaction", 60 * SECOND
        )
        _let_the_last_lead(story, (a, b, c), _kill, BrokerMachine.start)
        _lead_again(story, a)
        story.rest()


def what_retention_took_before_a_loss_comes_back() -> None:
    """A and B have let go of all that C has, because they had so much more; then nobody hears them, and C
    leads."""
    settings = OF_ANYBODY | {"retention.segments.count": "2", "log.segment.bytes": "100"}
    with telling(settings) as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.until(lambda: story.at(c).high_water_mark == 2, "C's hearing of the first messages")
        _leave_behind(story)
        for _ in range(6):
            story.append(a, 2)
            story.go_on(100 * MS)
        logs = [story.at(machine).log for machine in (a, b)]
        story.until(lambda: all(log.first_available > 2 for log in logs), "their retention", 60 * SECOND)
        others = *story.controllers, c.name
        _let_the_last_lead(
            story,
            (a, b, c),
            lambda machine: story.part(machine, *others),
            lambda machine: story.rejoin(machine, *others),
        )
        _lead_again(story, a)
        firsts = {machine.name: story.at(machine).log.first_available for machine in story.cast}
        must(set(firsts.values()) == {1}, "what C had kept is gone: %s", firsts)
        story.rest()


FIRST_BATCH, LAST_BATCH = 5, -1
"""A byte of the first file that there is."""


def spoil(story: ToldStory, machine: BrokerMachine, at: int) -> None:
    """A byte of the partition becomes another one."""
    folder = f"{FOLDER}/topics/{story.wanted.topic_id}/0/"
    path = next(path for path in machine.disk.paths(".log") if path.startswith(folder))
    content = bytearray(machine.disk.content(path))
    content[at] ^= 1
    machine.disk.overwrite(path, bytes(content))
    books = story.books.of(story.key)
    books.spoiled.add(machine.name)
    books.was_spoiled = True


def notice(partition: Partition) -> None:
    """As scrub does."""
    partition.log.spoiled("a batch is bad")
    partition.note_error(LogDamaged("a batch is bad"))


STORIES: tuple[Callable[[], None], ...] = (
    a_lost_tail_stays_unsure_over_one_start,
    a_lost_tail_stays_unsure_over_two_starts,
    flush_becomes_disk_after_messages_were_acknowledged_from_memory,
    a_topic_is_made_again,
    a_chosen_replica_is_damaged_again,
    a_replica_is_moved_away_and_back_unheard,
    an_old_log_comes_back_after_an_unclean_election,
    what_was_compacted_for_what_is_lost_comes_back,
    what_retention_took_before_a_loss_comes_back,
    no_producer_id_is_given_twice,
    a_machine_with_both_leaders_is_lost,
)
