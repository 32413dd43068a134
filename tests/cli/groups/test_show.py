"""`tank group list|describe|members|delete` against a broker in a dictionary."""

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client.model import CommittedPosition, GroupSummary
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.clients.scripted_client import FakeAdmin, FakeBroker, ScriptedClient
from tests.support.clients.scripted_members import group_of, member


def filled(broker: FakeBroker) -> None:
    """A group of two members, one of which has committed positions, and a group without members."""
    broker.fill("flights", [str(n) for n in range(10)], ["a", "b"], ["c"])
    broker.groups["billing"] = group_of(
        "billing",
        member("worker", ("flights", 0), instance_id="worker-1", host="/10.0.0.7"),
        member("other", ("flights", 1), ("flights", 2), host="10.0.0.8"),
    )
    broker.positions["billing"] = {
        ("flights", 0): CommittedPosition(4, "", 1_357_017_420_000),
        ("flights", 1): CommittedPosition(3, "", 0),
    }
    broker.positions["nightly"] = {("flights", 0): CommittedPosition(11, "", 0)}


def test_the_list_has_every_group_with_its_state(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    found = parsed(tank("group", "list", "-o", "json"))
    assert_same_shape(found, SHAPES["group list"][0])
    assert [(each["group"], each["state"], each["members"]) for each in found["groups"]] == [
        ("billing", "stable", 2), ("nightly", "empty", 0),
    ]  # fmt: skip
    assert tank("group", "list", "--names").stdout == "billing\nnightly\n"
    assert tank("group", "list", "--names", "--state", "Empty").stdout == "nightly\n"
    assert "there are: empty, stable" in tank("group", "list", "--state", "dead").stderr


def test_groups_of_iggys_clients_are_shown_with_their_streams_and_topics(
    tank: Tank, broker: FakeBroker
) -> None:
    filled(broker)
    broker.positions["iggy:g:7"] = {("flights", 0): CommittedPosition(4, "", 0)}
    broker.titles["iggy:g:7"] = "main/orders/readers"
    assert tank("group", "list").stdout.splitlines()[2].split() == [
        "iggy:g:7", "empty", "0", "consumer", "main/orders/readers",
    ]  # fmt: skip
    assert [each["title"] for each in parsed(tank("group", "list", "-o", "json"))["groups"]] == [
        None, "main/orders/readers", None,
    ]  # fmt: skip
    described = tank("group", "describe", "iggy:g:7").stdout.splitlines()
    assert described[1].split() == ["is", "main/orders/readers"]
    assert parsed(tank("group", "describe", "iggy:g:7", "-o", "json"))["title"] == "main/orders/readers"
    (line,) = [line for line in tank("lag").stdout.splitlines() if line.startswith("iggy:g:7")]
    assert "main/orders/readers" in line
    shown = {each["group"]: each["title"] for each in parsed(tank("lag", "-o", "json"))["groups"]}
    assert shown == {"billing": None, "iggy:g:7": "main/orders/readers", "nightly": None}


def test_a_group_whose_name_is_no_text_is_listed_with_the_others(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    broker.positions[b"a\xff".decode("utf-8", "surrogateescape")] = {}
    found = parsed(tank("group", "list", "-o", "json"))
    assert [each["group"] for each in found["groups"]] == ["a\ufffd", "billing", "nightly"]
    assert tank("group", "list", "--names").stdout_bytes == b"a\xff\nbilling\nnightly\n"
    shown = tank("group", "list")
    assert shown.exit_code == 0
    assert "a\\xff" in shown.stdout


def test_the_shell_completes_names_that_are_text(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(broker)
    broker.positions[b"n\xff".decode("utf-8", "surrogateescape")] = {}
    monkeypatch.setattr("tank_client.sync.Client", lambda servers, settings: ScriptedClient(broker))
    typed = {"_TANK_COMPLETE": "zsh_complete", "COMP_WORDS": "tank group describe n", "COMP_CWORD": "3"}
    ended = tank(env=typed)
    assert ended.exit_code == 0
    assert ended.stdout.split() == ["plain", "nightly", "_"]


def test_without_groups_the_list_says_so(tank: Tank) -> None:
    assert "no consumer groups" in tank("group", "list").stderr
    assert parsed(tank("group", "list", "-o", "json")) == {"groups": []}


def test_a_group_is_described_with_its_lag_and_which_member_has_what(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    found = parsed(tank("group", "describe", "billing", "-o", "json"))
    assert_same_shape(found["partitions"][0], SHAPES["group describe"][0]["partitions"][0])  # type: ignore[index,call-overload]
    assert {**found, "partitions": []} == {
        "group": "billing", "state": "stable", "protocol_type": "consumer", "protocol": "uniform", "epoch": 7,
        "members": 2, "lag": 7, "title": None, "partitions": [],
    }  # fmt: skip
    rows = [
        (each["partition"], each["position"], each["lag"], each["member"]) for each in found["partitions"]
    ]
    assert rows == [(0, 4, 7, "worker-1"), (1, 3, 0, "other"), (2, None, None, "other")]
    shown = tank("group", "describe", "billing").stdout
    assert "uniform" in shown
    assert "2013-01-01T05:17:00.000Z  worker-1" in shown


def test_members_of_the_same_name_are_told_apart(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    first, second = member("app", ("flights", 0)), member("app", ("flights", 1))
    twins = (first, type(second)("app-b2c3", *[getattr(second, name) for name in second.__slots__[1:]]))
    broker.groups["billing"] = group_of("billing", *twins)
    found = parsed(tank("group", "describe", "billing", "-o", "json"))["partitions"]
    assert [each["member"] for each in found] == ["app-4f0e", "app-b2c3"]


def test_members_are_shown_with_their_partitions(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    found = parsed(tank("group", "members", "billing", "-o", "json"))
    assert_same_shape(found["members"][0], SHAPES["group members"][0]["members"][0])  # type: ignore[index,call-overload]
    assert found["members"][1]["instance_id"] is None
    assert found["members"][1]["partitions"] == [{"topic": "flights", "partitions": [1, 2]}]
    shown = tank("group", "members", "billing").stdout
    assert "flights 1-2" in shown
    assert "10.0.0.7" in shown
    assert "/10.0.0.7" not in shown
    assert "nightly has no members." in tank("group", "members", "nightly").stderr


@pytest.mark.parametrize("command", ["describe", "members", "delete"])
def test_a_group_that_is_not_there_gets_the_nearest_name(
    command: str, tank: Tank, broker: FakeBroker
) -> None:
    filled(broker)
    options = ["--yes"] if command == "delete" else []
    ended = tank("group", command, "biling", *options)
    assert ended.exit_code == ExitCode.NOT_FOUND
    assert "Did you mean 'billing'?" in ended.stderr
    assert "tank group list" in ended.stderr


def test_a_group_without_members_is_deleted_with_its_positions(tank: Tank, broker: FakeBroker) -> None:
    filled(broker)
    assert tank("group", "delete", "nightly").exit_code == ExitCode.USAGE
    assert "nightly" in broker.positions
    assert parsed(tank("group", "delete", "nightly", "--yes", "-o", "json")) == {"deleted": ["nightly"]}
    assert "nightly" not in broker.positions
    assert tank("group", "delete", "nightly", "--yes", "--if-exists").exit_code == 0


def test_a_group_with_members_is_not_deleted_and_the_members_are_named(
    tank: Tank, broker: FakeBroker
) -> None:
    filled(broker)
    ended = tank("group", "delete", "nightly", "billing", "--yes")
    assert ended.exit_code == ExitCode.FAILED
    assert "has 2 members: worker-1 (10.0.0.7), other (10.0.0.8)." in ended.stderr
    assert "Deleted before it: nightly." in ended.stderr
    assert "billing" in broker.positions


def test_many_members_are_not_all_named(tank: Tank, broker: FakeBroker) -> None:
    many = [member(f"m{number}") for number in range(9)]
    broker.groups["large"] = group_of("large", *many)
    said = tank("group", "delete", "large", "--yes").stderr
    assert "9 members: m0 (10.0.0.7)" in said
    assert "m4 (10.0.0.7) and 4 more" in said


def test_a_broker_that_gives_no_states_shows_names(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeAdmin, "groups", lambda admin: [GroupSummary("billing")])
    assert tank("group", "list").stdout.split() == [
        "GROUP", "STATE", "MEMBERS", "TYPE", "billing", "-", "-", "-",
    ]  # fmt: skip
    (found,) = parsed(tank("group", "list", "-o", "json"))["groups"]
    assert (found["state"], found["members"]) == (None, None)
