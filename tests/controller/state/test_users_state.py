"""Users in the replicated state: same entries, same bytes; brokers that follow know what late ones get."""

import copy

from hypothesis import given
from hypothesis import strategies as st

from tank_controller.commands import commands
from tank_controller.state.iggy.users import UserState
from tank_controller.state.state import ClusterState
from tank_node.cluster.view import ClusterView, WholeState
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb
from tank_protos.users.permissions import GlobalRight, Permissions, StreamPermissions, StreamRight
from tests.controller.cluster_for_tests import check_invariants
from tests.controller.commands_for_tests import apply
from tests.controller.users_for_tests import (
    change_password,
    create_token,
    create_user,
    delete_token,
    delete_user,
    found_root,
    hashed,
    the,
    update_permissions,
    update_user,
    with_users,
)

names = st.sampled_from(["alice", "bob", "carol", "iggy", "ab"])
passwords = st.sampled_from(["one", "two"])
tokens = st.sampled_from(["laptop", "backup", "phone"])
times = st.integers(0, 9)
permissions = st.sampled_from(
    [
        None,
        Permissions(GlobalRight.READ_USERS),
        Permissions(GlobalRight(0), (StreamPermissions(0, StreamRight.READ_STREAM),)),
    ]
)
meant = st.builds(
    lambda number, born: UserState(number, "", 0, born, hashed(""), born),
    st.integers(0, 3),
    st.integers(1, 14),
)
"""A user that there may be."""
some_commands = st.one_of(
    st.builds(found_root, names, passwords),
    st.builds(create_user, names, passwords, permissions),
    st.builds(delete_user, meant),
    st.builds(update_user, meant, st.none() | names, st.none() | st.booleans()),
    st.builds(change_password, meant, passwords),
    st.builds(update_permissions, meant, permissions),
    st.builds(create_token, meant, tokens, tokens, expires_us=times.map(lambda ms: ms * 1000), now_ms=times),
    st.builds(delete_token, meant, tokens, times),
    st.just(pb.Command(create_stream=pb.CreateStream(name="main"))),
    st.builds(
        lambda born: pb.Command(delete_stream=pb.DeleteStream(stream=0, born=born)), st.integers(1, 14)
    ),
)
histories = st.lists(some_commands, max_size=14)


@given(histories, st.data())
def test_replay_and_snapshot_give_the_same_state(history: list[pb.Command], data: st.DataObject) -> None:
    whole = with_users("alice")
    cut = data.draw(st.integers(0, len(history)))
    for command in history[:cut]:
        apply(whole, command)
    resumed = ClusterState.load(whole.snapshot())
    for command in history[cut:]:
        apply(whole, command)
        apply(resumed, pb.Command.FromString(command.SerializeToString()))
    assert resumed.snapshot() == whole.snapshot()
    assert resumed == whole
    check_invariants(whole)


@given(histories)
def test_a_command_applied_twice_is_applied_once(history: list[pb.Command]) -> None:
    state = with_users()
    for command in history:
        expected = commands.check(state, command)
        rejection = apply(state, command).rejection
        assert (rejection and rejection.error) == (expected and expected.error)
        once = copy.deepcopy(state.users)
        outcome = apply(state, command)
        assert not outcome.delta.users
        assert not outcome.delta.removed_users
        assert state.users == once


@given(histories)
def test_a_broker_that_follows_the_deltas_knows_what_one_that_comes_late_is_told(
    history: list[pb.Command],
) -> None:
    state = with_users("alice")
    follower = ClusterView("c", 1)
    follower.apply(state.delta())
    for command in history:
        follower.apply(apply(state, command).delta)
    late = ClusterView("c", 1)
    late.apply(state.delta())
    assert follower.users == late.users
    assert [user.number for user in late.users.all()] == sorted(state.users.by_number)


def test_a_broker_that_gets_the_whole_state_forgets_users_that_are_gone() -> None:
    state = with_users("alice", "bob")
    view = ClusterView("c", 1)
    view.apply(state.delta())
    apply(state, delete_user(the(state, "alice")))
    whole = WholeState(view)
    for update in state.whole_view(1, 1):
        if update is not None:
            whole.add(update.delta)
    view.replace(whole)
    assert [user.name for user in view.users.all()] == ["iggy", "bob"]


def test_a_snapshot_with_users_is_one_of_the_level_of_iggy() -> None:
    state = with_users("alice")
    stored = pb.Snapshot.FromString(state.snapshot())
    assert stored.format == feature_levels.formats(feature_levels.IGGY).snapshot
    assert [user.name for user in stored.users] == ["iggy", "alice"]
    assert ClusterState.load(state.snapshot()).users == state.users
