"""When the data of a replica goes that others hold now: not on the word of a view that may be old."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_node.broker.replica_removal import ReplicaRemoval
from tank_protos.error_codes import PushError
from tests.support.controllers.instant_controller import InstantController
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.leader_line import (
    LEADER,
    OTHER,
    all_of,
    following,
    leader_log,
    opened,
    place,
    push_of,
    the_answer,
)


class SlowController(InstantController):
    """Its answers wait."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Callable[[bool], None]] = []

    def await_view(self, done: Callable[[bool], None], *, of_client: bool = False) -> None:
        self.waiting.append(done)


def given() -> tuple[ReplicaRemoval, SlowController, list[tuple[int, int]]]:
    gone: list[tuple[int, int]] = []
    controller = SlowController()
    return (
        ReplicaRemoval(controller, lambda topic_id, number: gone.append((topic_id, number))),
        controller,
        gone,
    )


def test_data_goes_when_the_view_is_known_to_be_current() -> None:
    moved, controller, gone = given()
    moved.add(1, 0)
    moved.ask()
    moved.add(1, 1)
    moved.ask()
    assert (len(controller.waiting), gone) == (1, [])
    controller.waiting.pop()(True)
    assert gone == [(1, 0)], "the other one came after the question"
    controller.waiting.pop()(True)
    assert gone == [(1, 0), (1, 1)]
    moved.ask()
    assert controller.waiting == []


def test_what_came_back_stays_also_when_it_is_moved_away_again() -> None:
    moved, controller, gone = given()
    moved.add(1, 0)
    moved.ask()
    moved.keep(1, 0)
    moved.add(1, 0)  # by a view of behind the question
    controller.waiting.pop()(True)
    assert gone == []
    controller.waiting.pop()(True)
    assert gone == [(1, 0)]


def test_an_answer_that_says_nothing_is_asked_for_again() -> None:
    moved, controller, gone = given()
    moved.add(1, 0)
    moved.ask()
    controller.waiting.pop()(False)
    assert (gone, controller.waiting) == ([], [])
    moved.ask()
    controller.waiting.pop()(True)
    assert gone == [(1, 0)]


def test_of_many_some_go_at_once_and_the_others_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tank_node.broker.replica_removal.MOST_AT_ONCE", 2)
    moved, controller, gone = given()
    for number in range(3):
        moved.add(1, number)
    moved.ask()
    controller.waiting.pop()(True)
    assert (gone, controller.waiting) == ([(1, 0), (1, 1)], [])
    moved.ask()
    controller.waiting.pop()(True)
    assert gone == [(1, 0), (1, 1), (1, 2)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with following(tmp_path / "data") as node:
        yield node


def test_until_then_nothing_that_is_pushed_to_it_is_taken(node: BenchNode) -> None:
    waiting: list[Callable[[bool], None]] = []
    node.controller.await_view = waiting.append  # type: ignore[method-assign, assignment]
    node.broker.roles.registered = True
    line, theirs = opened(node), leader_log()
    line.send(push_of(1, all_of(theirs)))
    folder = node.broker.topics["a"].partitions[0].log.folder
    place(node, "a", 10, replicas=(LEADER, OTHER))
    node.maintenance.run()
    assert the_answer(line.send(push_of(2, all_of(theirs, 4)))).error == PushError.UNKNOWN_PARTITION
    assert node.data_folder.disk.exists(folder)
    place(node, "a", 10)
    told = the_answer(line.send(push_of(3, all_of(theirs, 4))))
    assert (told.error, told.matched) == (PushError.NONE, 3), "it is a replica again, with all it had"
    waiting.pop()(True)
    assert node.broker.topics["a"].partitions[0].log.written == 3
    place(node, "a", 10, replicas=(LEADER, OTHER))
    node.maintenance.run()
    waiting.pop()(True)
    assert 0 not in node.broker.topics["a"].partitions
    assert the_answer(line.send(push_of(4, all_of(theirs, 4)))).error == PushError.UNKNOWN_PARTITION
