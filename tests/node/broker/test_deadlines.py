"""Waits that a bug leaves without an answer at their deadline: their connections are closed, others go on."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.kafka.dispatch import APIS
from tank_node.kafka.session import KafkaCall, KafkaSession
from tank_node.kafka.settling import KafkaPause
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import LateAnswer, Waiter
from tank_node.tank.end_waits import SettlingWait
from tank_node.tank.session import TankSession
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


def bug() -> None:
    raise ZeroDivisionError("a handler with a bug")


def tank_wait(session: TankSession, answer: Callable[[], None]) -> Waiter[Partition]:
    wait = SettlingWait(session, answer)
    session.begin_wait(wait, (), 10)
    return wait


def kafka_pause(session: KafkaSession, answer: Callable[[], None]) -> Waiter[Partition]:
    call = KafkaCall(session, APIS[2], 0, 1, None, has_tags=False)
    session.begin(call)
    pause = KafkaPause(call, answer)
    pause.begin()
    return pause


def topic_wait(session: KafkaSession, answer: Callable[[], None]) -> Waiter[Partition]:
    return session.broker.topic_waits.begin(["a"], lambda name: True, lambda missing: answer(), 10, session)


def of_kafka(node: BenchNode) -> KafkaSession:
    return KafkaLine(node).session


def of_tank(node: BenchNode) -> TankSession:
    return node.client().session


WAITS = pytest.mark.parametrize(
    ("opened", "wait"), [(of_tank, tank_wait), (of_kafka, kafka_pause), (of_kafka, topic_wait)]
)


@pytest.mark.parametrize("stops", [False, True])
@WAITS
def test_the_connection_of_a_wait_that_is_not_answered_is_closed(
    node: BenchNode,
    opened: Callable[[BenchNode], TankSession],
    wait: Callable[[TankSession, Callable[[], None]], Waiter[Partition]],
    stops: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reasons: list[str] = []
    answered: list[str] = []
    broken, other = opened(node), opened(node)
    broken.hang_up = other.hang_up = reasons.append
    wait(broken, bug)
    wait(other, lambda: answered.append("other"))
    if stops:
        node.broker.deadlines.end_waits()
    else:
        node.pass_ms(20)
    assert reasons == ["internal_error"], "one connection is closed, for this reason"
    assert answered == ["other"]
    assert "its connection is closed" in caplog.text
    assert node.metrics.waiting == node.broker.deadlines.entries == 0


def test_the_connection_of_a_request_that_fails_at_its_topic_is_closed(node: BenchNode) -> None:
    reasons: list[str] = []
    session = of_kafka(node)
    session.hang_up = reasons.append
    topic_wait(session, bug)
    node.controller.add("a")
    assert reasons == ["internal_error"]
    assert node.metrics.waiting == 0


class Late(LateAnswer):
    def __init__(self, session: TankSession, answer: Callable[[], None]) -> None:
        super().__init__(session)
        self._answer = answer

    def make(self) -> None:
        self._answer()


@pytest.mark.plain_node
def test_the_connection_of_a_late_answer_that_fails_is_closed(node: BenchNode) -> None:
    reasons: list[str] = []
    answered: list[str] = []
    broken, other = of_tank(node), of_tank(node)
    broken.hang_up = other.hang_up = reasons.append
    node.broker.tick.late += [Late(broken, bug), Late(other, lambda: answered.append("other"))]
    node.tick()
    assert (reasons, answered) == (["internal_error"], ["other"])
