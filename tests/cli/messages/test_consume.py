"""`tank consume` against a broker in a dictionary: where it begins and ends, what it shows and commits."""

import json
from typing import Any

import pytest

from tank_cli.shell import render
from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client.model import CommittedPosition
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape
from tests.support.clients.scripted_client import FakeBroker, FakeConsumer


@pytest.fixture(autouse=True)
def topic(broker: FakeBroker) -> None:
    """Partition 0: a1 … a8, a second apart from second 1 on; partition 1: b1, b2."""
    broker.fill("t", [f"a{n}" for n in range(1, 9)], ["b1", "b2"])


def shown(tank: Tank, *arguments: str) -> list[str]:
    ended = tank("consume", "t", *arguments)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.split()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "a1 a2 a3 a4 a5 a6 a7 a8 b1 b2"),
        (["--partition", "1"], "b1 b2"),
        (["--partition", "0-1", "--count", "9"], "a1 a2 a3 a4 a5 a6 a7 a8 b1"),
        (["--from", "first", "-n", "2"], "a1 a2"),
        (["--from", "end"], ""),
        (["--from", "7"], "a7 a8"),
        (["--from", "2", "--until", "4"], "a2 a3 a4 b2"),
        (["--from", "-3"], "a6 a7 a8 b1 b2"),
        (["--from", "@5", "-p", "0"], "a5 a6 a7 a8"),
        (["--from", "@2", "--until", "@6", "-p", "0"], "a2 a3 a4 a5"),
        (["--from", "@5"], "a5 a6 a7 a8"),
        (["--until", "@2"], "a1 b1"),
        (["--until", "end", "--follow"], "a1 a2 a3 a4 a5 a6 a7 a8 b1 b2"),
        (["--follow", "--until", "2"], "a1 a2 b1 b2"),
        (["--follow", "--count", "3"], "a1 a2 a3"),
        (["--from", "@100"], ""),
    ],
)
def test_from_until_count_and_partition(arguments: list[str], expected: str, tank: Tank) -> None:
    assert shown(tank, *arguments) == expected.split()


def test_without_follow_the_end_of_now_is_the_end(tank: Tank, broker: FakeBroker) -> None:
    shown(tank)
    ((_, consumer),) = [call for call in broker.calls if call[0] == "consumer"]
    assert consumer == {"start": {("t", 0): 1, ("t", 1): 1}, "stop_at_end": True}


def test_an_empty_topic_shows_nothing_and_asks_nothing(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", [], [])
    assert shown(tank) == []
    assert "consumer" not in dict(broker.calls)


def test_numbers_that_have_expired_are_warned_about(tank: Tank, broker: FakeBroker) -> None:
    broker.topics["t"].expired = 1
    ended = tank("consume", "t", "--from", "1", "-p", "0")
    assert ended.stdout.split() == ["a2", "a3", "a4", "a5", "a6", "a7", "a8"]
    assert "t/0 begins at 2: the messages from 1 on have expired." in ended.stderr


def test_a_number_beyond_every_end_is_an_error_unless_it_is_waited_for(tank: Tank) -> None:
    ended = tank("consume", "t", "--from", "500")
    assert ended.exit_code == ExitCode.OUT_OF_BOUNDS
    assert "t ends at 8, before 500" in ended.stderr
    assert shown(tank, "--from", "9") == []


def test_an_unknown_partition(tank: Tank) -> None:
    ended = tank("consume", "t", "-p", "5")
    assert ended.exit_code == ExitCode.NOT_FOUND


def test_a_group_goes_on_where_it_was(tank: Tank, broker: FakeBroker) -> None:
    assert shown(tank, "--group", "g", "--count", "5") == ["a1", "a2", "a3", "a4", "a5"]
    assert {place: at.number for place, at in broker.positions["g"].items()} == {("t", 0): 6}
    assert shown(tank, "--group", "g") == ["a6", "a7", "a8", "b1", "b2"]
    assert {place: at.number for place, at in broker.positions["g"].items()} == {("t", 0): 9, ("t", 1): 3}
    assert shown(tank, "--group", "g") == []


def test_a_group_is_read_as_a_member_unless_it_is_said_what_to_read(tank: Tank, broker: FakeBroker) -> None:
    shown(tank, "--group", "g")
    assert ("member", {"topic": "t", "group": "g", "stop_at_end": True}) in broker.calls
    for options in (["--from", "first"], ["--until", "end"], ["-p", "0"], ["--no-commit"]):
        broker.calls.clear()
        shown(tank, "--group", "g", *options)
        assert not [call for call in broker.calls if call[0] == "member"], options


def test_what_a_reader_of_the_output_did_not_get_is_not_committed(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker, "fails_with", BrokenPipeError())
    assert tank("consume", "t", "--group", "g").exit_code == ExitCode.OUTPUT_CLOSED
    assert broker.positions == {}


def test_a_group_can_look_without_committing(tank: Tank, broker: FakeBroker) -> None:
    broker.positions["g"] = {("t", 0): CommittedPosition(8)}
    assert shown(tank, "--group", "g", "--no-commit", "-p", "0") == ["a8"]
    assert broker.positions["g"][("t", 0)].number == 8


def test_an_explicit_start_wins_over_the_group(tank: Tank, broker: FakeBroker) -> None:
    broker.positions["g"] = {("t", 0): CommittedPosition(8)}
    assert shown(tank, "--group", "g", "--from", "first", "-p", "0", "-n", "1") == ["a1"]
    assert broker.positions["g"][("t", 0)].number == 2


def test_ctrl_c_commits_what_was_shown(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    polls = iter(range(10))
    original = FakeConsumer.poll

    def interrupted(self: FakeConsumer, max_wait_ms: int = 0) -> object:
        if next(polls) == 2:
            raise KeyboardInterrupt
        return original(self, max_wait_ms)

    monkeypatch.setattr(FakeConsumer, "poll", interrupted)
    ended = tank("consume", "t", "--follow", "--group", "g")
    assert ended.exit_code == ExitCode.INTERRUPTED
    assert ended.stdout.split() == ["a1", "a2", "a3", "a4", "a5", "a6"]
    assert broker.positions["g"][("t", 0)].number == 7


@pytest.mark.parametrize("reads", [[], ["--partition", "0-1"]], ids=["shares", "says what to read"])
@pytest.mark.parametrize("follows", [[], ["--follow"]], ids=["to the end", "follows"])
def test_ctrl_c_while_a_batch_is_rendered_commits_nothing_of_it(
    reads: list[str], follows: list[str], tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = render.text_renderer

    def renderer_that_is_interrupted(**options: Any) -> render.Renderer:
        calls = iter(range(10))
        renderer = original(**options)

        def interrupted(columns: render.MessageColumns) -> bytes:
            if next(calls) == 1:
                raise KeyboardInterrupt
            return renderer(columns)

        return interrupted

    monkeypatch.setattr(render, "text_renderer", renderer_that_is_interrupted)
    ended = tank("consume", "t", "--group", "g", *reads, *follows)
    assert ended.exit_code == ExitCode.INTERRUPTED
    assert ended.stdout.split() == ["a1", "a2", "a3"]
    assert {place: at.number for place, at in broker.positions["g"].items()} == {("t", 0): 4}


def test_ctrl_c_in_the_first_batch_leaves_the_group_where_it_was(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(columns: render.MessageColumns) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(render, "text_renderer", lambda **options: interrupted)
    broker.positions["g"] = {("t", 0): CommittedPosition(5)}
    assert tank("consume", "t", "--group", "g").exit_code == ExitCode.INTERRUPTED
    assert {place: at.number for place, at in broker.positions["g"].items()} == {("t", 0): 5}


def test_ctrl_c_before_the_rest_of_a_batch_is_given_back_commits_what_was_shown(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = FakeConsumer.seek
    calls = iter(range(10))

    def interrupted(self: FakeConsumer, topic: str, partition: int, number: int) -> None:
        if next(calls) == 0:
            raise KeyboardInterrupt
        original(self, topic, partition, number)

    monkeypatch.setattr(FakeConsumer, "seek", interrupted)
    ended = tank("consume", "t", "--group", "g", "--count", "5")
    assert ended.exit_code == ExitCode.INTERRUPTED
    assert ended.stdout.split() == ["a1", "a2", "a3", "a4", "a5"]
    assert broker.positions["g"][("t", 0)].number == 6


@pytest.mark.parametrize("arguments", [["--format", "json"], ["--output", "json"]])
def test_json_has_the_promised_shape(arguments: list[str], tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", [("k", "v"), ("k", b"\xff".decode("latin-1"))])
    kept = broker.topics["t"].partitions[0]
    kept[1] = kept[1]._replace(key=b"\xff", value=b"\xff")
    lines = tank("consume", "t", *arguments).stdout.splitlines()
    for line, example in zip(lines, SHAPES["consume"], strict=True):
        assert_same_shape(json.loads(line), example)


def test_a_template_implies_its_format(tank: Tank) -> None:
    assert shown(tank, "--template", "{partition}:{number}:{value}", "-n", "1") == ["0:1:a1"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--format", "template"],
        ["--format", "json", "--template", "x"],
        ["--format", "hex", "--key-separator", ":"],
        ["--from", "committed"],
        ["--no-commit"],
        ["--until", "committed", "--group", "g"],
        ["--count", "0"],
        ["--from", "5", "--until", "3"],
        ["--partition", "x"],
        ["--template", "{nothing}"],
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], tank: Tank) -> None:
    assert tank("consume", "t", *arguments).exit_code == ExitCode.USAGE
