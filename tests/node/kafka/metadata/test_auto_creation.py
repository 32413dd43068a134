"""Topics that are created by a client's question for them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tank_node.cluster.link import NewTopic, TopicOutcome
from tank_node.cluster.view import ChangeKind, PartitionView, TopicView
from tank_node.kafka.settings import KafkaSettings
from tank_node.limits import Limits
from tank_node.security.gate import Gate, Operation, Principal, Resource
from tank_protos import feature_levels
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.kafka import MetadataRequest, MetadataRequestTopic, MetadataResponse
from tank_protos.topic_settings import LogFormat, TopicSettings
from tests.support.controllers.instant_controller import BROKER_ID, InstantController
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

VERSIONS = range(14)


class LateController(InstantController):
    """Keeps the topics to create until the test says what becomes of them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: dict[str, tuple[NewTopic, Callable[[TopicOutcome], None]]] = {}
        self._last_id = 100

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        self.asked[topic.name] = (topic, done)

    def settle(self, name: str, leader: int = BROKER_ID) -> None:
        """The topic is created, with this leader, and then the answer comes."""
        _, done = self.asked.pop(name)
        placed = PartitionView(0, leader, 1, 1, (BROKER_ID,), (BROKER_ID,))
        self._last_id += 1
        topic = TopicView(self._last_id, name, 1, TopicSettings(), {}, [placed])
        self.publish(ChangeKind.CREATED, topic)
        done(TopicOutcome(ErrorCode.NONE))

    def elect(self, name: str) -> None:
        """This broker becomes the leader."""
        topic = self.view.topic(name)
        assert topic is not None
        placed = [replace(each, leader=BROKER_ID, leader_epoch=2) for each in topic.partitions]
        self.publish(ChangeKind.ALTERED, replace(topic, partitions=placed))

    def refuse(self, name: str, error: ErrorCode) -> None:
        self.asked.pop(name)[1](TopicOutcome(error, "refused"))

    def create_elsewhere(self, name: str) -> None:
        """Another broker's client creates the topic, which this broker's view shows."""
        super().create_topic(NewTopic(name, 1), lambda outcome: None)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


@pytest.fixture
def late(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "late", Limits(auto_created_topics=3), controller=LateController()) as node:
        yield node


def controller_of(node: BenchNode) -> LateController:
    assert isinstance(node.controller, LateController)
    return node.controller


def asked(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest([MetadataRequestTopic(name=name) for name in names], create)


def found_in(response: MetadataResponse) -> list[tuple[str | None, int, int]]:
    """Name, error and number of partitions of each topic."""
    return [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics]


def answers(line: KafkaLine, version: int) -> list[list[tuple[str | None, int, int]]]:
    return [found_in(line.read(frame, MetadataResponse, version)[1]) for frame in line.frames()]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_topic_that_is_asked_for_is_created_and_answered_whole(node: BenchNode, version: int) -> None:
    line = KafkaLine(node, settings=KafkaSettings(default_partitions=3))
    response = line.ask(asked("new"), MetadataResponse, version)
    assert found_in(response) == [("new", 0, 3)]
    assert [partition.leader_id for partition in response.topics[0].partitions] == [1, 1, 1]
    topic = node.controller.view.topic("new")
    assert topic is not None
    assert topic.settings.log_format is LogFormat.KAFKA


@pytest.mark.parametrize("version", range(4, 14))
def test_a_client_may_forbid_it(node: BenchNode, version: int) -> None:
    response = KafkaLine(node).ask(asked("new", create=False), MetadataResponse, version)
    assert found_in(response) == [("new", 3, 0)]
    assert node.controller.view.topic("new") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_an_operator_may_forbid_it(node: BenchNode, version: int) -> None:
    line = KafkaLine(node, settings=KafkaSettings(auto_create=False))
    assert found_in(line.ask(asked("new"), MetadataResponse, version)) == [("new", 3, 0)]
    assert node.controller.view.topic("new") is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_question_for_all_topics_or_none_creates_none(node: BenchNode, version: int) -> None:
    request = MetadataRequest(None) if version else asked()
    assert found_in(KafkaLine(node).ask(request, MetadataResponse, version)) == []


def test_names_that_are_invalid_or_the_clusters_own_are_not_created(late: BenchNode) -> None:
    response = KafkaLine(late).ask(asked("..", "__consumer_offsets"), MetadataResponse, 9)
    assert found_in(response) == [("..", 17, 0), ("__consumer_offsets", 3, 0)]
    assert not controller_of(late).asked


def test_an_id_creates_nothing(late: BenchNode) -> None:
    request = MetadataRequest([MetadataRequestTopic(b"x" * 16, None)])
    assert found_in(KafkaLine(late).ask(request, MetadataResponse, 12)) == [(None, 100, 0)]
    assert not controller_of(late).asked


def test_the_answer_waits_until_all_topics_have_leaders(late: BenchNode) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    controller.create_elsewhere("old")
    line.send(asked("one", "old", "two"), 1)
    controller.settle("two")
    assert answers(line, 1) == []
    controller.settle("one", leader=0)
    assert answers(line, 1) == []
    controller.elect("one")
    assert answers(line, 1) == [[("one", 0, 1), ("old", 0, 1), ("two", 0, 1)]]


def test_after_a_second_the_answer_has_what_is_there(late: BenchNode) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    line.send(asked("one", "two"), 1)
    controller.settle("two")
    late.pass_ms(999)
    assert answers(line, 1) == []
    late.pass_ms(2)
    assert answers(line, 1) == [[("one", 5, 0), ("two", 0, 1)]]
    controller.settle("one")
    assert answers(line, 1) == []
    assert late.metrics.waiting == 0


def test_a_topic_that_another_client_creates_at_the_same_time_is_waited_for(late: BenchNode) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    line.send(asked("one"), 1)
    controller.refuse("one", ErrorCode.TOPIC_EXISTS)
    assert answers(line, 1) == []
    controller.create_elsewhere("one")
    assert answers(line, 1) == [[("one", 0, 1)]]


@pytest.mark.parametrize(
    ("error", "kafkas"),
    [
        (ErrorCode.INVALID_NAME, 17),
        (ErrorCode.INVALID_PARTITIONS, 37),
        (ErrorCode.INVALID_REPLICATION_FACTOR, 38),
        (ErrorCode.INVALID_SETTING, 40),
        (ErrorCode.LIMIT_REACHED, 44),
        (ErrorCode.TIMED_OUT, 5),
        (ErrorCode.OVERLOADED, 5),
        (ErrorCode.STORAGE, 5),
    ],
)
def test_a_refusal_is_the_topics_error_and_does_not_wait(
    late: BenchNode, error: ErrorCode, kafkas: int
) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    line.send(asked("one", "two"), 9)
    controller.refuse("one", error)
    controller.settle("two")
    assert answers(line, 9) == [[("one", kafkas, 0), ("two", 0, 1)]]


@pytest.mark.parametrize("error", [ErrorCode.INVALID_SETTING, ErrorCode.INVALID_NAME])
def test_before_the_clusters_upgrade_is_done_clients_ask_again(late: BenchNode, error: ErrorCode) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    controller.view.feature_level = feature_levels.FIRST
    line.send(asked("orders.v1"), 9)
    controller.refuse("orders.v1", error)
    assert answers(line, 9) == [[("orders.v1", 5, 0)]]


def test_one_request_creates_no_more_than_the_limit_and_the_client_asks_again(late: BenchNode) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    names = [f"t{number}" for number in range(5)]
    line.send(asked(*names), 9)
    for name in list(controller.asked):
        controller.settle(name)
    (first,) = answers(line, 9)
    assert first == [(name, 0, 1) for name in names[:3]] + [(name, 5, 0) for name in names[3:]]
    line.send(asked(*names), 9)
    assert list(controller.asked) == names[3:]


def test_where_too_many_requests_wait_nothing_is_created(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(all_wait_entries=1), controller=LateController()) as node:
        first, second = KafkaLine(node), KafkaLine(node)
        first.send(asked("one"), 9)
        assert found_in(second.ask(asked("two"), MetadataResponse, 9)) == [("two", 5, 0)]
        assert list(controller_of(node).asked) == ["one"]


def test_a_client_that_leaves_ends_the_wait_and_the_topic_comes(late: BenchNode) -> None:
    controller, line = controller_of(late), KafkaLine(late)
    line.send(asked("one"), 9)
    line.session.close()
    assert late.metrics.waiting == 0
    controller.settle("one")
    assert controller.view.topic("one") is not None
    assert answers(line, 9) == []


class NoCreation(Gate):
    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return operation is not Operation.CREATE


def test_a_client_that_may_not_create_is_refused(late: BenchNode) -> None:
    response = KafkaLine(late, NoCreation()).ask(asked("one", ".."), MetadataResponse, 9)
    assert found_in(response) == [("one", 29, 0), ("..", 17, 0)]
    assert not controller_of(late).asked
