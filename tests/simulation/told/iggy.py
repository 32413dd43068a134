"""Told stories of Iggy's clients: of names (purged topics, renamed streams), and of sessions, with groups and
stored offsets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.cluster.iggy.link import IggyDone, IggyOutcome, IggyRequests, IggyTopicChange
from tank_node.cluster.iggy.parts import StreamView
from tank_node.cluster.iggy.view import IggyView
from tank_node.cluster.view import TopicView
from tank_node.iggy.settings import IggySettings
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
from tank_protos.generated.iggy import (
    AddPartitionsRequest,
    CreateConsumerGroupRequest,
    CreateStreamRequest,
    CreateTopicRequest,
    DeleteTopicRequest,
    PurgeTopicRequest,
    RemovePartitionsRequest,
    UpdateTopicRequest,
)
from tank_protos.iggy.identifiers import of_name
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.iggy.iggy_guest import ALONE, GROUP_CONSUMER, TOPIC, IggyGuest, offsets_of
from tests.simulation.iggy.iggy_tenant import GROUP
from tests.simulation.iggy.iggy_visitor import STREAM
from tests.simulation.story import listening
from tests.simulation.told.told import LIMITS, ToldStory
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.world import MS, SECOND, must

Request = Callable[[IggyRequests, IggyDone], None]


@contextmanager
def _telling() -> Iterator[ToldStory]:
    """Iggy's clients see the topic as main/orders."""
    story = ToldStory({"flush": "disk"}, LIMITS, ForwardingPolicy.NEVER, clients=False)
    with listening(story.world):
        story.begin()
        story.until(lambda: story.state.feature_level == IGGY, "the level")
        story.go_on(SECOND)
        a = story.cast[0]
        _ask(story, a, lambda iggy, done: iggy.create_stream("main", done))
        topic, stream = _topic(story, a), _stream(a, "main")
        _ask(story, a, lambda iggy, done: iggy.expose_topic(topic, stream, "orders", done))
        yield story


def _view(machine: BrokerMachine) -> IggyView[TopicView]:
    assert machine.link is not None
    return machine.link.view.iggy


def _stream(machine: BrokerMachine, name: str) -> StreamView:
    stream = _view(machine).stream_by_name(name)
    must(stream is not None, "%s sees no stream %s", machine.name, name)
    assert stream is not None
    return stream


def _topic(story: ToldStory, machine: BrokerMachine) -> TopicView:
    assert machine.link is not None
    topic = machine.link.view.topic_by_id(story.wanted.topic_id)
    assert topic is not None
    return topic


def _ask(story: ToldStory, machine: BrokerMachine, request: Request) -> IggyOutcome:
    """What the controllers answer this broker, when it has the change in its view."""
    heard: list[IggyOutcome] = []
    link = machine.link
    assert link is not None
    story.do(machine, lambda: request(link.requests.iggy, heard.append))
    story.until(lambda: bool(heard), "the answer")
    must(heard[0].error is ErrorCode.NONE, "refused: %s", heard[0].message)
    return heard[0]


def a_topic_is_purged_under_writers() -> None:
    """Messages are committed, others are on their way, and a broker that holds them is away. Nobody ever
    finds one of them in the purged topic; it takes new ones, and the broker that comes back keeps nothing of
    the old ones."""
    with _telling() as story:
        a, b, c = story.cast
        story.append(a, 3)
        story.go_on(SECOND)
        must(story.at(c).high_water_mark == 3, "they are not committed everywhere")
        c.end(False)
        story.go_on(SECOND)
        old = story.wanted.topic_id
        topic = _topic(story, b)
        story.append(a, 2)
        outcome = _ask(story, b, lambda iggy, done: iggy.purge_topic(topic, done))
        story.wanted.topic_id = outcome.topic_id
        must(outcome.topic_id != old, "it has the same id")
        _until_led(story)
        leader = story.cast[0]
        must(story.at(leader).high_water_mark == 0, "it is not empty")
        story.append(leader, 2)
        story.until(lambda: story.at(leader).high_water_mark == 2, "new messages")
        c.start()
        story.until(lambda: story.is_back(c) and story.are_in_sync(a, b, c), "C's return", 20 * SECOND)
        for machine in (a, b, c):
            must(story.at(machine).log.written == 2, "%s has other messages", machine.name)
            left = [path for path in machine.disk.names if f"/topics/{old}/" in path or ".stray-" in path]
            must(not left, "%s keeps %s", machine.name, left[:1])
        story.rest()


def _until_led(story: ToldStory) -> None:
    """The partition has a leader that has taken office."""

    def is_led() -> bool:
        if not story.is_led or not story.placed.leader:
            return False
        found = story.brokers[story.placed.leader].replica(story.key)
        return found is not None and found.leader_epoch == story.placed.leader_epoch

    story.until(is_led, "a leader of the purged topic")
    story.go_on(100 * MS)


def a_stream_and_its_topic_are_renamed_under_readers() -> None:
    """Who reads goes on, as the topic's name in the cluster stays; on all brokers the new names mean what the
    old ones did, and the old ones nothing."""
    with _telling() as story:
        a, b, c = story.cast
        story.append(a, 2)
        story.reader(b)
        story.go_on(SECOND)
        stream, topic = _stream(b, "main"), _topic(story, b)
        _ask(story, b, lambda iggy, done: iggy.rename_stream(stream, "archive", done))
        story.append(a)
        _ask(story, b, lambda iggy, done: iggy.alter_topic(topic, IggyTopicChange("bills"), done))
        story.append(a)
        story.go_on(SECOND)
        for machine in (a, b, c):
            view = _view(machine)
            must(view.stream_by_name("main") is None, "%s knows the old stream", machine.name)
            number = _stream(machine, "archive").number
            must(view.topic_by_name(number, "orders") is None, "%s knows the old topic", machine.name)
            found = view.topic_by_name(number, "bills")
            must(found is not None and found.topic_id == story.wanted.topic_id, "%s lost it", machine.name)
            must(found is not None and found.name == "told", "its name in the cluster changed")
        must(story.at(a).high_water_mark == 4, "somebody could not write")
        story.rest()


# --- sessions ----------------------------------------------------------------------------------------


@contextmanager
def _serving(partitions: int, wait_ms: int = 0) -> Iterator[tuple[ToldStory, int]]:
    """All brokers serve Iggy's clients, one of whom has made main/orders, with a group: and that topic's id.
    wait_ms: how long polls wait for a message."""
    story = ToldStory({"flush": "disk"}, LIMITS, ForwardingPolicy.NEVER, clients=False)
    for broker in story.brokers.values():
        broker.iggy = IggySettings(poll_wait_ms=wait_ms)
    story.iggy.ledger.watch(story.brokers)
    with listening(story.world):
        story.begin()
        story.until(lambda: story.state.feature_level == IGGY, "the level")
        story.create_groups()
        story.go_on(3 * SECOND)
        tenant = IggyGuest(story, story.cast[0], "tenant")
        tenant.ask(CreateStreamRequest(name=STREAM))
        topic = CreateTopicRequest(
            of_name(STREAM), partitions_count=partitions, replication_factor=3, name=TOPIC
        )
        tenant.ask(topic)
        tenant.ask(CreateConsumerGroupRequest(of_name(STREAM), of_name(TOPIC), name=GROUP))
        story.go_on(SECOND)
        found = _view(story.cast[0]).topic_by_name(_stream(story.cast[0], STREAM).number, TOPIC)
        assert found is not None
        yield story, found.topic_id


def _leader(story: ToldStory, topic_id: int, partition: int) -> BrokerMachine:
    return story.brokers[story.state.topics[topic_id].partitions[partition].leader]


def _apart(story: ToldStory, topic_id: int) -> tuple[int, BrokerMachine, BrokerMachine]:
    """A partition, its leader, which doesn't coordinate groups, and another broker that doesn't."""
    groups = next(topic for topic in story.state.topics.values() if topic.name == GROUPS_TOPIC)
    coordinator = _leader(story, groups.topic_id, 0)
    for number in range(len(story.state.topics[topic_id].partitions)):
        leader = _leader(story, topic_id, number)
        if leader is not coordinator:
            other = next(each for each in story.cast if each not in (leader, coordinator))
            return number, leader, other
    raise AssertionError("one broker leads everything")


def an_assignment_is_moved_from_a_live_member() -> None:
    """The first member has both partitions, and stores nothing of what it polls. The second one joins: it
    gets nothing of what is to be its own before the first one has stored how far it came, and begins behind
    that."""
    with _serving(2) as (story, _):
        a, b, _ = story.cast
        first, second = IggyGuest(story, a, "first"), IggyGuest(story, b, "second")
        for number in range(2):
            first.send(number, *(b"%d.%d" % (number, each) for each in range(4)))
        first.join()
        polled = {first.share(2).partition for _ in range(2)}
        must(polled == {0, 1}, "the first member polls %s", tuple(polled))
        second.join()
        story.go_on(2 * SECOND)
        early = second.share(1)
        must(not early.messages, "the second member gets %s already", tuple(early.messages))
        kept = first.share(1).partition
        moved = 1 - kept
        must(first.share(1).partition == kept, "the first member polls what it is to give up")
        first.store(moved, 1)
        got = second.share_until_some(5 * SECOND)
        must(got.partition == moved, "the second member gets partition %s", got.partition)
        must(offsets_of(got) == [2], "the second member begins at %s", tuple(offsets_of(got)))
        must(first.share(1).partition == kept, "the first member polls what it gave up")
        story.rest()


def a_member_never_stores_what_it_is_to_give_up() -> None:
    """The first member lives, and stores nothing. The second one gets its partition after 30 s, from the
    beginning on."""
    with _serving(2) as (story, _):
        a, b, _ = story.cast
        first, second = IggyGuest(story, a, "first"), IggyGuest(story, b, "second")
        for number in range(2):
            first.send(number, b"%d" % number)
        first.join()
        for _ in range(2):
            first.share(1)
        second.join()
        story.go_on(2 * SECOND)
        kept = first.share(1).partition
        for _ in range(22):
            must(not second.share(1).messages, "the second member gets something early")
            must(first.share(1).partition == kept, "the first member polls another partition")
            story.go_on(SECOND)
        got = second.share_until_some(10 * SECOND)
        must((got.partition, offsets_of(got)) == (1 - kept, [0]), "the second member gets %s of %s",
             tuple(offsets_of(got)), got.partition)  # fmt: skip
        story.rest()


def a_leader_dies_with_offsets_that_it_was_to_store_soon() -> None:
    """What was stored with polls half a second ago is there, with the next leader, too. What was just now is
    delivered again, and nothing is left out."""
    with _serving(3) as (story, topic_id):
        number, leader, other = _apart(story, topic_id)
        guest = IggyGuest(story, other, "guest")
        guest.send(number, *(b"%d" % each for each in range(6)))
        must(guest.next_of(number, 2) == [0, 1], "the first two come first")
        story.go_on(500 * MS)
        must(guest.next_of(number, 2) == [2, 3], "then the next two")
        leader.end(False)
        again = guest.next_of(number, 2)
        must(_leader(story, topic_id, number) is not leader, "it leads still")
        must(again == [2, 3], "after its death come %s", tuple(again))
        must(guest.next_of(number, 2) == [4, 5], "then the last two")
        leader.start()
        story.until(lambda: story.is_back(leader), "its return", 20 * SECOND)
        story.rest()


def a_deposed_leader_stores_what_it_was_to_store_soon() -> None:
    """It is frozen with an offset that it was to store soon. The consumer goes on at the next leader; then
    the first one goes on, too, and sets nothing back."""
    with _serving(3) as (story, topic_id):
        number, leader, other = _apart(story, topic_id)
        guest = IggyGuest(story, other, "guest")
        guest.send(number, *(b"%d" % each for each in range(6)))
        must(guest.next_of(number, 2) == [0, 1], "the first two come first")
        story.go_on(500 * MS)
        must(guest.next_of(number, 2) == [2, 3], "then the next two")
        assert leader.life is not None
        leader.life.frozen = True
        story.until(lambda: _leader(story, topic_id, number) is not leader, "another leader", 20 * SECOND)
        must(guest.next_of(number, 2) == [2, 3], "the next leader doesn't know of them")
        must(guest.next_of(number, 2) == [4, 5], "then the last two")
        story.go_on(SECOND)
        must(guest.stored(number, ALONE) == 5, "it is not stored")
        story.world.thaw(leader.life)
        story.go_on(5 * SECOND)
        next_leader = _leader(story, topic_id, number)
        next_leader.end(False)  # it knew the offset; the one behind it asks the coordinator
        story.until(lambda: _leader(story, topic_id, number) is not next_leader, "a third", 20 * SECOND)
        must(guest.stored(number, ALONE) == 5, "it is set back to %s", guest.stored(number, ALONE))
        story.rest()


def a_poll_is_answered_when_its_consumer_has_gone_on() -> None:
    """A poll waits at the leader for a message; what the leader answers doesn't get through. The consumer
    goes on at another broker, and stores more. Then the first answer comes, and sets nothing back."""
    with _serving(3, 5000) as (story, topic_id):
        number, leader, other = _apart(story, topic_id)
        third = next(each for each in story.cast if each not in (leader, other))
        late, guest = IggyGuest(story, other, "late"), IggyGuest(story, third, "guest")
        guest.send(number, b"0")
        must(late.next_of(number, 1) == [0], "the first one comes first")
        late.begin_next_of(number, 1)
        story.go_on(100 * MS)
        story.part(leader, other.name, one_way=True)
        guest.send(number, b"1", b"2", b"3")
        must(guest.next_of(number, 3) == [1, 2, 3], "the consumer goes on")
        story.go_on(SECOND)
        must(guest.stored(number, ALONE) == 3, "it is stored")
        story.rejoin(leader, other.name)
        story.go_on(2 * SECOND)
        must(guest.stored(number, ALONE) == 3, "it is set back to %s", guest.stored(number, ALONE))
        story.rest()


def a_partition_is_removed_and_added_under_a_consumer() -> None:
    """The consumers of the new partition begin at its first message, whatever those of the removed one had
    stored; and a broker that was away meanwhile keeps nothing of what it had."""
    with _serving(2) as (story, topic_id):
        _, _, away = _apart(story, topic_id)
        guest = IggyGuest(story, next(each for each in story.cast if each is not away), "guest")
        guest.send(1, *(b"old %d" % each for each in range(4)))
        for consumer in (ALONE, GROUP_CONSUMER):
            guest.store(1, 2, consumer)
        away.end(False)
        guest.ask(RemovePartitionsRequest(of_name(STREAM), of_name(TOPIC), 1))
        guest.ask(AddPartitionsRequest(of_name(STREAM), of_name(TOPIC), 1))
        for consumer in (ALONE, GROUP_CONSUMER):
            stored = guest.stored(1, consumer)
            must(stored is None, "%s is stored for the new partition", stored)
        guest.send(1, b"new")
        found = guest.next_of(1, 10)
        must(found == [0], "the consumer gets %s", tuple(found))
        away.start()
        key = topic_id, 1
        story.until(lambda: _has(story, key, away), "the return of the one that was away", 30 * SECOND)
        replica = away.replica(key)
        assert replica is not None
        must(replica.log.written == 1, "it has %s messages", replica.log.written)
        story.rest()


def _has(story: ToldStory, key: tuple[int, int], machine: BrokerMachine) -> bool:
    """Whether it is in sync in a partition."""
    return machine.broker_id in story.state.topics[key[0]].partitions[key[1]].in_sync


def a_topic_is_purged_under_a_consumer() -> None:
    """Nothing is stored for the purged topic: its consumers begin at the first new message."""
    with _serving(1) as (story, _):
        guest = IggyGuest(story, story.cast[1], "guest")
        guest.send(0, *(b"old %d" % each for each in range(4)))
        for consumer in (ALONE, GROUP_CONSUMER):
            guest.store(0, 2, consumer)
        guest.ask(PurgeTopicRequest(of_name(STREAM), of_name(TOPIC)))
        for consumer in (ALONE, GROUP_CONSUMER):
            stored = guest.stored(0, consumer)
            must(stored is None, "%s is stored for the purged topic", stored)
        guest.send(0, b"new")
        found = guest.next_of(0, 10)
        must(found == [0], "the consumer gets %s", tuple(found))
        story.rest()


def a_topic_is_deleted_by_its_name_through_a_broker_that_is_behind() -> None:
    """A topic is renamed, and another one gets its name, while a broker hears nothing of the controllers. A
    client of that broker deletes the topic of that name: the renamed one stays, with its messages."""
    with _serving(1) as (story, topic_id):
        a, b, _ = story.cast
        guest, late = IggyGuest(story, a, "guest"), IggyGuest(story, b, "late")
        guest.send(0, b"to be kept")
        story.network.cut([b.name], list(story.controllers), one_way=False)
        guest.ask(UpdateTopicRequest(of_name(STREAM), of_name(TOPIC), name="kept"))
        another = CreateTopicRequest(of_name(STREAM), partitions_count=1, replication_factor=3, name=TOPIC)
        guest.ask(another)
        late.begin(DeleteTopicRequest(of_name(STREAM), of_name(TOPIC)))
        story.go_on(500 * MS)
        story.network.heal()
        status = late.awaited()
        must(topic_id in story.state.topics, "the renamed topic is deleted")
        names = [topic.iggy.name for topic in story.state.topics.values() if topic.iggy is not None]
        must(not status and names == ["kept"], "there are %s, after %s", tuple(names), status)
        story.rest()


STORIES: tuple[Callable[[], None], ...] = (
    a_topic_is_purged_under_writers,
    a_stream_and_its_topic_are_renamed_under_readers,
    an_assignment_is_moved_from_a_live_member,
    a_member_never_stores_what_it_is_to_give_up,
    a_leader_dies_with_offsets_that_it_was_to_store_soon,
    a_deposed_leader_stores_what_it_was_to_store_soon,
    a_poll_is_answered_when_its_consumer_has_gone_on,
    a_partition_is_removed_and_added_under_a_consumer,
    a_topic_is_purged_under_a_consumer,
    a_topic_is_deleted_by_its_name_through_a_broker_that_is_behind,
)
