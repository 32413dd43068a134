"""Feature level 2: names of topics by Kafka's rule, settings for Kafka's clients, and what waits for them."""

import pytest

from tank_controller.leader.raising import Raising
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.feature_levels import FIRST, KAFKA, formats
from tank_protos.generated import control_pb2 as pb
from tests.controller.commands_for_tests import alter, applied, apply, create, delete, error_of, register

NAMES = ["orders.v1", "_", "x" * 249, "...", "__debezium-heartbeat.inventory"]
INTERNAL = ["__consumer_offsets", "__transaction_state"]
SETTINGS = [
    {"log.format": "kafka"},
    {"log.format": "tank"},
    {"log.cleanup.policy": "compact,delete"},
    {"max.message.bytes": "2m"},
    {"message.timestamp.type": "LogAppendTime"},
    {"message.timestamp.before.max.ms": "1d"},
    {"message.timestamp.after.max.ms": "1d"},
    {"delete.retention.ms": "1d"},
    {"min.compaction.lag.ms": "1d"},
    {"record.validation": "full"},
    {"transcode": "lenient"},
]


def raised(level: int = KAFKA) -> pb.Command:
    return pb.Command(raise_level=pb.RaiseLevel(level=level, seen_index=1 << 40))


def created(name: str, settings: dict[str, str]) -> pb.Command:
    command = create(name)
    for key, value in settings.items():
        command.create_topic.settings.add(key=key, value=value)
    return command


def message_of(state: ClusterState, command: pb.Command) -> str:
    rejection = apply(state, command).rejection
    assert rejection is not None
    return rejection.message


# --- names ---


@pytest.mark.parametrize("name", NAMES)
def test_names_by_kafkas_rule_are_taken_from_the_level_on(name: str) -> None:
    state = applied(register())
    assert error_of(state, create(name)) is ErrorCode.INVALID_NAME, "older controllers refuse the entry, too"
    apply(state, raised())
    assert apply(state, create(name)).rejection is None
    assert state.topic(name) is not None


def test_the_refusal_of_such_a_name_says_what_to_do() -> None:
    said = message_of(applied(register()), create("orders.v1"))
    assert "other names need feature level 2, and level 1 is in force" in said
    assert "`tank cluster status` says which do not yet" in said


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "x" * 250, "ä"])
def test_no_level_takes_names_that_kafka_does_not_take(name: str) -> None:
    for state in (applied(register()), applied(register(), raised())):
        assert error_of(state, create(name)) is ErrorCode.INVALID_NAME


@pytest.mark.parametrize("name", INTERNAL)
def test_topics_of_the_brokers_can_not_be_created(name: str) -> None:
    state = applied(register(), raised())
    assert error_of(state, create(name)) is ErrorCode.INVALID_NAME
    assert "choose another one" in message_of(state, create(name))


@pytest.mark.parametrize("name", INTERNAL)
def test_a_users_topic_of_such_a_name_holds_up_the_level_until_it_is_deleted(name: str) -> None:
    state = applied(register(), create(name))
    topic = state.topic(name)
    assert topic is not None, "at level 1 it is a name as any other"
    alone = Raising(max_level=KAFKA)
    assert alone.topics_in_the_way(state) == [name]
    state.brokers.clear()  # no process holds it up
    assert alone.command(state, {}) is None
    assert error_of(state, raised()) is ErrorCode.TOPIC_EXISTS, "created after the leader looked"
    assert state.feature_level == FIRST
    apply(state, delete(topic.topic_id))
    assert alone.topics_in_the_way(state) == []
    assert alone.command(state, {}) is not None
    apply(state, raised())
    assert state.feature_level == KAFKA


def test_an_old_leader_has_no_topics_in_its_way() -> None:
    state = applied(register(), create(INTERNAL[0]))
    assert Raising(max_level=FIRST).topics_in_the_way(state) == ()


# --- settings ---


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_new_settings_are_taken_from_the_level_on(settings: dict[str, str]) -> None:
    state = applied(register(), create("t"))
    assert error_of(state, created("u", settings)) is ErrorCode.INVALID_SETTING
    assert error_of(state, alter(2, settings=settings)) is ErrorCode.INVALID_SETTING
    apply(state, raised())
    assert apply(state, created("u", settings)).rejection is None
    assert ClusterState.load(state.snapshot()) == state


def test_the_refusal_of_a_new_setting_says_what_to_do() -> None:
    said = message_of(applied(register()), created("t", {"flush": "disk", "log.format": "kafka"}))
    assert "log.format=kafka: needs feature level 2, and level 1 is in force" in said
    assert "it rises when all processes run this version" in said


def test_what_older_controllers_do_not_know_can_not_be_unset_either() -> None:
    """They refuse the entry, and so it must be refused by all."""
    state = applied(register(), create("t"))
    assert error_of(state, alter(2, unset=("transcode",))) is ErrorCode.INVALID_SETTING
    apply(state, raised())
    assert apply(state, alter(2, unset=("transcode",))).rejection is None
    assert error_of(state, alter(2, unset=("colour",))) is ErrorCode.INVALID_SETTING


def test_what_was_allowed_at_the_first_level_is_allowed_in_the_same_way() -> None:
    state = applied(register(), created("t", {"log.cleanup.policy": "compact", "validate.bundles": "false"}))
    assert state.topic("t") is not None
    assert apply(state, alter(2, unset=("validate.bundles",))).rejection is None


def test_the_format_of_a_topic_never_changes() -> None:
    state = applied(register(), raised(), created("k", {"log.format": "kafka"}), created("t", {}))
    assert error_of(state, alter(3, settings={"log.format": "tank"})) is ErrorCode.INVALID_SETTING
    assert error_of(state, alter(3, unset=("log.format",))) is ErrorCode.INVALID_SETTING
    assert error_of(state, alter(4, settings={"log.format": "kafka"})) is ErrorCode.INVALID_SETTING
    assert "create another topic" in message_of(state, alter(4, settings={"log.format": "kafka"}))
    assert apply(state, alter(3, settings={"log.format": "kafka", "transcode": "lenient"})).rejection is None
    assert apply(state, alter(4, settings={"log.format": "tank"})).rejection is None, "what it is anyway"


# --- what is kept ---


def test_a_snapshot_of_the_level_has_a_format_that_older_controllers_refuse_by_a_sentence() -> None:
    state = applied(register(), raised(), created("orders.v1", {"log.format": "kafka"}))
    snapshot = pb.Snapshot.FromString(state.snapshot())
    assert snapshot.format == formats(KAFKA).snapshot > formats(FIRST).snapshot
    again = ClusterState.load(state.snapshot())
    assert again == state
    topic = again.topic("orders.v1")
    assert topic is not None
    assert topic.settings == {"log.format": "kafka"}


def test_brokers_are_told_the_settings() -> None:
    state = applied(register(), raised())
    (told,) = apply(
        state, created("orders.v1", {"log.format": "kafka", "min.compaction.lag.ms": "1d"})
    ).delta.topics
    assert [(each.key, each.value) for each in told.settings] == [
        ("log.format", "kafka"),
        ("min.compaction.lag.ms", "1d"),
    ]
