"""`tank cluster` commands against scripted controllers."""

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from tank_cli.cluster import controller_calls as way
from tank_cli.main import main
from tank_cli.shell.brokers import reports as broker_reports
from tank_cli.shell.brokers.reports import AskedBroker
from tank_client.model import BrokerReport
from tests.controller.cluster_for_tests import Cluster
from tests.support.controllers.scripted_controllers import ScriptedControllers

Ask = Callable[..., Result]


world_reports = [
    AskedBroker(1, BrokerReport(1, "", 0, 0, "/d", 10, 30 << 30, 100 << 30, 0, 0)),
    AskedBroker(2, None, "b2:11011 can't be asked from here"),
]
"""What the brokers say of themselves."""


@pytest.fixture
def world() -> Iterator[ScriptedControllers]:
    with ScriptedControllers(Cluster(1, 2, 3)) as world:
        yield world


@pytest.fixture
def ask(world: ScriptedControllers, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """`ask("drain", "3")`, of the controller that doesn't lead."""
    monkeypatch.setattr(way, "NOBODY_ANSWERS_S", 0.5)
    monkeypatch.setattr(way, "NOBODY_LEADS_S", 0.5)
    monkeypatch.setattr(broker_reports, "ask_brokers", lambda found: world_reports)

    def run(*arguments: str, controllers: str = world.addresses[0]) -> Result:
        group = [] if arguments[0] == "iggy" else ["cluster"]
        words = [*group, *arguments, "--controllers", controllers]
        return CliRunner().invoke(main, words, prog_name="tank")

    return run
