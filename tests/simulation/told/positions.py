"""Told stories of the positions that TANK's clients commit: at the controllers, on their way to the groups'
coordinators, and there."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tank_node.broker.broker import Broker
from tank_node.broker.forwarding import ForwardingPolicy
from tank_node.cluster.link import CommitOutcome, Position, PositionsOutcome
from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_hash import partition_of
from tank_node.peers.group_router import router_of
from tank_node.tank.dispatch import open_session
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST, GROUPS, IGGY, NATIVE_GROUPS, OWN, Levels
from tank_protos.generated.tank import (
    CommitPositionsRequest,
    CommitPositionsResponse,
    FetchPositionsRequest,
    FetchPositionsResponse,
    GroupHeartbeatRequest,
    GroupHeartbeatResponse,
    OwnedTopic,
    PositionToCommit,
)
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.story import listening
from tests.simulation.told.told import LIMITS, ToldStory
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.controllers import Controller
from tests.simulation.world.serving import Server
from tests.simulation.world.world import MS, SECOND, Violation, must

GROUP = "g"
IN_THE_WAY = "iggy:c:billing"
AT_CONTROLLERS = Levels(FIRST, GROUPS)
"""The levels that a version knows whose controllers keep positions."""
PASSING = (ErrorCode.TIMED_OUT, ErrorCode.COORDINATOR_LOADING, ErrorCode.COORDINATOR_NOT_AVAILABLE)


@contextmanager
def _telling(levels: Levels = OWN, *, older: bool = False) -> Iterator[ToldStory]:
    """A story whose processes know these levels. older: one controller is of a version that keeps positions,
    so that all do so until it is upgraded."""
    story = ToldStory({"flush": "disk"}, LIMITS, ForwardingPolicy.NEVER, clients=False)
    for node in story.cluster.nodes.values():
        node.levels = levels
    for broker in story.brokers.values():
        broker.levels = levels
    if older:
        _older(story).levels = AT_CONTROLLERS
    with listening(story.world):
        story.begin()
        yield story


# --- at the controllers ----------------------------------------------------------------------------


def a_position_is_overtaken() -> None:
    """A is asked to keep a position, and its stream breaks; meanwhile the group goes on at B. A's next stream
    doesn't bring the older position back."""
    with _telling(AT_CONTROLLERS) as story:
        a, b, _ = story.cast
        answers: list[CommitOutcome] = []
        story.part(a, *story.controllers, one_way=True)
        _keep(story, a, 5, answers)
        _keep(story, b, 7, answers)
        story.until(lambda: len(answers) == 1, "the answer to B")
        story.break_streams(a, *story.controllers)
        story.rejoin(a, *story.controllers)
        story.until(lambda: len(answers) == 2, "the answer to A", 40 * SECOND)
        must(_kept(story, b) == 7, "the position has gone back to %s", _kept(story, b))
        story.rest()


def a_position_in_flight_comes_after_its_group_went_on() -> None:
    """A is asked to keep a position, is cut off and killed before the controllers hear of it, and the group
    goes on at B. The network heals before A is fenced, and brings what A had sent: it comes too late. A group
    that goes from one broker to another is refused at most once: then the broker has heard of the others."""
    with _telling(AT_CONTROLLERS) as story:
        a, b, c = story.cast
        _must_keep(story, a, 3)
        story.part(a, *story.controllers, one_way=True)
        _keep(story, a, 5, [])
        story.go_on(100 * MS)
        a.end(False)
        _must_keep(story, b, 7)
        story.rejoin(a, *story.controllers)
        story.go_on(SECOND)
        must(_kept(story, b) == 7, "the position has gone back to %s", _kept(story, b))
        _must_keep(story, c, 4)  # somebody reads again
        must(_kept(story, b) == 4, "the position is %s", _kept(story, b))
        a.start()
        story.rest()


def _must_keep(story: ToldStory, machine: BrokerMachine, number: int, group: str = GROUP) -> None:
    """As a client does it, which asks again when it is told to."""
    answers: list[CommitOutcome] = []
    _keep(story, machine, number, answers, group)
    story.until(lambda: bool(answers), "the answer")
    if answers[0].error is ErrorCode.TIMED_OUT:
        _keep(story, machine, number, answers, group)
        story.until(lambda: len(answers) == 2, "the second answer")
    must(answers[-1].results == [ErrorCode.NONE], "%s is not kept: %s", number, answers[-1])


def _kept(story: ToldStory, machine: BrokerMachine) -> int:
    found: list[PositionsOutcome] = []
    assert machine.link is not None
    link = machine.link
    story.do(machine, lambda: link.requests.fetch_positions(GROUP, ["told"], found.append))
    story.until(lambda: bool(found), "the position")
    [kept] = found[0].positions
    return kept.sequence_number


def _keep(
    story: ToldStory,
    machine: BrokerMachine,
    number: int,
    answers: list[CommitOutcome],
    group: str = GROUP,
) -> None:
    assert machine.link is not None
    link = machine.link
    position = Position("told", 0, number, "")
    story.do(machine, lambda: link.requests.commit_positions(group, [position], answers.append))


# --- on their way ----------------------------------------------------------------------------------


def positions_move_to_their_coordinator_which_dies() -> None:
    """The controllers have kept a position when the last process is upgraded. The coordinator takes it over,
    and is killed; the next one has it."""
    with _telling(older=True) as story:
        _must_keep(story, story.cast[0], 5)
        _upgrade(story)
        must(_shown(story, story.cast[0]) == 5, "another position is shown")
        story.until(lambda: _is_dropped(story), "the controllers' dropping it", 30 * SECOND)
        first = _the_coordinator(story)
        first.end(False)
        _until_another(story, first)
        must(_shown(story, _the_coordinator(story)) == 5, "another position is shown")
        _commit(story, _the_coordinator(story), 6)
        first.start()
        story.rest()


def a_coordinator_dies_while_positions_move() -> None:
    """Its followers are cut off from it, so that what it takes over is not stored: it shows nothing
    meanwhile, and the controllers drop nothing."""
    with _telling(older=True) as story:
        _create_internal_topic(story)
        _must_keep(story, story.cast[0], 5)
        _stop_older(story)
        coordinator = _the_coordinator(story)
        others = [each.name for each in story.brokers.values() if each is not coordinator]
        _start_newer(story)
        story.part(coordinator, *others)
        story.until(lambda: story.is_led and story.state.feature_level >= NATIVE_GROUPS, "the level")
        story.go_on(2 * SECOND)
        asked = _ask(story, coordinator, FetchPositionsRequest(group=GROUP))
        story.go_on(2 * SECOND)
        must(bool(asked) and _error(asked[0]) in PASSING, "it shows positions without those that move")
        coordinator.end(True)
        story.rejoin(coordinator, *others)
        _until_another(story, coordinator)
        must(_shown(story, _the_coordinator(story)) == 5, "another position is shown")
        coordinator.start()
        story.rest()


def a_question_of_before_the_move_comes_after_it() -> None:
    """A broker asks the controllers for a position while they keep it, and the question arrives when they
    have dropped it: they don't say that there is none."""
    with _telling(older=True) as story:
        _must_keep(story, story.cast[0], 5)
        asking = story.cast[1]
        _stop_older(story)
        story.part(asking, *story.controllers, one_way=True)
        found: list[PositionsOutcome] = []
        link = asking.link
        assert link is not None
        story.do(asking, lambda: link.requests.fetch_positions(GROUP, [], found.append))
        _start_newer(story)
        story.until(lambda: _is_dropped(story), "the controllers' dropping it", 30 * SECOND)
        story.rejoin(asking, *story.controllers)
        story.until(lambda: bool(found), "the answer", 40 * SECOND)
        told = found[0]
        shown = [each.sequence_number for each in told.positions]
        must(told.error is not ErrorCode.UNKNOWN_GROUP, "it is told that there are no positions")
        must(bool(told.error) or shown == [5], "it is told the positions %s", shown)
        story.rest()


def a_group_that_moves_holds_up_the_level_that_needs_its_name() -> None:
    """The controllers have kept a position of a group whose name Iggy's clients need from their level on. It
    moves to its coordinator, and at no moment does the level rise as if the group were nowhere: it waits for
    the group's deletion."""
    with _telling(older=True) as story:
        _create_internal_topic(story)
        _must_keep(story, story.cast[0], 5, IN_THE_WAY)
        _upgrade(story)
        story.until(lambda: _is_dropped(story), "the controllers' dropping it", 30 * SECOND)
        story.go_on(5 * SECOND)
        must(story.state.feature_level < IGGY, "the level has come, and the group has a name of Iggy's")
        _delete(story, IN_THE_WAY)
        story.until(lambda: story.is_led and story.state.feature_level == IGGY, "the level", 30 * SECOND)
        story.rest()


def _delete(story: ToldStory, group: str) -> None:
    """As an operator's tool does it, at the coordinator."""
    results: list[GroupError] = []
    for machine in story.brokers.values():
        server, broker = machine.server, machine.broker
        assert server is not None
        assert broker is not None

        def act(server: Server = server, broker: Broker = broker) -> None:
            server.begin()
            groups_of(broker).delete([group], lambda found: results.append(found[group]))
            server.finish()

        story.do(machine, act)
    story.until(lambda: len(results) == len(story.brokers), "the answers")
    must(results.count(GroupError.NONE) == 1, "it is not deleted: %s", results)


# --- at the coordinators ---------------------------------------------------------------------------


def a_commit_in_flight_comes_after_its_group_went_on() -> None:
    """A passes a commit on, is cut off from the coordinator, and is killed; the group goes on at B. The
    network heals, and brings what A had sent: it comes too late."""
    with _telling() as story:
        _commit(story, story.cast[0], 3)
        coordinator = _the_coordinator(story)
        a, b = [each for each in story.brokers.values() if each is not coordinator]
        _commit(story, a, 4)
        story.part(a, coordinator.name, one_way=True)
        _ask(story, a, _commit_of(5))
        story.go_on(100 * MS)
        a.end(False)
        _commit(story, b, 7)
        story.rejoin(a, coordinator.name)
        story.go_on(SECOND)
        must(_shown(story, b) == 7, "the position has gone back to %s", _shown(story, b))
        _commit(story, b, 8)
        must(_shown(story, coordinator) == 8, "the position is %s", _shown(story, coordinator))
        a.start()
        story.rest()


def a_heartbeat_in_flight_comes_after_its_member_went_on() -> None:
    """M joins by way of A, which is cut off from the coordinator and killed. M joins by way of B and gets the
    partition; N joins; M wants other topics, and is to give the partition up to N. The network heals, and
    brings M's first heartbeat, which says that it has nothing: N must wait until M says so itself."""
    with _telling() as story:
        _commit(story, story.cast[0], 3)
        coordinator = _the_coordinator(story)
        a, b = [each for each in story.brokers.values() if each is not coordinator]
        _commit(story, a, 4)
        story.part(a, coordinator.name, one_way=True)
        _ask(story, a, _beat("m", 0))
        story.go_on(100 * MS)
        a.end(False)
        must(_is_assigned(story, b, _beat("m", 0)), "M has not got the partition")
        must(not _is_assigned(story, b, _beat("n", 0)), "N has the partition at once")
        must(_is_assigned(story, b, _beat("m", 1, has_it=True)), "M has lost the partition")
        must(not _is_assigned(story, b, _beat("m", 2, has_it=True, reads=False)), "M is to keep it")
        story.rejoin(a, coordinator.name)
        story.go_on(SECOND)
        must(not _is_assigned(story, b, _beat("n", 2)), "N has what M still reads")
        must(not _is_assigned(story, b, _beat("m", 2, reads=False)), "M has it again")
        must(_is_assigned(story, b, _beat("n", 3)), "N has not got the partition")
        a.start()
        story.rest()


def a_coordinator_is_asked_that_coordinates_no_more() -> None:
    """It is cut off from all others, and hasn't heard that another one took its place."""
    with _telling() as story:
        _commit(story, story.cast[0], 3)
        coordinator = _the_coordinator(story)
        others = [each.name for each in story.brokers.values() if each is not coordinator]
        story.part(coordinator, *story.controllers, *others)
        _until_another(story, coordinator)
        _commit(story, _the_coordinator(story), 7)
        asked = _ask(story, coordinator, FetchPositionsRequest(group=GROUP))
        story.go_on(SECOND)
        for answer in asked:
            must(_error(answer) in PASSING, "a broker of before shows a position")
        story.rejoin(coordinator, *story.controllers, *others)
        story.until(lambda: story.is_back(coordinator), "its coming back", 30 * SECOND)
        must(_shown(story, coordinator) == 7, "the position is %s", _shown(story, coordinator))
        story.rest()


# --- what clients do -------------------------------------------------------------------------------


def _ask(story: ToldStory, machine: BrokerMachine, request: Message) -> list[Message | GroupError]:
    """Asks by way of a broker; the answer comes into the list."""
    answers: list[Message | GroupError] = []
    server, broker = machine.server, machine.broker
    assert server is not None
    assert broker is not None

    def act() -> None:
        server.begin()
        router_of(broker).ask(GROUP, request, open_session(broker), answers.append)
        server.finish()

    story.do(machine, act)
    return answers


def _commit_of(number: int) -> CommitPositionsRequest:
    return CommitPositionsRequest(version=1, group=GROUP, positions=[PositionToCommit("told", 0, number, "")])


def _beat(member_id: str, epoch: int, *, has_it: bool = False, reads: bool = True) -> GroupHeartbeatRequest:
    """A member's heartbeat, which says everything. reads: whether it wants the topic."""
    return GroupHeartbeatRequest(
        group=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=600_000,
        has_topics=1,
        topics=["told"] if reads else ["another"],
        has_owned=1,
        owned=[OwnedTopic("told", [0])] if has_it else [],
    )


def _is_assigned(story: ToldStory, machine: BrokerMachine, beat: GroupHeartbeatRequest) -> bool:
    """Whether a member may read the partition, as it hears in the answer."""
    answer = _answer(story, machine, beat)
    assert isinstance(answer, GroupHeartbeatResponse)
    must(not answer.error, "%s is refused: %s", beat.member_id, answer.message)
    return any(topic.partitions for topic in answer.assignment)


def _error(answer: Message | GroupError) -> int:
    if isinstance(answer, CommitPositionsResponse | FetchPositionsResponse | GroupHeartbeatResponse):
        return answer.error
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def _answer(story: ToldStory, machine: BrokerMachine, request: Message) -> Message | GroupError:
    """As a client does it, which asks again when it is told to."""
    for _ in range(60):
        answers = _ask(story, machine, request)
        story.until(lambda answers=answers: bool(answers), "the answer", 40 * SECOND)  # type: ignore[misc]
        if _error(answers[0]) not in PASSING:
            return answers[0]
        story.go_on(200 * MS)
    raise Violation("it is refused for ever")


def _commit(story: ToldStory, machine: BrokerMachine, number: int) -> None:
    answer = _answer(story, machine, _commit_of(number))
    assert isinstance(answer, CommitPositionsResponse)
    must([each.error for each in answer.results] == [0], "%s is not committed: %s", number, answer.message)


def _shown(story: ToldStory, machine: BrokerMachine) -> int:
    answer = _answer(story, machine, FetchPositionsRequest(group=GROUP, topics=["told"]))
    assert isinstance(answer, FetchPositionsResponse)
    must(not answer.error, "a group that has a position is refused: %s", answer.message)
    [position] = answer.positions
    return position.sequence_number


# --- who is there ----------------------------------------------------------------------------------


def _coordinator(story: ToldStory) -> BrokerMachine | None:
    """The broker that leads the group's partition, by the controllers; None: there is none now."""
    if not story.is_led:
        return None
    topic_id = story.state.topic_ids.get(GROUPS_TOPIC)
    if topic_id is None:
        return None
    partitions = story.state.topics[topic_id].partitions
    return story.brokers.get(partitions[partition_of(GROUP, len(partitions))].leader)


def _the_coordinator(story: ToldStory) -> BrokerMachine:
    found = _coordinator(story)
    must(found is not None, "no broker coordinates the group")
    assert found is not None
    return found


def _until_another(story: ToldStory, before: BrokerMachine) -> None:
    story.until(lambda: _coordinator(story) not in (None, before), "another coordinator", 30 * SECOND)


def _create_internal_topic(story: ToldStory) -> None:
    """As a Kafka client's first group does it."""
    machine = story.cast[0]
    server, broker = machine.server, machine.broker
    assert server is not None
    assert broker is not None
    found: list[GroupError] = []

    def act() -> None:
        server.begin()
        groups_of(broker).coordinator_of(GROUP, lambda error, leader: found.append(error))
        server.finish()

    story.do(machine, act)
    story.until(lambda: bool(found) and _coordinator(story) is not None, "the internal topic")


def _older(story: ToldStory) -> Controller:
    """The controller that is upgraded last."""
    return list(story.cluster.nodes.values())[-1]


def _stop_older(story: ToldStory) -> None:
    """The last process of the older version ends; others lead."""
    _older(story).end(False)
    story.until(lambda: story.is_led, "a controller that leads")


def _start_newer(story: ToldStory) -> None:
    """One of the newer version takes its place."""
    node = _older(story)
    node.levels = OWN
    node.start()


def _upgrade(story: ToldStory) -> None:
    _stop_older(story)
    _start_newer(story)
    story.until(lambda: story.is_led and story.state.feature_level >= NATIVE_GROUPS, "the level", 30 * SECOND)


def _is_dropped(story: ToldStory) -> bool:
    return story.is_led and story.state.feature_level >= NATIVE_GROUPS and not story.state.groups


STORIES: tuple[Callable[[], None], ...] = (
    a_position_is_overtaken,
    a_position_in_flight_comes_after_its_group_went_on,
    positions_move_to_their_coordinator_which_dies,
    a_coordinator_dies_while_positions_move,
    a_question_of_before_the_move_comes_after_it,
    a_group_that_moves_holds_up_the_level_that_needs_its_name,
    a_commit_in_flight_comes_after_its_group_went_on,
    a_heartbeat_in_flight_comes_after_its_member_went_on,
    a_coordinator_is_asked_that_coordinates_no_more,
)
