"""The command line as a whole: help, exit codes, errors in one sentence, options in every place."""

import json
import subprocess
import sys
from itertools import chain

import click
import pytest

from tank_cli import reference
from tank_cli.main import COMMANDS, main
from tank_cli.shell import client_failures
from tank_cli.shell.exit_codes import MEANINGS, CliError, ExitCode
from tank_client import errors
from tank_node.version import kernel_name
from tests.cli.conftest import Tank
from tests.support.clients.scripted_client import FakeBroker


def all_commands() -> dict[str, click.Command]:
    return {" ".join(path): command for path, command in reference.commands(main, ("tank",))}


def test_help_imports_no_command_and_no_library_but_click() -> None:
    script = (
        "import sys; from tank_cli.main import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "ours = {'tank_cli', 'tank_client', 'tank_node', 'tank_controller', 'tank_protos'}\n"
        "heavy = ours | {'rich', 'asyncio', 'aiohttp'}\n"
        "print(*sorted(m for m in sys.modules if m.split('.')[0] in heavy), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "Commands:" in ended.stdout
    shared = {
        f"tank_cli.shell.{name}" for name in ("exit_codes", "failures", "interrupts", "lazy", "session")
    }
    assert set(ended.stderr.split()) == {"tank_cli", "tank_cli.main", "tank_cli.shell"} | shared


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_command_says_of_itself(name: str) -> None:
    assert COMMANDS[name].summary == COMMANDS[name].load().get_short_help_str(limit=200)


@pytest.mark.parametrize("path", all_commands())
def test_every_command_has_help(path: str, tank: Tank) -> None:
    shown = tank(*path.split()[1:], "--help")
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"Usage: {path}")


def test_help_lists_every_exit_code(tank: Tank) -> None:
    shown = tank("--help").stdout
    assert all(f"{int(code)}  {meaning}" in shown for code, meaning in MEANINGS.items())


def test_version(tank: Tank) -> None:
    shown = tank("--version").stdout
    name, version, told = shown.split(maxsplit=2)
    assert name == "tank"
    assert version[0].isdigit()
    assert told == f"({kernel_name()} kernel)\n"


def test_the_servers_come_from_behind_the_command_else_from_before_it_else_from_the_environment(
    tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []

    def refuse(servers: str) -> None:
        seen.append(servers)
        raise errors.ServerUnreachable(servers, "refused")

    monkeypatch.setattr("tank_cli.shell.connect.Client", refuse)
    environment = {"TANK_SERVERS": "c:3"}
    tank("--servers", "b:2", "topic", "list", "--servers", "a:1", env=environment)
    tank("--servers", "b:2", "topic", "list", env=environment)
    tank("topic", "list", env=environment)
    tank("topic", "list", env={"TANK_SERVERS": ""})
    assert seen == ["a:1", "b:2", "c:3", "127.0.0.1:11011"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ServerUnreachable("h:1", "refused"), ExitCode.UNREACHABLE),
        (errors.ConnectionLost("the connection broke"), ExitCode.UNREACHABLE),
        (errors.UnknownPartition("t", 3), ExitCode.NOT_FOUND),
        (errors.OutOfBounds("t", 0, 9, 1, 5), ExitCode.OUT_OF_BOUNDS),
        (errors.FeatureMissing("FindByTime", 400), ExitCode.UNSUPPORTED),
        (errors.Damaged("the partition is damaged"), ExitCode.DAMAGED),
        (errors.StorageFailure("the disk is full"), ExitCode.FAILED),
        (OSError(28, "No space left on device", "/data/x"), ExitCode.FAILED),
        (RuntimeError("nobody foresaw this"), ExitCode.FAILED),
        (KeyboardInterrupt(), ExitCode.INTERRUPTED),
    ],
)
def test_a_failure_ends_in_one_sentence_and_its_code(
    error: BaseException, code: ExitCode, tank: Tank, broker: FakeBroker
) -> None:
    broker.fill("t", ["a"])
    broker.fails_with = error
    ended = tank("consume", "t")
    assert ended.exit_code == code
    assert "Traceback" not in ended.stderr
    assert ended.stderr.count("error:") == (0 if code is ExitCode.INTERRUPTED else 1)


def test_debug_shows_the_traceback(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", ["a"])
    broker.fails_with = RuntimeError("nobody foresaw this")
    assert "--debug" in tank("consume", "t").stderr
    assert "Traceback" in tank("consume", "t", "--debug").stderr
    assert "Traceback" in tank("--debug", "consume", "t").stderr


def test_an_error_in_json_is_json(tank: Tank) -> None:
    ended = tank("topic", "describe", "gone", "--output", "json")
    assert ended.exit_code == ExitCode.NOT_FOUND
    body = json.loads(ended.stderr)["error"]
    assert body == {"code": 4, "message": "There is no topic 'gone'.", "hint": "tank topic list"}


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        (["prodcue", "x"], "Did you mean 'produce'?"),
        (["topic", "lst"], "Did you mean 'list'?"),
        (["topic", "create"], "tank topic create --help"),
        (["consume", "t", "--from", "yesterday"], "now-10min"),
        (["produce", "t", "--partition", "x"], "tank produce --help"),
    ],
)
def test_a_wrong_command_line_says_what_is_right(command: list[str], hint: str, tank: Tank) -> None:
    ended = tank(*command)
    assert ended.exit_code == ExitCode.USAGE
    assert hint in ended.stderr


def test_every_command_takes_output_and_debug() -> None:
    without = [
        path
        for path, command in all_commands().items()
        if not isinstance(command, click.Group) and path not in ("tank serve", "tank completion")
        if not {"--output", "--debug"} <= set(chain.from_iterable(p.opts for p in command.params))
    ]
    assert without == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str, tank: Tank) -> None:
    ended = tank("completion", shell)
    assert ended.exit_code == 0
    assert "_TANK_COMPLETE" in ended.stdout


def test_a_hint_is_on_a_line_of_its_own(tank: Tank, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(servers: str) -> None:
        raise CliError("It went wrong.", ExitCode.FAILED, hint="tank demo")

    monkeypatch.setattr("tank_cli.shell.connect.Client", fail)
    assert tank("status").stderr == "error: It went wrong.\n  try: tank demo\n"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (errors.StorageFailure("the disk is full"), "The disk is full."),
        (errors.Damaged("flights/0 is damaged: look into it."), "flights/0 is damaged: look into it."),
    ],
)
def test_messages_begin_with_a_capital_unless_with_a_name(error: errors.TankError, said: str) -> None:
    assert client_failures.from_client(error).message == said


def test_closed_streams_are_no_fault() -> None:
    command = f'"{sys.executable}" -m tank_cli completion bash >&- 2>&-'
    assert subprocess.run(command, shell=True, check=False).returncode == 0
