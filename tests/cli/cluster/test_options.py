"""Which cluster `tank cluster` asks: of a folder, of controllers, or of brokers that name theirs."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tank_cli.cluster import controller_calls as way
from tank_cli.main import main
from tank_cli.shell import session
from tank_cli.shell.brokers import reports as broker_reports
from tank_cli.shell.exit_codes import ExitCode
from tank_node.surroundings import Surroundings
from tests.controller.cluster_for_tests import Cluster
from tests.support.clients.scripted_broker import Kind
from tests.support.controllers.scripted_controllers import ScriptedControllers
from tests.support.nodes.served_node import ServedNode
from tests.support.nodes.threaded_broker import ThreadedBroker
from tests.support.processes.ports import free_port

Tank = Callable[..., Result]
UNSET = {"TANK_CONTROLLERS": "", "TANK_SERVERS": "", "TANK_SECRET_FILE": ""}


@pytest.fixture
def world() -> Iterator[ScriptedControllers]:
    with ScriptedControllers(Cluster(1, 2, 3)) as made:
        yield made


@pytest.fixture
def node(tmp_path: Path) -> Iterator[ServedNode]:
    """A broker that is one of its own, until it is given controllers."""
    with ServedNode(tmp_path / "data") as made:
        yield made


@pytest.fixture
def tank(monkeypatch: pytest.MonkeyPatch) -> Tank:
    monkeypatch.setattr(way, "NOBODY_ANSWERS_S", 0.5)
    monkeypatch.setattr(broker_reports, "ask_brokers", lambda found: [])

    def run(*words: str, **variables: str) -> Result:
        return CliRunner().invoke(main, list(words), prog_name="tank", env=UNSET | variables)

    return run


def told(node: ServedNode, addresses: list[str]) -> str:
    """The node's address; its controllers are these from now on."""
    node.broker.surroundings = Surroundings(lambda: addresses)
    return f"127.0.0.1:{node.port}"


def test_brokers_name_the_controllers(world: ScriptedControllers, node: ServedNode, tank: Tank) -> None:
    broker, dead = told(node, world.addresses), f"127.0.0.1:{free_port()}"
    for shown in (
        tank("cluster", "brokers", "--servers", f"{dead},{broker}"),
        tank("--servers", broker, "cluster", "brokers"),
        tank("cluster", "brokers", TANK_SERVERS=broker),
    ):
        assert shown.exit_code == 0, shown.stderr
        assert "alive" in shown.stdout
    elsewhere = tank("cluster", "brokers", "--servers", broker, TANK_CONTROLLERS=dead)
    assert elsewhere.exit_code == 0, "the command line goes before a variable"
    by_variable = tank("cluster", "brokers", TANK_CONTROLLERS=world.addresses[0], TANK_SERVERS=dead)
    assert by_variable.exit_code == 0, "controllers go before brokers"


def test_hints_name_the_brokers_as_they_were_named(
    world: ScriptedControllers, node: ServedNode, tank: Tank
) -> None:
    broker = told(node, world.addresses)
    world.cluster.topic("orders", 1, 3)
    refused = tank("cluster", "remove", "3", "--servers", broker)
    assert f"tank cluster drain 3 --servers {broker}" in refused.stderr
    assert "tank cluster drain 3\n" in tank("cluster", "remove", "3", TANK_SERVERS=broker).stderr


def test_controllers_that_brokers_name_and_that_are_out_of_reach_are_said_to_be_theirs(
    node: ServedNode, tank: Tank
) -> None:
    gone = f"127.0.0.1:{free_port()}"
    ended = tank("cluster", "brokers", "--servers", told(node, [gone]))
    assert ended.exit_code == ExitCode.UNREACHABLE
    assert f"No controller answers at {gone}" in ended.stderr
    assert "as brokers name them" in ended.stderr


@pytest.mark.parametrize("kind", list(Kind))
def test_brokers_that_know_no_controllers_are_told_from_those_that_have_none(
    kind: Kind, node: ServedNode, tank: Tank
) -> None:
    with ThreadedBroker(kind) as older:
        ended = tank("cluster", "status", "--servers", older.address)
    assert ended.exit_code == ExitCode.UNSUPPORTED
    assert "of another kind, or of an older version, and names no controllers" in ended.stderr
    alone = tank("cluster", "status", "--servers", told(node, []))
    assert alone.exit_code == ExitCode.UNSUPPORTED
    assert "runs alone (`tank serve`)" in alone.stderr


def test_who_names_no_cluster_is_asked_which_one(tank: Tank, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = f"127.0.0.1:{free_port()}"
    named = tank("cluster", "status", TANK_SERVERS=dead)
    assert (named.exit_code, "No broker answers" in named.stderr) == (ExitCode.UNREACHABLE, True)
    monkeypatch.setattr("tank_cli.cluster.options.current", lambda: session.CommandSession(dead))
    which = tank("cluster", "status")
    assert which.exit_code == ExitCode.USAGE
    assert all(way in which.stderr for way in ("Which cluster?", "--data DIR", "--servers", "--controllers"))


@pytest.mark.parametrize(
    "words",
    [
        ("--data", "/nowhere", "--servers", "127.0.0.1:1"),
        ("--controllers", "127.0.0.1:1", "--servers", "127.0.0.1:1"),
        ("--controllers", "127.0.0.1:1", "--data", "/nowhere"),
    ],
)
def test_one_way_alone_says_which_cluster(words: tuple[str, ...], tank: Tank) -> None:
    both = tank("cluster", "status", *words)
    assert (both.exit_code, "say one of both" in both.stderr) == (ExitCode.USAGE, True)
