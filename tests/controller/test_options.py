"""The command line of `tank-controller`."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from tank_controller import __main__ as command
from tank_controller.rooms import ControllerConfig

CLUSTER = "1=a:1,2=b:2,3=c:3"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[ControllerConfig]:
    ran: list[ControllerConfig] = []

    def run(config: ControllerConfig) -> int:
        ran.append(config)
        return 0

    monkeypatch.setattr(command, "run", run)
    return ran


def test_it_listens_where_the_cluster_says_that_it_is(ran: list[ControllerConfig], tmp_path: Path) -> None:
    arguments = ["--id", "2", "--cluster", CLUSTER, "--data", str(tmp_path)]
    ended = CliRunner().invoke(command.main, arguments, env={"TANK_SESSION_TIMEOUT_MS": "9000"})
    assert ended.exit_code == 0, ended.output
    (config,) = ran
    assert config.cluster == {1: "a:1", 2: "b:2", 3: "c:3"}
    assert (config.ordinal, config.listen, config.http, config.session_timeout_ms) == (2, "b:2", "", 9000)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id", "4", "--cluster", CLUSTER], "names [1, 2, 3], and not 4"),
        (["--id", "1", "--cluster", "1=a"], "write ID=HOST:PORT"),
        (["--id", "1", "--cluster", "1=a:99999"], "write ID=HOST:PORT"),
        (["--id", "1", "--cluster", "1=a:1,1=b:2"], "controller 1 is there twice"),
        (["--id", "1"], "--cluster"),
    ],
)
def test_what_can_not_be_used_is_named(
    ran: list[ControllerConfig], tmp_path: Path, arguments: list[str], said: str
) -> None:
    ended = CliRunner().invoke(command.main, [*arguments, "--data", str(tmp_path)])
    assert ended.exit_code == 2
    assert said in ended.output
    assert ran == []
