"""Committed offsets, from the request to the log and back."""

from pathlib import Path

from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_settings import GroupSettings
from tests.support.groups.coordinating import coordinating

ONE = GroupSettings(topic_partitions=1, initial_delay_ms=0)


def test_the_topic_is_made_at_first_use(tmp_path: Path) -> None:
    with coordinating(tmp_path, settings=GroupSettings()) as at:
        assert at.node.controller.view.topic("__consumer_offsets") is None
        assert at.found() == [(GroupError.NONE, 1)]
        topic = at.node.controller.view.topic("__consumer_offsets")
        assert topic is not None
        assert len(topic.partitions) == 50
        assert topic.settings.cleanup_policy.compacts
        assert topic.settings.segment_bytes == 16 * 1024 * 1024


def test_a_commit_is_answered_and_read_when_the_mark_has_passed_it(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        at.found()
        at.load()
        answers = at.begin_commit(7)
        at.node.tick()
        assert (answers, at.offsets()) == ([], {}), "the disk doesn't have it yet"
        at.node.sync()
        assert [list(results.values()) for results in answers] == [[GroupError.NONE]]
        assert at.offsets() == {("orders", 0): 7}


def test_a_load_that_is_not_through_answers_nothing(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        at.found()
        assert [list(each.values()) for each in at.begin_commit()] == [[GroupError.LOADING]]
        assert at.groups.committed("billing", None) == (GroupError.LOADING, {})
        at.load()
        assert at.commit() == [GroupError.NONE]


def test_offsets_are_there_again_after_a_restart(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        at.found()
        at.load()
        for offset in range(5):
            assert at.commit(offset, places=[("orders", 0), ("orders", 3)]) == [GroupError.NONE] * 2
        assert at.commit(9, "other") == [GroupError.NONE]
        controller = at.node.controller
    with coordinating(tmp_path, controller=controller) as at:
        at.load()
        assert at.offsets() == {("orders", 0): 4, ("orders", 3): 4}
        assert at.offsets("other") == {("orders", 0): 9}


def test_the_commits_of_a_tick_are_one_batch(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        at.found()
        at.load()
        answers = [at.begin_commit(number, f"group-{number}") for number in range(20)]
        at.settle()
        assert all(answers)
        assert at.node.metrics.produced_batches == 1
        assert at.partition().log.last == 20
