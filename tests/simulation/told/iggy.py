"""Told stories of the names of Iggy's clients: purged topics, renamed streams."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.cluster.iggy_link import IggyDone, IggyOutcome, IggyRequests, IggyTopicChange
from tank_node.cluster.iggy_parts import StreamView
from tank_node.cluster.iggy_view import IggyView
from tank_node.cluster.view import TopicView
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import IGGY
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


STORIES: tuple[Callable[[], None], ...] = (
    a_topic_is_purged_under_writers,
    a_stream_and_its_topic_are_renamed_under_readers,
)
