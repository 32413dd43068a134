"""Told stories of an older and a newer version together: new formats are used when all processes know
them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tank_controller.commands.outcome import CommandOutcome
from tank_node.broker.forwarding import ForwardingPolicy
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST, KAFKA, Levels
from tank_protos.feature_levels import OWN as OLD
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import LogFormat
from tests.simulation.story import listening
from tests.simulation.told.told import LIMITS, ToldStory
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.controllers import Controller
from tests.simulation.world.world import SECOND, must
from tests.support.processes import next_level
from tests.support.processes.next_level import NEWER, NEXT

RECORD_BATCHES = "orders"
"""The name of a topic of record batches."""
IN_MEMORY = {"flush": "replicated", "min.insync.replicas": "2"}

Machine = Controller | BrokerMachine


@contextmanager
def _telling(older: Levels = OLD) -> Iterator[ToldStory]:
    """All run the older version, by default today's, and clients write and read. The newer one knows a level
    that is there for the tests alone."""
    with next_level.known():
        story = ToldStory(IN_MEMORY, LIMITS, ForwardingPolicy.NEVER, clients=True)
        for machine in _machines(story):
            machine.levels = older
        with listening(story.world):
            story.begin()
            yield story


def _machines(story: ToldStory) -> list[Machine]:
    return [*story.cluster.nodes.values(), *story.brokers.values()]


def _replace(story: ToldStory, machine: Machine, levels: Levels) -> None:
    """Its process is killed, and one of another version takes its place."""
    machine.end(False)
    story.go_on(SECOND)
    machine.levels = levels
    machine.start()


def _upgrade(story: ToldStory, machine: Machine, levels: Levels = NEWER) -> None:
    _replace(story, machine, levels)
    if isinstance(machine, BrokerMachine):
        story.until(lambda: story.is_back(machine), "its coming back")
    _until_in_sync(story)


def _until_in_sync(story: ToldStory) -> None:
    """All replicas, by the word of a controller that leads and knows all."""
    story.until(lambda: story.is_led and len(story.placed.in_sync) == 3, "everybody in sync")


def _upgrade_all(story: ToldStory) -> None:
    for machine in _machines(story):
        story.go_on(SECOND)
        must(story.state.feature_level == OLD.highest, "it was raised before all knew it")
        _upgrade(story, machine)
    story.until(lambda: story.state.feature_level == NEXT, "the next feature level")


def a_cluster_rolls_to_a_newer_version() -> None:
    """One process after the other, controllers first, while clients go on. The last one brings the level, to
    everybody, for ever."""
    with _telling() as story:
        _upgrade_all(story)
        story.go_on(SECOND)
        for broker in story.brokers.values():
            assert broker.link is not None
            must(broker.link.view.feature_level == NEXT, "%s was not told of it", broker.name)
        _make_snapshots(story)
        for node in story.cluster.nodes.values():
            node.end(True)
            node.start()
        story.until(lambda: story.cluster.leader() is not None, "a leader")
        story.go_on(SECOND)
        must(story.state.feature_level == NEXT, "it was forgotten")
        must(_raised(story) == NEXT - FIRST, "it was raised %s times", _raised(story))
        story.rest()


def _make_snapshots(story: ToldStory) -> None:
    """Much is changed, until all controllers begin with a state of the level that is in force now."""
    nodes = story.cluster.nodes.values()
    index = story.state.index
    leader = story.cluster.leader()
    assert leader is not None
    assert leader.proposals is not None
    assert leader.life is not None
    proposals = leader.proposals

    def ask() -> None:
        for number in range(300):
            init = pb.InitProducer(name=f"told {number}", generation=1)
            proposals.propose(pb.Command(init_producer=init), lambda outcome: None)

    story.world.guarded(leader.life, ask)
    story.until(lambda: all(n.driver is not None and n.driver.snapshot_index > index for n in nodes), "it")


def _raised(story: ToldStory) -> int:
    entries = story.cluster.metadata_books.entries.values()
    return sum(pb.Command.FromString(data).HasField("raise_level") for data, _, error in entries if not error)


def a_roll_is_taken_back_before_its_end() -> None:
    """Brokers first; the last controller is old still. All others go back: they read all that the newer
    version has written."""
    with _telling() as story:
        last, *others = _machines(story)
        others.reverse()
        for machine in others:
            _upgrade(story, machine)
        _replace(story, last, OLD)
        story.until(lambda: story.cluster.leader() not in (None, last), "a leader that is new")
        story.go_on(2 * SECOND)
        must(last.life is not None, "what it doesn't know came into force")
        for machine in reversed(others):
            _replace(story, machine, OLD)
            _until_in_sync(story)
        must(story.state.feature_level == OLD.highest, "it was raised")
        must(last.levels == OLD, "it was upgraded")
        story.rest()


def a_broker_goes_back_after_the_roll() -> None:
    """It is refused, and the others go on without it, until it runs the newer version again."""
    with _telling() as story:
        _upgrade_all(story)
        machine = story.cast[2]
        _replace(story, machine, OLD)
        story.go_on(5 * SECOND)
        must(machine.life is None, "an old broker was taken")
        must(story.state.brokers[machine.broker_id].fenced, "it counts as one that lives")
        _upgrade(story, machine)
        story.rest()


def a_controller_goes_back_after_the_roll() -> None:
    """It ends, whether it has a log or comes with an emptied disk: the others are never changed by it."""
    with _telling() as story:
        _upgrade_all(story)
        leader = story.cluster.leader()
        node = next(node for node in story.cluster.nodes.values() if node is not leader)
        _replace(story, node, OLD)
        story.go_on(5 * SECOND)
        must(node.life is None, "an old controller goes on")
        node.empty()
        node.start()
        story.go_on(5 * SECOND)
        leader = story.cluster.leader()
        assert leader is not None
        must(node.own not in leader.raft.configuration.members, "an old controller was added")
        _upgrade(story, node)
        story.until(lambda: _votes(story, node), "its vote")
        story.rest()


def an_old_broker_comes_back_while_the_level_is_raised() -> None:
    """It was there before, is away, and registers just when all that are there know the next level: they wait
    for it, or it is refused; it never is one of a cluster that it doesn't know."""
    with _telling() as story:
        *others, last = _machines(story)
        last.end(False)
        for machine in others:
            _replace(story, machine, NEWER)
        story.until(lambda: story.cluster.leader() is not None, "a leader")
        story.go_on(5 * SECOND)
        must(story.state.feature_level == OLD.highest, "one that is away was forgotten")
        last.start()
        story.until(lambda: len(story.placed.in_sync) == 3, "everybody in sync")
        must(story.state.feature_level == OLD.highest, "an old broker is in a cluster of the new level")
        _upgrade(story, last)
        story.until(lambda: story.state.feature_level == NEXT, "the next feature level")
        story.rest()


def a_topic_of_record_batches_waits_for_the_last_old_broker() -> None:
    """It would append bundles to the topic, because it leaves out settings that it doesn't know."""
    with _telling(Levels(FIRST, FIRST)) as story:
        *others, last = _machines(story)
        for machine in others:
            _upgrade(story, machine, OLD)
        story.go_on(2 * SECOND)
        must(_refusal_of_record_batches(story) is ErrorCode.INVALID_SETTING, "an old broker would have it")
        _upgrade(story, last, OLD)
        story.until(lambda: story.state.feature_level >= KAFKA, "the feature level of record batches")
        must(_refusal_of_record_batches(story) is None, "it is refused for ever")
        story.go_on(SECOND)
        for broker in story.brokers.values():
            assert broker.link is not None
            topic = broker.link.view.topic(RECORD_BATCHES)
            must(
                topic is not None and topic.settings.log_format is LogFormat.KAFKA, "%s lacks it", broker.name
            )
        story.rest()


def _refusal_of_record_batches(story: ToldStory) -> ErrorCode | None:
    """Tries to create a topic of record batches; returns the error."""
    leader = story.cluster.leader()
    assert leader is not None
    assert leader.proposals is not None
    assert leader.life is not None
    proposals = leader.proposals
    settings = [pb.Setting(key="log.format", value="kafka")]
    create = pb.CreateTopic(name=RECORD_BATCHES, partitions=1, replication_factor=3, settings=settings)
    outcomes: list[CommandOutcome] = []
    story.world.guarded(
        leader.life, lambda: proposals.propose(pb.Command(create_topic=create), outcomes.append)
    )
    story.until(lambda: bool(outcomes), "an outcome")
    return outcomes[0].rejection.error if outcomes[0].rejection is not None else None


def _votes(story: ToldStory, node: Controller) -> bool:
    leader = story.cluster.leader()
    return leader is not None and node.own in leader.raft.configuration.voters


STORIES: tuple[Callable[[], None], ...] = (
    a_cluster_rolls_to_a_newer_version,
    a_roll_is_taken_back_before_its_end,
    a_broker_goes_back_after_the_roll,
    a_controller_goes_back_after_the_roll,
    an_old_broker_comes_back_while_the_level_is_raised,
    a_topic_of_record_batches_waits_for_the_last_old_broker,
)
