"""Feature level 5: it waits for groups of other clients whose names are Iggy's from it on."""

from collections.abc import Callable

import pytest

from tank_controller.leader.brokers.streams import Stream
from tank_controller.leader.raising import Raising
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST, GROUPS, IGGY, KAFKA, NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import GROUPS_TOPIC
from tests.controller.cluster_for_tests import Cluster
from tests.controller.commands_for_tests import commit, create
from tests.controller.office import Line

NAME = "iggy:c:billing"


def internal(partitions: int = 2) -> pb.Command:
    command = create(GROUPS_TOPIC, partitions)
    command.create_topic.internal = True
    command.create_topic.replication_factor = 2
    return command


def to(level: int, state: ClusterState) -> pb.Command:
    return pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=state.index))


def stream(cluster: Cluster, broker_id: int) -> Stream:
    """That of a broker which knows the level."""
    found = Stream(Line())
    found.broker_id, found.epoch, found.max_level = broker_id, cluster.state.brokers[broker_id].epoch, IGGY
    return found


class Leader:
    """A controller that leads a cluster of level 4 with two brokers, which coordinate groups."""

    def __init__(self) -> None:
        self.cluster = Cluster(1, 2)
        self.state = self.cluster.state
        self.raising = Raising(max_level=IGGY)
        self.cluster.raise_to(NATIVE_GROUPS)
        self.topic_id = self.cluster.do(internal()).topic_id
        partitions = self.state.topics[self.topic_id].partitions
        assert {each.leader for each in partitions} == {1, 2}

    def hear(self, broker_id: int, *names: str, seen_index: int | None = None) -> None:
        seen = self.state.index if seen_index is None else seen_index
        heartbeat = pb.BrokerHeartbeat(seen_index=seen, names_held=pb.NamesHeld(groups=names))
        self.raising.held.heard(broker_id, self.state.brokers[broker_id].epoch, heartbeat)

    @property
    def may_raise(self) -> bool:
        """As far as names hold it up."""
        return self.raising.held.found(self.state).are_free

    @property
    def silent(self) -> list[int]:
        return list(self.raising.held.found(self.state).silent)


@pytest.fixture
def leader() -> Leader:
    return Leader()


def test_it_rises_when_all_coordinators_have_said_that_there_is_none(leader: Leader) -> None:
    assert not leader.may_raise
    assert leader.raising.waits_for(leader.state, {})[0] == [1, 2]
    leader.hear(1)
    assert leader.silent == [2]
    leader.hear(2)
    assert leader.may_raise


def test_it_waits_for_the_deletion_of_those_that_there_are(leader: Leader) -> None:
    leader.hear(1, NAME)
    leader.hear(2, "iggy:g:7")
    assert not leader.may_raise
    assert leader.raising.groups_in_the_way(leader.state) == [NAME, "iggy:g:7"]
    leader.hear(1)
    assert leader.raising.groups_in_the_way(leader.state) == ["iggy:g:7"]
    leader.hear(2)
    assert leader.may_raise


def test_a_few_are_named_of_very_many(leader: Leader) -> None:
    for number in range(1000):
        leader.state.groups[f"iggy:g:{number}"] = {}
    leader.hear(1, *(f"iggy:c:{number}" for number in range(10)))
    leader.hear(2)
    assert leader.raising.groups_in_the_way(leader.state) == [f"iggy:c:{number}" for number in range(10)]
    assert not leader.may_raise


def test_what_was_said_before_a_partition_got_another_leader_counts_no_more(leader: Leader) -> None:
    before = leader.state.index
    leader.hear(1)
    leader.hear(2)
    assert leader.may_raise
    leader.cluster.do(
        pb.Command(fence_broker=pb.FenceBroker(broker_id=2, epoch=leader.state.brokers[2].epoch))
    )
    partitions = leader.state.topics[leader.topic_id].partitions
    assert {each.leader for each in partitions} == {1}
    assert leader.silent == [1], "it coordinates more groups now"
    leader.hear(1, seen_index=before)
    assert leader.silent == [1], "its view was older"
    leader.hear(1)
    assert leader.may_raise


def test_a_partition_without_a_leader_has_groups_that_are_not_known(leader: Leader) -> None:
    for broker_id in (1, 2):
        epoch = leader.state.brokers[broker_id].epoch
        leader.cluster.do(pb.Command(fence_broker=pb.FenceBroker(broker_id=broker_id, epoch=epoch)))
        if broker_id == 1:
            leader.hear(2)
    assert not leader.may_raise


@pytest.mark.parametrize(
    "forget",
    [
        lambda leader: leader.raising.held.begin_term(),
        lambda leader: leader.raising.held.heard(1, leader.state.brokers[1].epoch, pb.BrokerHeartbeat()),
        lambda leader: leader.cluster.up(1),
    ],
    ids=["another term", "it reads groups again", "another process"],
)
def test_what_was_said_is_not_kept(leader: Leader, forget: Callable[[Leader], None]) -> None:
    leader.hear(1)
    leader.hear(2)
    forget(leader)
    assert not leader.may_raise
    assert leader.silent


def test_a_cluster_without_coordinators_has_none_but_those_whose_positions_the_controllers_keep() -> None:
    cluster = Cluster(1)
    topic = cluster.topic("t", factor=1)
    cluster.do(commit(NAME, (topic, 0, 5)))
    for level in (KAFKA, GROUPS, NATIVE_GROUPS):
        cluster.do(to(level, cluster.state))
    raising = Raising(max_level=IGGY)
    connected = {1: stream(cluster, 1)}
    assert raising.command(cluster.state, connected) is None
    assert raising.groups_in_the_way(cluster.state) == [NAME]
    assert cluster.error(to(IGGY, cluster.state)) is ErrorCode.GROUP_EXISTS, "whoever leads"
    cluster.do(pb.Command(drop_positions=pb.DropPositions(groups=[NAME])))
    assert raising.command(cluster.state, connected) == to(IGGY, cluster.state)


def test_positions_that_have_just_moved_are_named_by_their_coordinator_first(leader: Leader) -> None:
    leader.state.groups[NAME] = {}
    leader.hear(1)
    leader.hear(2)
    assert leader.raising.groups_in_the_way(leader.state) == [NAME]
    before = leader.state.index
    del leader.state.groups[NAME]
    leader.state.index += 1
    assert leader.silent == [1, 2], "they may have spoken before they took it over"
    leader.hear(1, seen_index=before)
    leader.hear(2, NAME)
    assert not leader.may_raise
    assert leader.silent == [1]


@pytest.mark.parametrize(("in_force", "known"), [(FIRST, IGGY), (NATIVE_GROUPS, NATIVE_GROUPS)])
def test_it_is_asked_before_that_level_alone(in_force: int, known: int) -> None:
    cluster = Cluster(1)
    topic = cluster.topic("t", factor=1)
    cluster.do(commit(NAME, (topic, 0, 5)))
    for level in range(FIRST + 1, in_force + 1):
        cluster.do(to(level, cluster.state))
    assert Raising(max_level=known).groups_in_the_way(cluster.state) == ()
