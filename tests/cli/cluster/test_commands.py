"""`tank cluster status`, `drain` and the others, against controllers whose state a test sets."""

import json
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tank_cli.cluster.commands import COMMANDS
from tank_cli.main import main
from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tests.support.clients.asked_commands import Ask
from tests.support.clients.asked_commands import ask as ask
from tests.support.clients.asked_commands import world as world
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.controllers.scripted_controllers import ScriptedControllers


def leaderless(world: ScriptedControllers) -> int:
    """A topic whose one partition waits for the broker that led last."""
    cluster = world.cluster
    t = cluster.topic("orders", 1, 2)
    first, second = cluster.partition(t).replicas
    cluster.fence(second)
    cluster.fence(first)
    cluster.up(second)
    world.connected = {each.broker_id for each in cluster.state.brokers.values() if not each.fenced}
    return t


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_says_what_each_command_says_of_itself(name: str) -> None:
    command = COMMANDS[name].load()
    assert isinstance(command, click.Command)
    assert COMMANDS[name].summary == command.get_short_help_str(limit=200)


@pytest.mark.parametrize(
    "arguments",
    [
        ["status"], ["brokers"], ["topics"], ["partitions"], ["elect", "orders", "0", "--unclean", "--yes"],
        ["drain", "3", "--undo"], ["move", "moved", "0", "--to", "2,1"], ["balance"], ["remove", "9"],
    ],
)  # fmt: skip
def test_every_command_prints_the_promised_json(
    arguments: list[str], world: ScriptedControllers, ask: Ask
) -> None:
    world.cluster.topic("moved", 1, 2, flush="replicated")
    leaderless(world)
    world.cluster.register(9)
    found = parsed(ask(*arguments, "--output", "json"))
    (shape,) = SHAPES[f"cluster {arguments[0]}"]
    if arguments[0] in ("status", "partitions"):
        assert_same_rows(found, shape)
    else:
        assert_same_shape(found, shape)


def assert_same_rows(found: dict[str, Any], shape: Any) -> None:
    """As `assert_same_shape`, but that a partition's lists may be empty in the example."""
    shown: Any = SHAPES["cluster partitions"][0]
    example = shown["partitions"][0]
    for rows in (found.get("partitions"), found.get("waiting"), found.get("moving")):
        for row in rows if isinstance(rows, list) else []:
            assert row.keys() == example.keys()
            for key, value in row.items():
                assert isinstance(value, list) is isinstance(example[key], list)
    if "waiting" in found:
        found["waiting"], found["moving"] = [], []
        found["reports"] = [each for each in found["reports"] if each["reached"]]
        assert_same_shape(found, shape)


def test_whoever_leads_is_asked_where_the_others_say_that_it_is(world: ScriptedControllers, ask: Ask) -> None:
    assert parsed(ask("brokers", "-o", "json"))["brokers"][0]["broker_id"] == 1
    world.leads = [True, False]
    assert ask("brokers", controllers=f"127.0.0.1:1,{world.addresses[1]}").exit_code == 0


def test_who_finds_no_controller_or_none_that_leads_is_told_what_to_do(
    world: ScriptedControllers, ask: Ask
) -> None:
    nobody = ask("brokers", controllers="127.0.0.1:1")
    assert nobody.exit_code == ExitCode.UNREACHABLE
    assert "No controller answers at 127.0.0.1:1" in nobody.stderr
    world.leads = [False, False]
    none = ask("status")
    assert none.exit_code == ExitCode.UNREACHABLE
    assert "none leads" in none.stderr
    assert "follows" in none.stdout, "what is known is shown"
    world.problem = "its disk is full"
    none = ask("status", "-o", "json")
    assert none.exit_code == ExitCode.UNREACHABLE
    found = json.loads(none.stdout)
    assert [each["state"] for each in found["controllers"]] == ["follows", "follows"]
    assert [each["warning"] for each in found["warnings"]] == [
        "Controller 1: its disk is full.",
        "Controller 2: its disk is full.",
    ]
    world.named = "127.0.0.1:1"
    far = ask("brokers")
    assert (far.exit_code, "127.0.0.1:1 leads, but it can't be reached" in far.stderr) == (3, True)


def test_controllers_that_name_each_other_are_not_asked_for_ever(
    world: ScriptedControllers, ask: Ask
) -> None:
    world.leads, world.name_each_other = [False, False], True
    ended = ask("brokers")
    assert (ended.exit_code, "none leads" in ended.stderr) == (ExitCode.UNREACHABLE, True)


def test_status_names_what_is_wrong_and_the_way_out(world: ScriptedControllers, ask: Ask) -> None:
    world.cluster.topic("well", 2, 1)
    leaderless(world)
    shown = ask("status")
    assert "1 leaderless" in shown.stdout
    assert "waits for broker" in shown.stdout
    assert "elect --unclean orders 0 --controllers" in shown.stderr
    assert "30.0 GiB" in shown.stdout, "what broker 1 has free"
    assert "What broker 2 says of its disk is unknown: b2:11011" in shown.stderr
    found = parsed(ask("status", "-o", "json"))
    assert (found["leader"], found["healthy"], found["partitions"]["leaderless"]) == (2, False, 1)
    warnings = {each["warning"]: each["help"] for each in found["warnings"]}
    assert all(warning in shown.stderr for warning in warnings)
    assert any("elect --unclean orders 0" in line for lines in warnings.values() for line in lines)
    (waiting,) = found["waiting"]
    assert waiting["waits_for"] == waiting["eligible"] != []
    assert [each["fenced"] for each in found["brokers"]].count(True) == 1
    assert [(c["state"], c["behind"]) for c in found["controllers"]] == [("follows", 1), ("leads", 0)]
    world.stop(0)
    found = parsed(ask("status", "-o", "json", controllers=world.addresses[1]))
    assert [(c["id"], c["state"]) for c in found["controllers"]] == [(1, "down"), (2, "leads")]


def test_an_address_that_is_no_controllers_any_more_makes_no_cluster_ill(
    world: ScriptedControllers, ask: Ask
) -> None:
    found = parsed(ask("status", "-o", "json", controllers=f"127.0.0.1:1,{world.addresses[1]}"))
    assert found["healthy"] is True
    world.members.append(3)
    world.ports.append(1)
    found = parsed(ask("status", "-o", "json", controllers=world.addresses[1]))
    assert found["healthy"] is False, "one that votes doesn't answer"


def test_partitions_are_chosen_by_topic_and_by_trouble(world: ScriptedControllers, ask: Ask) -> None:
    world.cluster.topic("well", 2, 1)
    leaderless(world)

    def places(*options: str) -> list[tuple[str, int]]:
        found = parsed(ask("partitions", *options, "-o", "json"))["partitions"]
        return [(row["topic"], row["partition"]) for row in found]

    assert len(places()) == 3
    assert places("--topic", "well") == [("well", 0), ("well", 1)]
    assert ("orders", 0) in places("--leaderless")
    assert ("orders", 0) in places("--under-replicated")
    assert places("--lossy") == []
    assert ask("elect", "orders", "0", "--unclean", "--yes").exit_code == 0
    assert places("--lossy") == [("orders", 0)]
    unknown = ask("partitions", "--topic", "no")
    assert (unknown.exit_code, "no topic no" in unknown.stderr) == (ExitCode.NOT_FOUND, True)


def test_a_partition_that_waits_is_led_by_who_lives_only_when_that_is_said(
    world: ScriptedControllers, ask: Ask
) -> None:
    t = leaderless(world)
    clean = ask("elect", "orders", "0")
    assert "--unclean" in clean.stderr
    asked = ask("elect", "orders", "0", "--unclean")
    assert (asked.exit_code, "say --yes" in asked.stderr) == (ExitCode.USAGE, True)
    assert world.cluster.partition(t).leader == 0
    elected = ask("elect", "orders", "0", "--unclean", "--yes")
    assert "the messages that it lacked are lost" in elected.stderr
    assert world.cluster.partition(t).lossy_elections == 1
    again = ask("elect", "orders", "0", "--unclean", "--yes")
    assert "nothing was changed" in again.stderr


def test_nobody_is_elected_where_no_broker_lives(world: ScriptedControllers, ask: Ask) -> None:
    world.cluster.topic("orders", 1, 3)
    world.cluster.fence(1, 2, 3)
    ended = ask("elect", "orders", "0", "--unclean", "--yes")
    assert ended.exit_code == ExitCode.FAILED
    assert "start one of them" in ended.stderr


def test_a_drain_waits_until_nothing_is_left_and_says_what_is_next(
    world: ScriptedControllers, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = world.cluster
    t = cluster.topic("orders", 1, 1)
    old = cluster.partition(t).replicas[0]
    new = old % 3 + 1

    def move(seconds: float) -> None:
        if not cluster.partition(t).moves and old in cluster.partition(t).replicas:
            cluster.do(cluster.reassign(t, new))
            cluster.set_in_sync(t, old, new)
            cluster.do(cluster.finish(t))

    monkeypatch.setattr("tank_cli.shell.waiting.time.sleep", move)
    ended = ask("drain", str(old))
    assert ended.exit_code == 0, ended.stderr
    assert f"Broker {old} holds nothing: stop it" in ended.stderr
    assert cluster.state.brokers[old].draining
    ask("drain", str(old), "--undo")
    assert not cluster.state.brokers[old].draining


def test_a_drain_that_cannot_end_is_not_begun_and_one_that_stands_still_is_left(
    world: ScriptedControllers, ask: Ask
) -> None:
    world.cluster.topic("orders", 1, 3)
    refused = ask("drain", "3")
    assert "start another one first" in refused.stderr
    assert not world.cluster.state.brokers[3].draining
    world.cluster.up(4)
    left = ask("drain", "3", "--patience", "1")
    assert left.exit_code == ExitCode.FAILED
    assert "1 replica left" in left.stderr
    assert world.cluster.state.brokers[3].draining, "the controllers go on"


def test_moves_are_refused_in_words(world: ScriptedControllers, ask: Ask) -> None:
    t = world.cluster.topic("orders", 1, 2)
    world.cluster.up(4)
    for to, words in (
        ("1,2,3", "as many brokers as the topic has replicas"),
        ("1,9", "one of these brokers doesn't exist"),
    ):
        assert words in ask("move", "orders", "0", "--to", to).stderr
    assert "from 1 to 65534" in ask("move", "orders", "0", "--to", "1,1").stderr
    assert ask("move", "orders", "7", "--to", "1,2").exit_code == ExitCode.NOT_FOUND
    assert "is not being moved" in ask("move", "orders", "0", "--cancel").stderr
    free = [each for each in (1, 2, 3, 4) if each not in world.cluster.partition(t).replicas]
    begun = ask("move", "orders", "0", "--to", ",".join(map(str, free)), "--no-wait")
    assert "is being moved" in begun.stderr
    other = ask("move", "orders", "0", "--to", "1,2", "--no-wait")
    assert (other.exit_code, "--cancel" in other.stderr) == (ExitCode.EXISTS, True)
    assert "orders/0 is at" in ask("move", "orders", "0", "--cancel").stderr
    assert not world.cluster.partition(t).moves


def test_a_move_that_the_controllers_took_back_is_no_success(
    world: ScriptedControllers, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = world.cluster
    t = cluster.topic("orders", 1, 1)
    held = cluster.partition(t).replicas[0]
    gone = held % 3 + 1
    cluster.fence(gone)
    back = pb.CancelReassign(partitions=[pb.PartitionRef(topic_id=t)])
    monkeypatch.setattr(
        "tank_cli.shell.waiting.time.sleep", lambda seconds: cluster.do(pb.Command(cancel_reassign=back))
    )
    ended = ask("move", "orders", "0", "--to", str(gone))
    assert ended.exit_code == ExitCode.FAILED
    assert f"was not moved to {gone}, it is at {held}" in ended.stderr


def test_only_a_broker_that_is_stopped_and_empty_is_removed(world: ScriptedControllers, ask: Ask) -> None:
    world.cluster.topic("orders", 1, 3)
    assert "drain 3" in ask("remove", "3").stderr
    world.cluster.up(4)
    assert "is running" in ask("remove", "4").stderr
    world.cluster.fence(4)
    assert ask("remove", "4").exit_code == 0
    assert 4 not in world.cluster.state.brokers
    gone = ask("remove", "4")
    assert (gone.exit_code, "but 1, 2, 3" in gone.stderr) == (ExitCode.NOT_FOUND, True)


def test_a_command_whose_fate_is_unknown_is_sent_again(
    world: ScriptedControllers, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.cluster.fence(3)
    unsure = pb.ChangeAnswer(outcome=pb.ProposalOutcome(error=ErrorCode.TIMED_OUT, message="who knows"))
    real = world.cluster.apply
    answers = [unsure.outcome]

    class Unsure:
        def as_message(self) -> pb.ProposalOutcome:
            return answers.pop()

    monkeypatch.setattr(world.cluster, "apply", lambda command: Unsure() if answers else real(command))
    assert ask("remove", "3").exit_code == 0
    assert world.commands == ["remove_broker", "remove_broker"]


def test_hints_name_the_cluster_as_it_was_named(world: ScriptedControllers, ask: Ask) -> None:
    world.cluster.topic("orders", 1, 3)
    assert f"tank cluster drain 3 --controllers {world.addresses[0]}" in ask("remove", "3").stderr
    words, env = ["cluster", "remove", "3"], {"TANK_CONTROLLERS": world.addresses[0]}
    assert "tank cluster drain 3\n" in CliRunner().invoke(main, words, env=env).stderr
    both = ask("remove", "3", "--data", "/nowhere")
    assert (both.exit_code, "say one of both" in both.stderr) == (ExitCode.USAGE, True)


def test_json_errors_have_the_hint(world: ScriptedControllers, ask: Ask) -> None:
    world.cluster.topic("orders", 1, 3)
    ended = ask("remove", "3", "--output", "json")
    assert "drain 3" in json.loads(ended.stderr)["error"]["hint"]
