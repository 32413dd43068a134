"""`tank cluster controllers`, `transfer` and `remove-controller`."""

import pytest

from tank_cli.cluster import controllers as cluster_controllers
from tank_cli.cluster.controller_calls import Controllers
from tank_cli.shell.exit_codes import ExitCode
from tank_protos.generated import control_pb2 as pb
from tests.support.clients.asked_commands import Ask
from tests.support.clients.asked_commands import ask as ask
from tests.support.clients.asked_commands import world as world
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.controllers.scripted_controllers import ScriptedControllers


def test_every_command_prints_the_promised_json(world: ScriptedControllers, ask: Ask) -> None:
    from tank_cli.shell.shapes import SHAPES

    for arguments in (["controllers"], ["transfer", "1"], ["remove-controller", "2"]):
        yes = ["--yes"] if arguments[0] == "remove-controller" else []
        found = parsed(ask(*arguments, *yes, "--output", "json"))
        assert_same_shape(found, SHAPES[f"cluster {arguments[0]}"][0])
    assert world.commands == ["transfer", "remove_controller"]


def test_the_controllers_are_listed_also_while_none_leads(world: ScriptedControllers, ask: Ask) -> None:
    shown = ask("controllers").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["CONTROLLER", "1", "2"]
    assert [line.split()[2] for line in shown] == ["STATE", "follows", "leads"]
    world.leads = [False, False]
    assert [each["state"] for each in parsed(ask("controllers", "-o", "json"))["controllers"]] == [
        "follows"
    ] * 2
    world.stop(1)
    found = parsed(ask("controllers", "-o", "json"))["controllers"]
    assert [(each["state"], each["problem"]) for each in found] == [
        ("follows", None),
        ("down", "it can't be reached"),
    ]
    assert "1 controller can't be reached" in ask("controllers").stderr
    nobody = ask("controllers", controllers="127.0.0.1:1")
    assert (nobody.exit_code, "No controller answers" in nobody.stderr) == (ExitCode.UNREACHABLE, True)


def test_what_is_wrong_with_one_stands_below_the_table(world: ScriptedControllers, ask: Ask) -> None:
    world.problem = "it was removed: stop it"
    shown = ask("controllers")
    assert "follows; see below" in shown.stdout
    assert "stop it" not in shown.stdout
    assert "Controller 1: it was removed: stop it." in shown.stderr


def test_one_that_is_there_with_two_disks_is_named_with_both(
    world: ScriptedControllers, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    members = [
        pb.ControllerMember(node=pb.RaftNode(ordinal=1, disk=disk), votes=votes, address="one:1")
        for disk, votes in ((b"\x0a", True), (b"\x0b", False))
    ]
    said = pb.ControllersDescription(node=members[1].node, members=members, leads=True)
    monkeypatch.setattr(Controllers, "describe", lambda controllers: {"one:1": said})
    assert (
        "Controller 1 is there with 2 disks, and the earlier one goes: 0a and 0b."
        in ask("controllers").stderr
    )


def test_another_controller_leads_when_it_is_told_to(world: ScriptedControllers, ask: Ask) -> None:
    assert "Controller 2 leads already; nothing was changed." in ask("transfer", "2").stderr
    assert world.commands == []
    assert "Controller 1 leads now." in ask("transfer", "1").stderr
    assert world.leads == [True, False]
    refused = ask("transfer", "9")
    assert "Controller 9 is no member." in refused.stderr
    assert "tank cluster controllers" in refused.stderr


def test_a_hand_over_that_does_not_come_to_be_is_given_up(
    world: ScriptedControllers, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_controllers, "PATIENCE_S", 0.0)
    monkeypatch.setattr(Controllers, "transfer", lambda controllers, ordinal: None)
    ended = ask("transfer", "1")
    assert ended.exit_code == ExitCode.FAILED
    assert "Controller 1 does not lead" in ended.stderr
    assert "controller 2 leads" in ended.stderr


def test_only_a_controller_that_does_not_lead_is_removed(world: ScriptedControllers, ask: Ask) -> None:
    leads = ask("remove-controller", "2")
    assert "Controller 2 leads: hand leadership over first." in leads.stderr
    assert "tank cluster transfer 1" in leads.stderr
    unknown = ask("remove-controller", "9")
    assert (unknown.exit_code, "There is no controller 9, but 1, 2." in unknown.stderr) == (
        ExitCode.NOT_FOUND,
        True,
    )
    assert ask("remove-controller", "1", "--disk", "x").exit_code == ExitCode.USAGE
    assert "is no member" in ask("remove-controller", "1", "--disk", "0a").stderr
    refused = ask("remove-controller", "1")
    assert "Controller 1 answers, so it still runs" in refused.stderr
    assert refused.exit_code == ExitCode.FAILED
    assert world.commands == []
    removed = ask("remove-controller", "1", "--yes", controllers=world.addresses[1])
    assert "Removed controller 1. Of the 1 voter left, 1 must run." in removed.stderr
    assert world.members == [2]
