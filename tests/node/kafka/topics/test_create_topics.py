"""CreateTopics: what is created, what is refused, and when the answer comes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.broker.topic_ids import NO_TOPIC, topic_by_uuid
from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.cluster.view import NO_LEADER, ChangeKind, PartitionView, TopicView
from tank_node.kafka.errors import KafkaError
from tank_node.kafka.settings import KafkaSettings
from tank_node.limits import Limits
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import (
    CreatableReplicaAssignment,
    CreatableReplicaAssignmentCollection,
    CreatableTopic,
    CreatableTopicCollection,
    CreatableTopicConfig,
    CreatableTopicConfigCollection,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tank_protos.topic_settings import LogFormat, from_pairs
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def topic(name: str, partitions: int = 1, factor: int = 1, **configs: str | None) -> CreatableTopic:
    """A topic of a request; underscores in the configs' names stand for dots."""
    settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
    return CreatableTopic(name, partitions, factor, configs=CreatableTopicConfigCollection(settings))


def assigned(name: str, *placed: tuple[int, list[int]]) -> CreatableTopic:
    found = [CreatableReplicaAssignment(number, brokers) for number, brokers in placed]
    return CreatableTopic(name, -1, -1, CreatableReplicaAssignmentCollection(found))


def request(
    *topics: CreatableTopic, validate_only: bool = False, timeout_ms: int = 1000
) -> CreateTopicsRequest:
    return CreateTopicsRequest(CreatableTopicCollection(topics), timeout_ms, validate_only)


def create(
    node: BenchNode, *topics: CreatableTopic, version: int = 7, validate_only: bool = False
) -> list[CreatableTopicResult]:
    asked = request(*topics, validate_only=validate_only)
    return list(KafkaLine(node).ask(asked, CreateTopicsResponse, version).topics)


def error(node: BenchNode, asked: CreatableTopic) -> KafkaError:
    """The error of a topic that must not be created."""
    (result,) = create(node, asked)
    assert result.error_message
    assert node.controller.view.topic(asked.name) is None
    return KafkaError(result.error_code)


class SlowControllers:
    """Keeps the requests for topics, for the test to answer."""

    def __init__(self, node: BenchNode) -> None:
        self.node = node
        self.asked: dict[str, Callable[[TopicOutcome], None]] = {}
        node.controller.create_topic = self._create  # type: ignore[method-assign]

    def _create(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        self.asked[topic.name] = done

    def show(self, name: str, topic_id: int, leader: int = 1) -> None:
        """The broker's view has the topic, with this leader."""
        view = self.node.controller.view
        kind = ChangeKind.ALTERED if view.topic_by_id(topic_id) else ChangeKind.CREATED
        placed = [PartitionView(0, leader, 1, 1, (1,), (1,))]
        view.index = max(view.index, topic_id)
        self.node.controller.publish(kind, TopicView(topic_id, name, 1, from_pairs({}), {}, placed))


@pytest.mark.parametrize("version", range(8))
def test_topics_are_there_when_the_answer_comes(node: BenchNode, version: int) -> None:
    one, two = create(node, topic("one", 3), topic("two"), version=version)
    assert (one.name, one.error_code, two.name, two.error_code) == ("one", 0, "two", 0)
    view = node.controller.view
    made = view.topic("one")
    assert made is not None
    assert len(made.partitions) == 3
    if version >= 5:
        assert (one.num_partitions, one.replication_factor) == (3, 1)
        assert one.configs
    if version >= 7:
        assert topic_by_uuid(view, one.topic_id) is made


def test_a_topic_made_here_is_stored_as_kafkas_batches_unless_it_says_otherwise(node: BenchNode) -> None:
    create(node, topic("batches"), topic("bundles", log_format="tank"), topic("named", log_format="kafka"))
    formats = {each.name: each.settings.log_format for each in node.controller.view.topics()}
    assert formats == {"batches": LogFormat.KAFKA, "bundles": LogFormat.TANK, "named": LogFormat.KAFKA}


def test_settings_have_kafkas_names_and_come_back_with_their_sources(node: BenchNode) -> None:
    (result,) = create(node, topic("t", retention_ms="60000", cleanup_policy="compact", segment_ms=None))
    made = node.controller.view.topic("t")
    assert made is not None
    assert made.settings.retention_ms == 60_000
    assert result.configs is not None
    configs = {each.name: each for each in result.configs}
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("60000", 1)
    assert (configs["cleanup.policy"].value, configs["cleanup.policy"].config_source) == ("compact", 1)
    assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)
    assert configs["log.format"].read_only
    assert not configs["segment.ms"].read_only


@pytest.mark.parametrize("version", [0, 4, 7])
def test_minus_one_is_the_default_in_every_version(node: BenchNode, version: int) -> None:
    line = KafkaLine(node, settings=KafkaSettings(default_partitions=6))
    answer = line.ask(request(topic("t", -1, -1)), CreateTopicsResponse, version)
    assert answer.topics[0].error_code == 0
    made = node.controller.view.topic("t")
    assert made is not None
    assert len(made.partitions) == 6


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (topic("a b"), KafkaError.INVALID_TOPIC),
        (topic(""), KafkaError.INVALID_TOPIC),
        (topic("__consumer_offsets"), KafkaError.INVALID_TOPIC),
        (topic("__transaction_state"), KafkaError.INVALID_TOPIC),
        (topic("t", 0), KafkaError.INVALID_PARTITIONS),
        (topic("t", -2), KafkaError.INVALID_PARTITIONS),
        (topic("t", 1, 0), KafkaError.INVALID_REPLICATION_FACTOR),
        (topic("t", 1, -2), KafkaError.INVALID_REPLICATION_FACTOR),
        (topic("t", shards="1"), KafkaError.INVALID_CONFIG),
        (topic("t", shards=None), KafkaError.INVALID_CONFIG),
        (topic("t", retention_ms="soon"), KafkaError.INVALID_CONFIG),
        (topic("t", compression_type="gzip"), KafkaError.INVALID_CONFIG),
        (assigned("t", (0, [1]), (2, [1])), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (0, [1])), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1]), (1, [1, 2])), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [1, 1])), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [])), KafkaError.INVALID_REPLICA_ASSIGNMENT),
        (assigned("t", (0, [-1])), KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_each_refusal_has_kafkas_error(node: BenchNode, asked: CreatableTopic, expected: KafkaError) -> None:
    assert error(node, asked) is expected


def test_a_topic_goes_to_the_brokers_that_the_client_chose(node: BenchNode) -> None:
    (result,) = create(node, assigned("t", (1, [1]), (0, [1])))
    assert (result.error_code, result.num_partitions, result.replication_factor) == (0, 2, 1)
    (result,) = create(node, assigned("u", (0, [7])))
    assert result.error_code == KafkaError.INVALID_REPLICA_ASSIGNMENT


def test_assignments_leave_no_room_for_numbers(node: BenchNode) -> None:
    asked = assigned("t", (0, [1]))
    asked.num_partitions = 1
    assert error(node, asked) is KafkaError.INVALID_REQUEST


def test_a_config_that_is_set_twice_is_refused(node: BenchNode) -> None:
    asked = topic("t", retention_ms="1")
    asked.configs.append(CreatableTopicConfig("retention.ms", "2"))
    assert error(node, asked) is KafkaError.INVALID_REQUEST


def test_a_topic_that_exists_fails_alone(node: BenchNode) -> None:
    node.controller.add("old")
    old, new = create(node, topic("old"), topic("new"))
    assert (old.error_code, new.error_code) == (KafkaError.TOPIC_ALREADY_EXISTS, 0)
    assert (old.num_partitions, old.topic_id) == (-1, NO_TOPIC)


def test_a_topic_that_is_named_twice_is_refused_once_and_not_created(node: BenchNode) -> None:
    twice, other = create(node, topic("t"), topic("other"), topic("t", 2))
    assert (twice.name, twice.error_code) == ("t", KafkaError.INVALID_REQUEST)
    assert (other.name, other.error_code) == ("other", 0)
    assert node.controller.view.topic("t") is None


@pytest.mark.parametrize("version", [1, 7])
def test_validate_only_says_what_would_happen_and_changes_nothing(node: BenchNode, version: int) -> None:
    node.controller.add("old")
    new, old = create(node, topic("new", 4, -1), topic("old"), version=version, validate_only=True)
    assert (new.error_code, old.error_code) == (0, KafkaError.TOPIC_ALREADY_EXISTS)
    assert node.controller.view.topic("new") is None
    if version >= 7:
        assert (new.topic_id, new.num_partitions, new.replication_factor) == (NO_TOPIC, 4, 1)
        assert new.configs


def test_an_empty_request_is_answered_at_once(node: BenchNode) -> None:
    assert create(node) == []


def test_topics_go_out_together_and_are_answered_when_all_have_leaders(node: BenchNode) -> None:
    controllers, line = SlowControllers(node), KafkaLine(node)
    line.send(request(topic("a"), topic("b")), 7)
    assert controllers.asked.keys() == {"a", "b"}
    controllers.asked["b"](TopicOutcome(ErrorCode.NONE, "", 8))
    controllers.show("a", 7, leader=NO_LEADER)
    controllers.show("b", 8)
    controllers.asked["a"](TopicOutcome(ErrorCode.NONE, "", 7))
    assert line.frames() == []
    controllers.show("a", 7)
    (frame,) = line.frames()
    _, answer = line.read(frame, CreateTopicsResponse, 7)
    assert [(each.name, each.error_code) for each in answer.topics] == [("a", 0), ("b", 0)]


def test_what_has_not_happened_in_time_is_timed_out_and_the_rest_is_not(node: BenchNode) -> None:
    controllers, line = SlowControllers(node), KafkaLine(node)
    line.send(request(topic("silent"), topic("leaderless"), topic("ready"), timeout_ms=1000), 7)
    controllers.asked["ready"](TopicOutcome(ErrorCode.NONE, "", 7))
    controllers.show("ready", 7)
    controllers.asked["leaderless"](TopicOutcome(ErrorCode.NONE, "", 8))
    controllers.show("leaderless", 8, leader=NO_LEADER)
    node.pass_ms(1000)
    assert line.frames() == []
    node.pass_ms(1)
    (frame,) = line.frames()
    _, answer = line.read(frame, CreateTopicsResponse, 7)
    codes = {each.name: each.error_code for each in answer.topics}
    assert codes == {"silent": 7, "leaderless": 7, "ready": 0}
    controllers.asked["silent"](TopicOutcome(ErrorCode.NONE, "", 9))
    assert line.frames() == []


def test_a_topic_that_was_deleted_meanwhile_keeps_nobody_waiting(node: BenchNode) -> None:
    controllers, line = SlowControllers(node), KafkaLine(node)
    line.send(request(topic("t")), 7)
    node.controller.view.index = 9
    controllers.asked["t"](TopicOutcome(ErrorCode.NONE, "", 7))
    assert len(line.frames()) == 1


def test_a_closed_connection_ends_its_waits(node: BenchNode) -> None:
    controllers, line = SlowControllers(node), KafkaLine(node)
    line.send(request(topic("t")), 7)
    line.session.close()
    assert node.broker.deadlines.entries == 0
    controllers.asked["t"](TopicOutcome(ErrorCode.NONE, "", 7))
    controllers.show("t", 7)
    assert line.frames() == []


def test_where_too_much_waits_nothing_is_asked(node: BenchNode) -> None:
    controllers, line = SlowControllers(node), KafkaLine(node)
    node.broker.deadlines.entries = node.broker.limits.all_wait_entries
    answer = line.ask(request(topic("t")), CreateTopicsResponse, 7)
    assert answer.topics[0].error_code == KafkaError.REQUEST_TIMED_OUT
    assert not controllers.asked


def test_a_request_changes_so_many_topics_and_not_more(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "small", Limits(changed_topics=2)) as node:
        results = create(node, topic("a"), topic("b"), topic("c"))
        assert [each.error_code for each in results] == [KafkaError.POLICY_VIOLATION] * 3
        assert not list(node.controller.view.topics())
        assert [each.error_code for each in create(node, topic("a"), topic("b"))] == [0, 0]


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (ErrorCode.INVALID_NAME, 17),
        (ErrorCode.INVALID_PARTITIONS, 37),
        (ErrorCode.INVALID_REPLICATION_FACTOR, 38),
        (ErrorCode.INVALID_SETTING, 40),
        (ErrorCode.LIMIT_REACHED, 44),
        (ErrorCode.OVERLOADED, 7),
        (ErrorCode.TIMED_OUT, 7),
    ],
)
def test_the_controllers_refusals_have_kafkas_numbers(
    node: BenchNode, outcome: ErrorCode, expected: int
) -> None:
    controllers, line = SlowControllers(node), KafkaLine(node)
    line.send(request(topic("t")), 7)
    controllers.asked["t"](TopicOutcome(outcome, "why"))
    (frame,) = line.frames()
    _, answer = line.read(frame, CreateTopicsResponse, 7)
    assert (answer.topics[0].error_code, answer.topics[0].error_message) == (expected, "why")
