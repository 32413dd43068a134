"""Progress for logs and for people, and tables likewise."""

import sys
from io import StringIO

import pytest

from tank_cli.shell import output
from tank_cli.shell import progress as progress_module
from tank_cli.shell.progress import progress


class Terminal(StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Stopwatch:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def stopwatch(monkeypatch: pytest.MonkeyPatch) -> Stopwatch:
    made = Stopwatch()
    monkeypatch.setattr("tank_cli.shell.progress.time.monotonic", made)
    return made


def test_in_a_pipe_it_is_a_plain_line_now_and_then(
    stopwatch: Stopwatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with progress("Stored", 10_000) as shown:
        for _ in range(10):
            stopwatch.now += 1.0
            shown.advance(1_000, 2_048)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "Stored 5,000 of 10,000 messages, 1,000 messages/s, 2.0 KiB/s",
        "Stored 10,000 of 10,000 messages, 1,000 messages/s, 2.0 KiB/s",
    ]


def test_short_work_says_nothing(stopwatch: Stopwatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Stored") as shown:
        stopwatch.now += 0.5
        shown.advance(1, 1)
    assert capsys.readouterr().err == ""


def test_quiet_work_counts_and_says_nothing(stopwatch: Stopwatch, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("Stored", quiet=True) as shown:
        stopwatch.now += 100
        shown.advance(7, 70)
    assert (shown.messages, shown.size_bytes) == (7, 70)
    assert capsys.readouterr().err == ""


def test_a_person_sees_a_bar_that_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress_module, "REDRAW_EVERY_S", 0.0)
    with progress("Read", 100) as shown:
        shown.advance(50, 500)
    drawn = terminal.getvalue()
    assert "Read" in drawn
    assert drawn.endswith("\x1b[2K")  # the line is cleared


def test_tables_are_drawn_for_people_and_show_no_signs_to_obey(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("COLUMNS", "60")
    output.print_table(["Group", ">Lag"], [["\x1b[31mevil[bold]", "7"]])
    assert "\\x1b[31mevil[bold]" in terminal.getvalue()
    assert "─" in terminal.getvalue()


def test_tables_in_a_pipe_are_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_table(["Name", ">Size"], [["n" * 300, "1"], ["m", "22"]])
    assert capsys.readouterr().out.splitlines()[1] == "n" * 300 + "     1"
