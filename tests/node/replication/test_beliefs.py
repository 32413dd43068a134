"""Leader epochs that only a push has told of: who is believed, for how long, and what comes after."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.cluster.view import BrokerView
from tank_node.limits import BELIEF_MS
from tank_node.log.log import LogState
from tank_node.replication.role import Role
from tank_protos.error_codes import PushError, TroubleKind
from tank_protos.generated.tank import DescribeBrokerRequest, DescribeBrokerResponse, PushedPartition
from tank_protos.storage.stretch import Stretch
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.leader_line import (
    LEADER,
    OTHER,
    Line,
    all_of,
    following,
    leader_log,
    opened,
    place,
    push_of,
    the_answer,
)
from tests.support.storage.logs import append

MOST = 2**32 - 1
"""The highest epoch that a push can name."""
STRANGER, STRANGERS_EPOCH = 4, 44


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with following(tmp_path / "data") as node:
        node.controller.connected = True
        yield node


def claim(line: Line, epoch: int = MOST, start: int = 1, previous: int = 0) -> PushedPartition:
    """What is answered to a push without batches in this epoch."""
    return the_answer(line.send(push_of(1, (start, Stretch(10, epoch, previous, 0, 1, b"", b"")))))


def epoch_of(node: BenchNode) -> int:
    return node.broker.topics["a"].partitions[0].leader_epoch


def pass_ms(node: BenchNode, milliseconds: int) -> None:
    node.pass_ms(milliseconds)
    node.broker.followers.beliefs.tick(node.broker.tick.monotonic_ms)


def questions(node: BenchNode) -> list[Callable[[bool], None]]:
    """Those to the controllers from now on: each is answered by a call."""
    asked: list[Callable[[bool], None]] = []
    setattr(node.controller, "await_view", asked.append)  # noqa: B010 - a method, for the type checker
    return asked


def role_of(node: BenchNode) -> Role:
    return node.broker.topics["a"].partitions[0].role


def test_an_epoch_that_no_leader_was_given_is_dropped_and_the_views_leader_obeyed_again(
    node: BenchNode, caplog: pytest.LogCaptureFixture
) -> None:
    line, theirs = opened(node), leader_log()
    assert (claim(line).error, epoch_of(node)) == (PushError.NONE, MOST)
    pass_ms(node, BELIEF_MS - 1)
    assert epoch_of(node) == MOST
    with caplog.at_level(logging.ERROR):
        pass_ms(node, 1)
    assert epoch_of(node) == 5
    assert f"a/0: broker 2 pushed in leader epoch {MOST}" in caplog.text
    assert node.metrics.refuted_epochs == 1
    assert the_answer(line.send(push_of(2, all_of(theirs)))).error == PushError.NONE


def test_a_process_that_was_refuted_is_believed_no_more_until_the_view_says_the_same(node: BenchNode) -> None:
    line = opened(node)
    claim(line)
    pass_ms(node, BELIEF_MS)
    assert (claim(line, 9).error, epoch_of(node)) == (PushError.NOT_READY, 5)
    assert node.metrics.refused["unknown_leader_epoch"] == 1
    place(node, "a", 10, leader_epoch=9)
    assert (claim(line, 9).error, epoch_of(node)) == (PushError.NONE, 9)


def test_who_holds_no_replica_is_not_believed(node: BenchNode) -> None:
    node.controller.view.brokers[STRANGER] = BrokerView(STRANGER, STRANGERS_EPOCH, "127.0.0.1", 11014, "")
    line = opened(node, replica_id=STRANGER, broker_epoch=STRANGERS_EPOCH)
    assert (claim(line).error, epoch_of(node)) == (PushError.NOT_READY, 5)


def test_while_the_controllers_cannot_be_asked_it_may_be_the_only_word_of_an_election(
    node: BenchNode,
) -> None:
    line, theirs = opened(node), leader_log()
    claim(line, 6)
    node.controller.connected = False
    pass_ms(node, 100 * BELIEF_MS)
    assert the_answer(line.send(push_of(2, all_of(theirs)))).error == PushError.STALE_LEADER
    node.controller.connected = True
    asked = questions(node)
    pass_ms(node, 1)
    pass_ms(node, BELIEF_MS)
    [answer] = asked
    assert epoch_of(node) == 6, "nobody has answered yet"
    answer(False)
    assert epoch_of(node) == 6, "the answer is that nobody knows"
    pass_ms(node, 1)
    asked[1](True)
    assert epoch_of(node) == 5


def test_a_view_that_catches_up_ends_the_question(node: BenchNode) -> None:
    line = opened(node)
    claim(line, 6)
    place(node, "a", 10, leader_epoch=6)
    pass_ms(node, BELIEF_MS)
    assert (epoch_of(node), node.metrics.refuted_epochs) == (6, 0)
    assert claim(line, 7).error == PushError.NONE, "its word counts as before"


def test_a_claim_that_came_after_the_question_is_not_judged_by_its_answer(node: BenchNode) -> None:
    line = opened(node)
    claim(line, 6)
    asked = questions(node)
    pass_ms(node, BELIEF_MS)
    claim(line, 7)
    asked[0](True)
    assert epoch_of(node) == 7, "that election may be younger than the answer"
    pass_ms(node, BELIEF_MS)
    asked[1](True)
    assert epoch_of(node) == 5


def test_batches_of_an_epoch_that_nobody_was_given_are_damage(node: BenchNode) -> None:
    line = opened(node)
    assert the_answer(line.send(push_of(1, all_of(leader_log(epoch=8), epoch=8)))).error == PushError.NONE
    pass_ms(node, BELIEF_MS)
    log = node.broker.topics["a"].partitions[0].log
    assert (log.state, log.reason) == (
        LogState.DAMAGED,
        "it has batches of leader epoch 8, which no leader was given",
    )
    assert the_answer(line.send(push_of(2, all_of(leader_log())))).error == PushError.NONE, (
        "it is filled anew"
    )
    assert (log.last, log.epochs) == (3, [(5, 1)])


def test_a_leader_that_stepped_down_for_it_does_not_go_on_in_its_epoch(node: BenchNode) -> None:
    """It may have given numbers in it: the controllers choose anew."""
    place(node, "a", 10, leader=1, leader_epoch=6, in_sync=(1, LEADER, OTHER))
    partition = node.broker.topics["a"].partitions[0]
    assert role_of(node) is Role.LEADER
    append(partition.log, b"value", epoch=6)
    claim(opened(node), start=2, previous=6)
    assert role_of(node) is Role.FOLLOWER
    pass_ms(node, BELIEF_MS)
    assert (epoch_of(node), role_of(node)) == (6, Role.NONE)


def test_what_is_believed_for_long_is_told_to_who_asks(node: BenchNode) -> None:
    claim(opened(node), 6)
    node.controller.connected = False
    asker = node.client()
    assert DescribeBrokerResponse.decode(asker.ask(DescribeBrokerRequest(0, 1))).troubles == []
    pass_ms(node, BELIEF_MS)
    [trouble] = DescribeBrokerResponse.decode(asker.ask(DescribeBrokerRequest(0, 2))).troubles
    assert (trouble.topic, trouble.partition, trouble.kind) == ("a", 0, TroubleKind.UNKNOWN_EPOCH)
    assert "leader epoch 6, which broker 2 pushed in" in trouble.reason
