"""Each command: what it does, and every reason for which it is rejected."""

import pytest

from tank_controller import limits
from tank_controller.commands.commands import known_producer
from tank_controller.commands.producers import BLOCK_IDS
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import MAX_BLOCK_IDS
from tests.controller.commands_for_tests import (
    DAY_MS,
    alter,
    applied,
    apply,
    commit,
    create,
    delete,
    error_of,
    init_producer,
    register,
)

OTHER = b"o" * 16


def test_a_topics_id_is_its_entrys_index_and_a_topic_made_again_gets_another() -> None:
    state = applied(register(), create("t"))
    assert state.topic_ids == {"t": 2}
    apply(state, delete(2))
    assert apply(state, create("t")).topic_id == 4
    assert error_of(state, delete(2)) is ErrorCode.UNKNOWN_TOPIC


def test_a_new_process_of_the_leader_leads_in_a_new_epoch() -> None:
    state = applied(register(), create("t", 2))
    delta = apply(state, register(incarnation=OTHER)).delta
    assert [p.leader_epoch for p in state.topics[2].partitions] == [2, 2]
    assert [p.partition_epoch for p in delta.changed[0].partitions] == [2, 2]
    assert state.brokers[1].epoch == 3
    apply(state, register(incarnation=OTHER, port=5))
    assert state.topics[2].partitions[0].leader_epoch == 2, "the same process, at another address"
    assert state.brokers[1].epoch == 3
    assert state.brokers[1].endpoints[0][2] == 5


def test_only_what_the_new_process_led_gets_a_new_epoch() -> None:
    state = applied(register(1), register(2), create("t", 2, 1))
    led = {p.leader for p in state.topics[3].partitions}
    assert led == {1, 2}
    apply(state, register(2, OTHER))
    assert {p.leader: p.leader_epoch for p in state.topics[3].partitions} == {1: 1, 2: 2}


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (create("no good"), ErrorCode.INVALID_NAME),
        (create(""), ErrorCode.INVALID_NAME),
        (create("x" * 65), ErrorCode.INVALID_NAME),
        (create("t"), ErrorCode.TOPIC_EXISTS),
        (create("u", 0), ErrorCode.INVALID_PARTITIONS),
        (create("u", 65_531), ErrorCode.INVALID_PARTITIONS),
        (create("u", 1, 2), ErrorCode.INVALID_REPLICATION_FACTOR),
        (create("u", flush="never"), ErrorCode.INVALID_SETTING),
        (create("u", colour="red"), ErrorCode.INVALID_SETTING),
        (create("u", min__insync__replicas="2"), ErrorCode.INVALID_SETTING),
        (alter(99), ErrorCode.UNKNOWN_TOPIC),
        (alter(2, 1), ErrorCode.INVALID_PARTITIONS),
        (alter(2, settings={"flush": "x"}), ErrorCode.INVALID_SETTING),
        (alter(2, settings={"log.retention.secs": "1d+" * 400 + "1d"}), ErrorCode.INVALID_SETTING),
        (alter(2, unset=("colour",)), ErrorCode.INVALID_SETTING),
        (delete(99), ErrorCode.UNKNOWN_TOPIC),
        (register(0), ErrorCode.INVALID_REQUEST),
        (register(0xFFFF), ErrorCode.INVALID_REQUEST),
        (register(1, b"short"), ErrorCode.INVALID_REQUEST),
        (init_producer("n" * 256), ErrorCode.INVALID_NAME),
        (init_producer("p", 4), ErrorCode.STALE_PRODUCER_EPOCH),
        (commit(""), ErrorCode.INVALID_NAME),
        (commit("g", *[(2, 0, 1)] * 10_001), ErrorCode.TOO_LARGE),
        (pb.Command(), ErrorCode.INVALID_REQUEST),
    ],
    ids=lambda value: value.name if isinstance(value, ErrorCode) else "",
)
def test_a_rejection_is_typed_and_changes_nothing(command: pb.Command, error: ErrorCode) -> None:
    assert error_of(applied(register(), create("t", 2), init_producer("p", 5)), command) is error


def test_a_topic_before_any_broker_is_rejected() -> None:
    assert error_of(ClusterState(), create("t")) is ErrorCode.INVALID_REPLICATION_FACTOR


def test_the_default_replication_factor_is_three_or_all_brokers() -> None:
    assert applied(register(1), create("t")).topics[2].replication_factor == 1
    four = applied(register(1), register(2), register(3), register(4), create("t"))
    assert four.topics[5].replication_factor == 3


def test_alter_sets_unsets_and_adds_partitions() -> None:
    state = applied(register(), create("t", 1, flush="disk"))
    apply(state, alter(2, 3, {"log.retention.secs": "1d"}, ("flush",)))
    assert state.topics[2].settings == {"log.retention.secs": "1d"}
    assert len(state.topics[2].partitions) == state.partition_count == 3
    assert not apply(state, alter(2, 3)).delta.topics, "as it is already"


def test_deleting_a_topic_takes_its_positions_along() -> None:
    state = applied(
        register(), create("t"), create("u"), commit("g", (2, 0, 5), (3, 0, 6)), commit("h", (2, 0, 1))
    )
    apply(state, delete(2))
    assert list(state.groups) == ["g"]
    assert state.groups["g"].keys() == {3}
    assert state.position_count == 1
    apply(state, create("t"))
    assert state.groups["g"].keys() == {3}, "positions hang on the id, not on the name"


def test_positions_are_judged_one_by_one() -> None:
    state = applied(register(), create("t"))
    positions = commit("g", (2, 0, 5), (2, 1, 5), (99, 0, 5), metadata=b"n", now_ms=8)
    assert apply(state, positions).results == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_PARTITION,
        ErrorCode.UNKNOWN_TOPIC,
    ]
    assert state.groups["g"][2][0].committed_ms == 8
    too_long = commit("g", (2, 0, 9), metadata=b"n" * (limits.MAX_POSITION_METADATA_BYTES + 1))
    assert apply(state, too_long).results == [ErrorCode.TOO_LARGE]
    assert state.groups["g"][2][0].sequence_number == 5
    assert state.metadata_bytes == 1


def test_a_group_whose_positions_are_all_refused_does_not_come_to_be() -> None:
    state = applied(register())
    apply(state, commit("g", (99, 0, 1)))
    assert not state.groups


def test_positions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_POSITIONS", 2)
    monkeypatch.setattr(limits, "MAX_GROUPS", 1)
    monkeypatch.setattr(limits, "MAX_METADATA_BYTES", 3)
    state = applied(register(), create("t", 3), commit("g", (2, 0, 1), (2, 1, 1), metadata=b"n"))
    assert error_of(state, commit("g", (2, 2, 1))) is ErrorCode.OVERLOADED
    assert error_of(state, commit("h", (2, 0, 1))) is ErrorCode.OVERLOADED
    assert error_of(state, commit("g", (2, 0, 1), metadata=b"nn")) is ErrorCode.OVERLOADED
    assert apply(state, commit("g", (2, 0, 2))).results == [ErrorCode.NONE], "what is there may move on"


def test_topics_and_partitions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_TOPICS", 1)
    state = applied(register(), create("t", 3))
    assert error_of(state, create("u")) is ErrorCode.LIMIT_REACHED
    monkeypatch.setattr(limits, "MAX_PARTITIONS", 3)
    assert error_of(state, alter(2, 4)) is ErrorCode.LIMIT_REACHED
    monkeypatch.setattr(limits, "MAX_TOPICS", 2)
    assert error_of(state, create("u")) is ErrorCode.LIMIT_REACHED


def test_what_brokers_know_each_other_by_is_made_once() -> None:
    state = applied(*(pb.Command(found_cluster=pb.FoundCluster(peer_key=key * 16)) for key in (b"k", b"l")))
    assert state.peer_key == ClusterState.load(state.snapshot()).peer_key == b"k" * 16
    short = pb.Command(found_cluster=pb.FoundCluster(peer_key=b"short"))
    assert error_of(state, short) is ErrorCode.INVALID_REQUEST


def test_every_anonymous_producer_gets_a_fresh_id() -> None:
    state = applied(register())
    assert [apply(state, init_producer()).producer_id for _ in range(3)] == [2, 3, 4]
    assert not state.producers


def test_a_block_is_of_ids_that_no_other_entry_gives() -> None:
    state = applied(register())
    block = pb.Command(init_producer=pb.InitProducer(block=True))
    given: set[int] = set()
    for _ in range(5):
        outcome = apply(state, block)
        ids = set(range(outcome.producer_id, outcome.producer_id + outcome.producer_ids))
        assert len(ids) == BLOCK_IDS
        assert not ids & given
        given |= ids | {apply(state, init_producer()).producer_id}
    assert len(given) == 5 * (BLOCK_IDS + 1)


def test_a_block_has_as_many_ids_as_were_asked_for() -> None:
    state = applied(register())

    def block(ids: int) -> pb.Command:
        return pb.Command(init_producer=pb.InitProducer(block=True, block_ids=ids))

    given = [apply(state, block(ids)) for ids in (MAX_BLOCK_IDS, 1, 1001, MAX_BLOCK_IDS)]
    assert [outcome.producer_ids for outcome in given] == [MAX_BLOCK_IDS, 1, 1001, MAX_BLOCK_IDS]
    ends = [outcome.producer_id + outcome.producer_ids for outcome in given]
    assert all(end <= later.producer_id for end, later in zip(ends, given[1:], strict=False))
    assert not state.producers, "nothing is kept of them"
    assert error_of(state, block(MAX_BLOCK_IDS + 1)) is ErrorCode.INVALID_REQUEST


def test_name_and_generation_always_give_the_same_id() -> None:
    state = applied(register(), init_producer("p", 1, 10))
    assert apply(state, init_producer("p", 1, 20)).producer_id == 2
    assert apply(state, init_producer("q", 1, 20)).producer_id == 4
    assert known_producer(state, "p", 1) is state.producers["p"]
    assert known_producer(state, "p", 2) is None


def test_a_higher_generation_gets_a_new_id_and_ends_the_one_before() -> None:
    state = applied(register(), init_producer("p", 1))
    outcome = apply(state, init_producer("p", 2))
    assert outcome.producer_id == 3
    assert list(outcome.delta.ended_producers) == [2]
    assert state.producers["p"].ended == (2,)
    assert error_of(state, init_producer("p", 1)) is ErrorCode.STALE_PRODUCER_EPOCH


def test_what_is_remembered_of_ended_ids_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_ENDED_IDS_PER_NAME", 2)
    state = applied(register(), *(init_producer("p", generation) for generation in range(3)))
    outcome = apply(state, init_producer("p", 9))
    assert state.producers["p"].ended == (3, 4)
    assert list(outcome.delta.forgotten_producers) == [2]


def test_a_full_table_of_names_forgets_the_longest_unused_after_a_week(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_NAMED_PRODUCERS", 2)
    state = applied(
        register(), init_producer("p", 1, 0), init_producer("q", 1, 5), init_producer("p", 2, 9 * DAY_MS)
    )
    assert error_of(state, init_producer("r", 1, 6 * DAY_MS)) is ErrorCode.OVERLOADED
    assert apply(state, init_producer("r", 1, 9 * DAY_MS)).producer_id == 5
    assert list(state.producers) == ["p", "r"], "q was the longest unused"
    outcome = apply(state, init_producer("s", 1, 17 * DAY_MS))
    assert list(outcome.delta.forgotten_producers) == [2]


def test_a_full_table_of_groups_forgets_the_one_without_a_commit_for_a_month(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "MAX_GROUPS", 2)
    state = applied(
        register(),
        create("t", 2),
        commit("g", (2, 0, 1), (2, 1, 1), metadata=b"note", now_ms=0),
        commit("h", (2, 0, 1), now_ms=5 * DAY_MS),
    )
    assert error_of(state, commit("i", (2, 0, 1), now_ms=30 * DAY_MS - 1)) is ErrorCode.OVERLOADED
    assert apply(state, commit("i", (2, 9, 1), now_ms=30 * DAY_MS)).results == [ErrorCode.UNKNOWN_PARTITION]
    assert list(state.groups) == ["g", "h"], "nobody has to go for a commit of nothing"
    apply(state, commit("i", (2, 0, 1), now_ms=30 * DAY_MS))
    assert list(state.groups) == ["h", "i"]
    assert (state.position_count, state.metadata_bytes) == (2, 0)
    apply(state, commit("h", (2, 1, 1), now_ms=31 * DAY_MS))
    assert list(state.groups) == ["i", "h"], "the order is that of the last commit"
    assert error_of(state, commit("j", (2, 0, 1), now_ms=50 * DAY_MS)) is ErrorCode.OVERLOADED
    assert list(ClusterState.load(state.snapshot()).groups) == ["i", "h"]
