"""A mistake of ours in one answer, or in one change, leaves all others alone."""

from pathlib import Path

from tank_node.coordinators.group_log import GroupChange, GroupLog
from tank_node.coordinators.machine.group_error import GroupError
from tank_node.coordinators.machine.group_requests import (
    CommittedOffset,
    JoinAnswer,
    JoinRequest,
    ListedGroup,
    MemberName,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.records.group_records import offset_record
from tank_node.limits import Limits
from tests.support.groups.coordinating import GROUP, Coordinating, coordinating

PLACE = ("orders", 0)


class AnswerFailed(Exception):
    """An answer that can't be encoded."""


def fails(*_: object) -> None:
    raise AnswerFailed


def ready(at: Coordinating) -> Coordinating:
    at.found()
    at.load()
    return at


def bugs(at: Coordinating) -> int:
    """How many mistakes were counted."""
    return at.node.metrics.errors["group", "internal_error"]


def test_an_answer_to_a_member_that_fails_keeps_the_next_one_from_nothing(tmp_path: Path) -> None:
    settings = GroupSettings(topic_partitions=1, initial_delay_ms=1_000)
    with coordinating(tmp_path, settings=settings) as at:
        ready(at)
        name = MemberName(GROUP, "")
        request = JoinRequest(name, "client", "/h", 10_000, 60_000, "consumer", (("range", b""),))
        at.node.broker.begin_tick()
        at.groups.join(request, fails)
        joined = at.join()
        at.commit(7, "other")
        for _ in range(4):
            at.node.pass_ms(1_001)
            at.settle()
        assert [answer.error for answer in joined] == [GroupError.NONE]
        assert bugs(at) == 1
        assert at.offsets("other") == {PLACE: 7}, "the partition is not read anew"


def test_a_change_that_can_not_be_stored_fails_alone(tmp_path: Path) -> None:
    """A change without records can't be made into a batch."""
    with coordinating(tmp_path, limits=Limits(group_batch_bytes=1)) as at:
        ready(at)
        log = GroupLog(at.node.broker, at.partition())
        ended: list[tuple[str, object]] = []

        def change(name: str, records: list[tuple[bytes, bytes | None]]) -> GroupChange:
            return GroupChange(
                records,
                lambda is_stored: ended.append((name, is_stored)),
                lambda error: ended.append((name, error)),
            )

        good = offset_record(GROUP, *PLACE, CommittedOffset(9))
        at.node.broker.begin_tick()
        log.append(change("bad", []))
        log.append(change("good", [good]))
        at.settle()
        log.pass_mark()
        assert ended == [
            ("bad", False),
            ("bad", GroupError.NOT_AVAILABLE),
            ("good", True),
            ("good", GroupError.NONE),
        ]
        assert bugs(at) == 1


def test_a_change_whose_end_fails_leaves_those_behind_it_alone(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        log = GroupLog(at.node.broker, at.partition())
        answers: list[GroupError] = []
        record = offset_record(GROUP, *PLACE, CommittedOffset(9))
        at.node.broker.begin_tick()
        log.append(GroupChange([record], fails, answers.append))
        log.append(GroupChange([record], lambda _: None, fails))
        log.append(GroupChange([record], lambda _: None, answers.append))
        at.settle()
        log.pass_mark()
        assert answers == [GroupError.NOT_AVAILABLE, GroupError.NONE]
        assert bugs(at) == 2


def test_a_question_for_the_coordinator_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at)
        at.lead(0, 2)
        answers: list[tuple[GroupError, int]] = []
        at.groups.coordinator_of(GROUP, fails)
        at.groups.coordinator_of(GROUP, lambda *found: answers.append(found))
        at.lead(2, 3)
        assert (answers, bugs(at)) == ([(GroupError.NONE, 2)], 1)
        at.lead(0, 4)
        at.groups.coordinator_of(GROUP, fails)
        at.groups.coordinator_of(GROUP, lambda *found: answers.append(found))
        at.node.pass_ms(2_001)
        assert (answers[1:], bugs(at)) == ([(GroupError.NOT_AVAILABLE, -1)], 2)


def test_a_list_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        found: list[list[ListedGroup]] = []
        at.groups.list_all(fails)
        at.groups.list_all(lambda _, listed: found.append(listed))
        assert [[each.group_id for each in listed] for listed in found] == [[GROUP]]
        assert bugs(at) == 1


def test_a_deletion_whose_answer_fails_is_done_all_the_same(tmp_path: Path) -> None:
    with coordinating(tmp_path) as at:
        ready(at).commit(7)
        at.groups.delete([GROUP], fails)
        at.settle()
        assert at.groups.listed() == (GroupError.NONE, [])
        assert bugs(at) == 1
        joined: list[JoinAnswer] = at.join()
        at.node.pass_ms(1)
        at.settle()
        assert [each.error for each in joined] == [GroupError.NONE]
