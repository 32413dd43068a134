"""`tank group reset` against a broker in a dictionary."""

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client import errors
from tank_client.model import CommittedPosition
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.clients.scripted_client import FakeAdmin, FakeBroker
from tests.support.clients.scripted_members import group_of, member

AT = {("flights", 0): 7, ("flights", 1): 2}


def filled(broker: FakeBroker) -> None:
    """Ten messages, a second apart, of which three have expired; three; none."""
    broker.fill("flights", [str(n) for n in range(10)], ["a", "b", "c"], [])
    broker.topics["flights"].expired = 3
    broker.positions["billing"] = {route: CommittedPosition(number, "", 0) for route, number in AT.items()}


def positions(broker: FakeBroker) -> dict[tuple[str, int], int]:
    return {route: place.number for route, place in broker.positions["billing"].items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-first"], {0: 4, 1: 4}),
        (["--to-end"], {0: 11, 1: 4}),
        (["--to-number", "5"], {0: 5, 1: 4}),
        (["--to-time", "@9"], {0: 7, 1: 4}),
        (["--by", "-1"], {0: 6, 1: 4}),
        (["--by", "2"], {0: 9, 1: 4}),
        (["--to-end", "--topic", "flights:0"], {0: 11, 1: 2}),
        (["--to-first", "--topic", "flights:2"], {0: 7, 1: 2, 2: 1}),
    ],
)
def test_each_goal_sets_positions_within_what_the_log_holds(
    options: list[str], expected: dict[int, int], tank: Tank, broker: FakeBroker
) -> None:
    filled(broker)
    ended = tank("group", "reset", "billing", *options, "--yes")
    assert ended.exit_code == 0, ended.stderr
    assert positions(broker) == {("flights", partition): number for partition, number in expected.items()}


@pytest.mark.parametrize("options", [[], ["--to-first", "--to-end"], ["--by", "1", "--to-number", "1"]])
def test_there_is_exactly_one_goal(options: list[str], tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    ended = tank("group", "reset", "billing", *options, "--yes")
    assert ended.exit_code == ExitCode.USAGE
    assert "exactly one of --to-first, --to-end, --to-time, --to-number, --by" in ended.stderr
    assert positions(broker) == AT


def test_a_dry_run_shows_what_would_be_and_changes_nothing(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    ended = tank("group", "reset", "billing", "--to-number", "5", "--dry-run")
    assert ended.exit_code == 0
    rows = [line.split(maxsplit=4) for line in ended.stdout.splitlines()[1:]]
    assert rows == [
        ["flights", "0", "7", "5", "2 read again"],
        ["flights", "1", "2", "4", "it ends at 3"],
    ]
    assert "Nothing was changed." in ended.stderr
    found = parsed(tank("group", "reset", "billing", "--to-number", "5", "--dry-run", "-o", "json"))
    assert_same_shape(found, SHAPES["group reset"][0])
    assert found["dry_run"] is True
    assert [each["messages"] for each in found["partitions"]] == [-2, 0]
    assert positions(broker) == AT
    assert not [call for call in broker.calls if call[0] == "commit"]


def test_without_a_terminal_to_ask_on_it_takes_yes(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    ended = tank("group", "reset", "billing", "--to-first")
    assert ended.exit_code == ExitCode.USAGE
    assert "--dry-run" in ended.stderr
    assert "--yes" in ended.stderr
    assert positions(broker) == AT


def test_a_reset_is_refused_while_members_live_and_names_them(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    broker.groups["billing"] = group_of("billing", member("worker", ("flights", 0)))
    ended = tank("group", "reset", "billing", "--to-first", "--yes")
    assert ended.exit_code == ExitCode.FAILED
    assert "has 1 member: worker (10.0.0.7)." in ended.stderr
    assert "--yes-while-members-live" in ended.stderr
    assert positions(broker) == AT
    looked = tank("group", "reset", "billing", "--to-first", "--dry-run")
    assert looked.exit_code == 0
    assert "is refused until they have stopped" in looked.stderr


def test_while_members_live_positions_are_set_in_the_names_of_those_that_have_the_partitions(
    tank: Tank, broker: FakeBroker
) -> None:
    filled(broker)
    one, other = member("one", epoch=5), member("other", ("flights", 1), epoch=6)
    broker.groups["billing"] = group_of("billing", one, other)
    ended = tank("group", "reset", "billing", "--to-first", "--yes-while-members-live")
    assert ended.exit_code == 0, ended.stderr
    commits = [call[1] for call in broker.calls if call[0] == "commit"]
    assert commits == [
        ("billing", {("flights", 0): 4}, ("one-4f0e", 5)),
        ("billing", {("flights", 1): 4}, ("other-4f0e", 6)),
    ]


def test_a_member_that_came_meanwhile_is_no_fault_of_this_program(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    late = group_of("billing", member("late"))

    class Joining(dict[str, object]):
        """Has the member only after the first look."""

        def __contains__(self, name: object) -> bool:
            seen = super().__contains__(name)
            self[str(name)] = late
            return seen

    broker.groups = Joining()  # type: ignore[assignment]
    ended = tank("group", "reset", "billing", "--to-first", "--yes")
    assert ended.exit_code == ExitCode.FAILED
    assert "changed meanwhile" in ended.stderr
    assert positions(broker) == AT


def test_a_group_that_is_not_there_can_be_made_with_positions(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    without_topic = tank("group", "reset", "fresh", "--to-end", "--yes")
    assert without_topic.exit_code == ExitCode.NOT_FOUND
    assert "--topic" in without_topic.stderr
    assert tank("group", "reset", "fresh", "--to-end", "--topic", "flights", "--yes").exit_code == 0
    assert {route[1]: place.number for route, place in broker.positions["fresh"].items()} == {
        0: 11,
        1: 4,
        2: 1,
    }


def test_topics_and_partitions_that_are_not_there_are_named(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    unknown = tank("group", "reset", "billing", "--to-end", "--topic", "flihgts", "--yes")
    assert unknown.exit_code == ExitCode.NOT_FOUND
    assert "Did you mean 'flights'?" in unknown.stderr
    beyond = tank("group", "reset", "billing", "--to-end", "--topic", "flights:9", "--yes")
    assert beyond.exit_code == ExitCode.NOT_FOUND
    assert tank("group", "reset", "billing", "--to-end", "--topic", ":1").exit_code == ExitCode.USAGE


def test_a_step_from_where_nothing_was_committed_is_refused(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    ended = tank("group", "reset", "billing", "--by", "3", "--topic", "flights", "--yes")
    assert ended.exit_code == ExitCode.USAGE
    assert "no position in flights/2 to count from: say --to-first" in ended.stderr
    assert positions(broker) == AT


def test_where_brokers_know_no_members_yet_positions_are_set_all_the_same(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(admin: FakeAdmin, names: list[str]) -> None:
        raise errors.LevelTooLow("upgrade all brokers and controllers")

    monkeypatch.setattr(FakeAdmin, "describe_groups", refuse)
    filled(broker)
    assert tank("group", "reset", "billing", "--to-end", "--yes").exit_code == 0
    assert positions(broker) == {("flights", 0): 11, ("flights", 1): 4}
    assert tank("group", "describe", "billing").exit_code == ExitCode.UNSUPPORTED
