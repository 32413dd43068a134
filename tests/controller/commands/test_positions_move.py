"""Feature level 4: coordinators keep the positions of groups, and take over those that are here."""

from pathlib import Path

from tank_controller.leader.brokers.requests import query_answers
from tank_controller.leader.raising import Raising
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST, GROUPS, NATIVE_GROUPS
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import (
    applied,
    apply,
    commit,
    create,
    error_of,
    raise_level,
    register,
)
from tests.controller.office import Office


def holding(level: int) -> ClusterState:
    """A state at this level with positions of two groups, which were committed at the first one."""
    raises = [raise_level(each) for each in range(FIRST + 1, level + 1)]
    return applied(
        register(),
        create("t", 2),
        commit("g", (2, 0, 5), (2, 1, 6), metadata=b"n"),
        commit("h", (2, 0, 1)),
        *raises,
    )


def drop(*groups: str) -> pb.Command:
    return pb.Command(drop_positions=pb.DropPositions(groups=groups))


def asked(state: ClusterState, *, to_move: bool) -> tuple[pb.QueryAnswer, pb.QueryAnswer]:
    """The answers for the positions of the group, and for the names of all."""
    positions = pb.BrokerQuery(positions=pb.PositionsQuery(group="g", to_move=to_move))
    names = pb.BrokerQuery(groups=pb.GroupsQuery(to_move=to_move))
    (of_group,), (of_all,) = query_answers(state, positions), query_answers(state, names)
    return of_group, of_all


def test_no_position_is_taken_from_the_level_on() -> None:
    state = holding(NATIVE_GROUPS)
    assert error_of(state, commit("g", (2, 0, 7))) is ErrorCode.OVERLOADED, "clients ask again"
    assert apply(holding(GROUPS), commit("g", (2, 0, 7))).results == [ErrorCode.NONE]


def test_they_are_dropped_when_their_coordinator_says_so() -> None:
    state = holding(NATIVE_GROUPS)
    assert apply(state, drop("g", "none")).rejection is None
    assert list(state.groups) == ["h"]
    assert (state.position_count, state.metadata_bytes) == (1, 0)
    assert apply(state, drop("g")).rejection is None, "a second time, too"
    loaded = ClusterState.load(state.snapshot())
    assert (list(loaded.groups), loaded.position_count) == (["h"], 1)


def test_below_the_level_none_are_dropped() -> None:
    state = holding(GROUPS)
    assert error_of(state, drop("g")) is ErrorCode.INVALID_REQUEST
    assert sorted(state.groups) == ["g", "h"]


def test_a_coordinator_alone_is_shown_them_from_the_level_on() -> None:
    """A broker whose view is behind would tell a group that its positions are gone, or old ones."""
    of_group, of_all = asked(holding(GROUPS), to_move=False)
    assert ([each.sequence_number for each in of_group.positions], list(of_all.groups)) == (
        [5, 6],
        ["g", "h"],
    )
    assert [each.error for each in asked(holding(GROUPS), to_move=True)] == [ErrorCode.OVERLOADED] * 2
    of_group, of_all = asked(holding(NATIVE_GROUPS), to_move=True)
    assert ([each.sequence_number for each in of_group.positions], list(of_all.groups)) == (
        [5, 6],
        ["g", "h"],
    )
    assert [each.error for each in asked(holding(NATIVE_GROUPS), to_move=False)] == [ErrorCode.OVERLOADED] * 2


def test_brokers_have_them_dropped_over_their_streams(tmp_path: Path) -> None:
    office = Office(tmp_path, Raising(max_level=NATIVE_GROUPS))
    office.until(lambda: office.brokers.leads and office.state.feature_level == NATIVE_GROUPS)
    broker = office.broker(1)
    broker.propose(drop("g"))
    assert broker.outcome().error == 0
    position = pb.Position(topic_id=1, sequence_number=9)
    broker.propose(pb.Command(commit_positions=pb.CommitPositions(group="g", positions=[position])), 2)
    assert broker.outcome(2).error == ErrorCode.OVERLOADED
    assert not broker.line.ended, "a client's commit ends no stream"
