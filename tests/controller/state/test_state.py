"""The replicated state machine as a whole: same entries, same bytes; applied twice is applied once."""

import contextlib
import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_controller import limits
from tank_controller.commands import commands
from tank_controller.state import codec
from tank_controller.state.state import ClusterState, SnapshotError
from tank_node.cluster.view import ClusterView
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import (
    applied,
    apply,
    commit,
    create,
    histories,
    init_producer,
    register,
)
from tests.support.examples import examples


@given(histories, st.data())
def test_replay_and_snapshot_give_the_same_bytes(history: list[pb.Command], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(history)))
    whole = ClusterState()
    snapshot = whole.snapshot()
    for number, command in enumerate(history):
        if number == cut:
            snapshot = whole.snapshot()
        apply(whole, command)
    resumed = ClusterState.load(snapshot)
    for command in history[resumed.index :]:
        apply(resumed, command)
    assert resumed.snapshot() == whole.snapshot()
    assert resumed == whole, "what is derived from the state is the same, too"
    assert list(resumed.producers) == list(whole.producers), "the order of last use is part of the state"
    assert list(resumed.groups) == list(whole.groups)


@given(histories)
def test_a_command_applied_twice_is_applied_once(history: list[pb.Command]) -> None:
    state = ClusterState()
    for command in history:
        apply(state, command)
        once = copy.deepcopy(state)
        outcome = apply(state, command)
        assert not outcome.delta.topics
        assert not outcome.delta.brokers
        assert not outcome.delta.changed
        once.index = state.index
        assert state == once


@given(histories)
def test_check_says_beforehand_what_apply_does(history: list[pb.Command]) -> None:
    state = ClusterState()
    for command in history:
        before = state.snapshot()
        expected = commands.check(state, command)
        assert state.snapshot() == before
        rejection = apply(state, command).rejection
        assert (rejection and rejection.error) == (expected and expected.error)


@given(histories)
def test_a_command_survives_the_log(history: list[pb.Command]) -> None:
    direct, through_bytes = ClusterState(), ClusterState()
    for command in history:
        apply(direct, command)
        apply(through_bytes, pb.Command.FromString(command.SerializeToString()))
    assert direct.snapshot() == through_bytes.snapshot()


@given(histories)
@examples(50)
def test_a_broker_that_follows_the_deltas_knows_what_one_that_comes_late_is_told(
    history: list[pb.Command],
) -> None:
    state = ClusterState()
    follower = ClusterView("c", 1)
    for command in history:
        follower.apply(apply(state, command).delta)
    late = ClusterView("c", 1)
    late.apply(state.delta())
    assert follower == late
    assert follower.apply(state.delta()) == [], "what is known already changes nothing"


@given(histories)
def test_leader_epochs_and_partition_epochs_only_grow(history: list[pb.Command]) -> None:
    state = ClusterState()
    seen: dict[tuple[int, int], tuple[int, int]] = {}
    for command in history:
        apply(state, command)
        for topic in state.topics.values():
            for number, partition in enumerate(topic.partitions):
                epochs = (partition.leader_epoch, partition.partition_epoch)
                assert epochs >= seen.get((topic.topic_id, number), (0, 0))
                seen[topic.topic_id, number] = epochs


@given(st.binary(max_size=200))
def test_bytes_that_are_no_snapshot_are_refused(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        ClusterState.load(data)


def test_a_snapshot_of_a_newer_format_is_refused() -> None:
    newer = max(each.snapshot for each in feature_levels.FORMATS.values()) + 1
    with pytest.raises(SnapshotError, match=f"format {newer}"):
        ClusterState.load(pb.Snapshot(format=newer).SerializeToString())


def test_a_format_of_a_level_that_the_process_does_not_know_is_refused_before_it_is_read() -> None:
    at = feature_levels.formats(feature_levels.IGGY).snapshot
    snapshot = pb.Snapshot(format=at, feature_level=feature_levels.IGGY).SerializeToString()
    assert ClusterState.load(snapshot, feature_levels.IGGY).feature_level == feature_levels.IGGY
    with pytest.raises(SnapshotError, match=f"format {at}, and this version reads up to {at - 1}"):
        ClusterState.load(snapshot, feature_levels.NATIVE_GROUPS)


def test_a_snapshot_cut_anywhere_is_refused_or_another_state() -> None:
    state = applied(register(), *(create(f"t{number}", 3) for number in range(5)), init_producer("p"))
    snapshot = state.snapshot()
    for end in range(len(snapshot)):
        with contextlib.suppress(SnapshotError):
            assert ClusterState.load(snapshot[:end]) != state


def test_a_large_snapshot_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_PART", 2)
    monkeypatch.setattr(codec, "PART_BYTES", 1)
    state = applied(
        register(),
        create("t", 7),
        create("u"),
        init_producer("p"),
        commit("g", (2, 0, 1), (2, 3, 5), (3, 0, 9)),
    )
    state.peer_key, state.lossy_elections = b"k" * 16, 1 << 40
    assert ClusterState.load(state.snapshot()) == state


@pytest.mark.parametrize("settings", [{"colour": "red"}, {"flush": "never"}])
def test_a_snapshot_that_holds_what_can_not_be_is_refused(settings: dict[str, str]) -> None:
    pairs = [pb.Setting(key=key, value=value) for key, value in settings.items()]
    topic = pb.Topic(topic_id=3, name="t", replication_factor=1, settings=pairs)
    with pytest.raises(SnapshotError, match="backup"):
        ClusterState.load(pb.Snapshot(format=1, index=9, topics=[topic]).SerializeToString())


def test_a_snapshot_holds_everything() -> None:
    state = applied(
        register(), create("t", 2, flush="disk"), init_producer("p", 3, 9), commit("g", (2, 1, 7))
    )
    again = ClusterState.load(state.snapshot())
    topic = again.topic("t")
    assert topic is not None
    assert topic.settings == {"flush": "disk"}
    assert again.producers["p"].producer_id == 3
    assert again.groups["g"][2][1].sequence_number == 7
    assert again.brokers[1].endpoints == (("tank", "127.0.0.1", 11011),)


def test_all_endpoints_of_a_broker_are_kept_by_their_names_and_told() -> None:
    command = register()
    for name, port in (("kafka", 9092), ("kafka-outside", 39092), ("of a later version", 1)):
        command.register_broker.endpoints.add(name=name, host="127.0.0.1", port=port)
    state = ClusterState()
    (told,) = apply(state, command).delta.brokers
    assert [(each.name, each.port) for each in told.endpoints] == [
        ("tank", 11011),
        ("kafka", 9092),
        ("kafka-outside", 39092),
        ("of a later version", 1),
    ]
    assert told.endpoints == command.register_broker.endpoints
    assert ClusterState.load(state.snapshot()) == state


def test_the_order_of_last_use_survives_a_snapshot() -> None:
    state = applied(register(), init_producer("q", 1, 1), init_producer("p", 1, 2))
    assert list(ClusterState.load(state.snapshot()).producers) == ["q", "p"]


def test_the_bytes_of_notes_are_counted_as_they_are_replaced_and_loaded() -> None:
    state = applied(
        register(),
        create("t", 2),
        commit("g", (2, 0, 1), metadata=b"a long note"),
        commit("g", (2, 0, 2), metadata=b"note"),
        commit("h", (2, 1, 2), metadata=b"12"),
    )
    assert (state.position_count, state.metadata_bytes) == (2, 6)
    assert ClusterState.load(state.snapshot()) == state
