"""New partitions on brokers that a client chose."""

import pytest

from tank_controller import limits
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import KAFKA
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import alter, applied, apply, create, error_of, register


def three_brokers(level: int = KAFKA) -> ClusterState:
    state = applied(*(register(broker_id) for broker_id in (1, 2, 3)))
    if level == KAFKA:
        apply(state, pb.Command(raise_level=pb.RaiseLevel(level=KAFKA, seen_index=state.index)))
    return state


def assign(command: pb.Command, *placed: tuple[int, ...]) -> pb.Command:
    """The command with these brokers for each of its new partitions."""
    body = command.create_topic if command.HasField("create_topic") else command.alter_topic
    body.assignments.extend(pb.Assignment(replicas=replicas) for replicas in placed)
    return command


def placed_of(state: ClusterState, name: str = "t") -> list[tuple[int, ...]]:
    topic = state.topic(name)
    assert topic is not None
    return [partition.replicas for partition in topic.partitions]


def test_a_topics_replicas_go_where_the_command_says_and_the_first_leads() -> None:
    state = three_brokers()
    apply(state, assign(create("t", 3, 2), (3, 1), (2, 3), (3, 2)))
    assert placed_of(state) == [(3, 1), (2, 3), (3, 2)]
    topic = state.topic("t")
    assert topic is not None
    assert [partition.leader for partition in topic.partitions] == [3, 2, 3]
    assert [partition.in_sync for partition in topic.partitions] == [(3, 1), (2, 3), (3, 2)]
    assert [len(state.held_by(broker_id)) for broker_id in (1, 2, 3)] == [1, 2, 3]


def test_added_partitions_go_where_the_command_says_and_the_others_stay() -> None:
    state = three_brokers()
    apply(state, assign(create("t", 1, 1), (2,)))
    topic = state.topic("t")
    assert topic is not None
    apply(state, assign(alter(topic.topic_id, 3), (3,), (1,)))
    assert placed_of(state) == [(2,), (3,), (1,)]


def test_a_fenced_broker_may_be_chosen_and_does_not_lead() -> None:
    state = three_brokers()
    epoch = state.brokers[3].epoch
    apply(state, pb.Command(fence_broker=pb.FenceBroker(broker_id=3, epoch=epoch)))
    apply(state, assign(create("t", 2, 2), (3, 1), (1, 3)))
    topic = state.topic("t")
    assert topic is not None
    assert [partition.leader for partition in topic.partitions] == [1, 1]
    assert [partition.in_sync for partition in topic.partitions] == [(1,), (1,)]


@pytest.mark.parametrize(
    ("placed", "error"),
    [
        ([(1, 2)], ErrorCode.INELIGIBLE_REPLICA),
        ([(1, 2), (2, 1), (1, 2)], ErrorCode.INELIGIBLE_REPLICA),
        ([(1, 2), (2,)], ErrorCode.INELIGIBLE_REPLICA),
        ([(1, 2), ()], ErrorCode.INELIGIBLE_REPLICA),
        ([(1, 2), (3, 3)], ErrorCode.INELIGIBLE_REPLICA),
        ([(1, 2), (3, 4)], ErrorCode.UNKNOWN_BROKER),
        ([(1, 2), (0, 1)], ErrorCode.UNKNOWN_BROKER),
    ],
)
def test_assignments_that_do_not_agree_are_refused_of_new_topics_and_of_old(
    placed: list[tuple[int, ...]], error: ErrorCode
) -> None:
    state = three_brokers()
    assert error_of(state, assign(create("t", 2, 2), *placed)) is error
    apply(state, create("t", 1, 2))
    topic = state.topic("t")
    assert topic is not None
    assert error_of(state, assign(alter(topic.topic_id, 3), *placed)) is error
    assert len(topic.partitions) == 1


def test_brokers_that_take_nothing_more_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    state = three_brokers()
    apply(
        state, pb.Command(set_broker=pb.SetBroker(broker_id=3, epoch=state.brokers[3].epoch, draining=True))
    )
    assert error_of(state, assign(create("t"), (3,))) is ErrorCode.INELIGIBLE_REPLICA
    monkeypatch.setattr(limits, "MAX_REPLICAS_PER_BROKER", 1)
    assert error_of(state, assign(create("t", 2, 1), (2,), (2,))) is ErrorCode.LIMIT_REACHED
    assert apply(state, assign(create("t", 2, 1), (2,), (1,))).rejection is None


def test_below_the_level_they_are_ignored_as_older_controllers_do() -> None:
    chosen, free = three_brokers(level=1), three_brokers(level=1)
    apply(chosen, assign(create("t", 2, 1), (3,), (4,)))
    apply(free, create("t", 2, 1))
    assert placed_of(chosen) == placed_of(free)
