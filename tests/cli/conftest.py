"""A `tank` whose broker is a dictionary."""

from collections.abc import Callable

import pytest
from click.testing import CliRunner, Result

from tank_cli.main import main
from tests.support.clients.scripted_client import FakeBroker, ScriptedClient

Tank = Callable[..., Result]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> FakeBroker:
    """The broker that every command of the test talks to."""
    made = FakeBroker()
    monkeypatch.setattr("tank_cli.shell.connect.require_server", lambda servers: None)
    monkeypatch.setattr("tank_cli.shell.connect.Client", lambda servers, settings=None: ScriptedClient(made))
    return made


@pytest.fixture
def tank(broker: FakeBroker) -> Tank:
    """Runs a command line: `tank("topic", "list", stdin=b"")`."""

    def run(*arguments: str, stdin: bytes = b"", env: dict[str, str] | None = None) -> Result:
        return CliRunner().invoke(main, list(arguments), input=stdin, env=env, prog_name="tank")

    return run
