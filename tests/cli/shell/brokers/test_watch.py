"""Telling a person that the broker has gone or can't store anything, and that it goes on."""

import pytest

from tank_cli.shell.brokers import watch as broker_watch
from tank_cli.shell.brokers.watch import BrokerWatch


def test_it_says_once_that_nobody_answers_and_once_that_somebody_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers = iter(["h:1: connection refused", "h:1: connection refused", "", ""])
    monkeypatch.setattr(broker_watch, "unreachable", lambda servers, timeout_s: next(answers))
    watch = BrokerWatch("h:1")
    for _ in range(4):
        watch.look()
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("warning: no broker answers (h:1: connection refused)")
    assert second == "The broker answers again."


def test_it_says_what_keeps_a_broker_that_is_there_from_storing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(broker_watch, "unreachable", lambda servers, timeout_s: "")
    watch = BrokerWatch("h:1")
    watch.look()
    for trouble in (OSError("its disk is full"), OSError("its disk is full"), None, None):
        watch.why = lambda trouble=trouble: trouble  # type: ignore[misc]
        watch.look()
    first, second = capsys.readouterr().err.splitlines()
    assert (
        first == "warning: nothing is stored now (its disk is full); the command tries again, Ctrl-C ends it."
    )
    assert second == "The broker answers again."
