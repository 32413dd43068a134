"""When a controller that started is ready, and what it says when no controller leads."""

import logging
from dataclasses import replace

import pytest

from tank_controller.raft_node.readiness import SAID_AFTER_TICKS, Readiness, Sight

NONE_LEADS = Sight(False, "", False, 7, 7)
AT = "c2:1"


def heard(commit: int, applied: int, *, reached: bool = True) -> Sight:
    return Sight(False, AT, reached, commit, applied)


def test_one_that_has_heard_from_no_leader_is_not_ready() -> None:
    readiness = Readiness()
    for _ in range(1000):
        readiness.look(NONE_LEADS)
    assert "has heard from no controller that leads" in readiness.waits_for
    assert not readiness.knows_leader


def test_one_that_holds_its_vote_back_says_so_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    readiness = Readiness()
    for _ in range(SAID_AFTER_TICKS * 3):
        readiness.look(replace(NONE_LEADS, holds_vote=True))
    assert "it votes for no controller yet" in readiness.waits_for
    assert caplog.messages == [readiness.waits_for]
    readiness.look(NONE_LEADS)
    assert "has heard from no controller that leads" in readiness.waits_for


def test_one_that_hears_the_leader_and_cannot_reach_it_is_not_ready() -> None:
    readiness = Readiness()
    readiness.look(heard(9, 9, reached=False))
    assert AT in readiness.waits_for
    assert "--cluster" in readiness.waits_for
    readiness.look(heard(9, 9))
    assert readiness.waits_for == ""


def test_what_was_committed_when_the_leader_was_heard_has_to_be_applied() -> None:
    readiness = Readiness()
    readiness.look(heard(9, 4))
    assert readiness.waits_for == "it has applied entry 4 of 9"
    readiness.look(heard(20, 8))
    assert readiness.waits_for == "it has applied entry 8 of 9", "what came later is not waited for"
    readiness.look(heard(30, 9))
    assert readiness.waits_for == ""


def test_the_leader_itself_is_ready() -> None:
    readiness = Readiness()
    readiness.look(Sight(True, "", False, 1, 1))
    assert (readiness.waits_for, readiness.knows_leader) == ("", True)


def test_one_that_was_ready_stays_so_and_says_once_that_no_controller_leads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    readiness = Readiness()
    readiness.look(heard(9, 9))
    assert readiness.notice == ""
    for _ in range(SAID_AFTER_TICKS * 10):
        readiness.look(NONE_LEADS)
    assert readiness.waits_for == ""
    assert "no controller leads" in readiness.notice
    assert caplog.text.count("no controller leads") == 1
    readiness.look(heard(9, 9))
    assert readiness.notice == ""
    assert f"leads again: {AT}" in caplog.text


def test_a_short_election_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    readiness = Readiness()
    readiness.look(heard(9, 9))
    for _ in range(SAID_AFTER_TICKS - 1):
        readiness.look(NONE_LEADS)
    readiness.look(heard(9, 9))
    assert caplog.text == ""
