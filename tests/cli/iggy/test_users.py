"""`tank iggy user` and `tank iggy token`, against controllers whose state a test sets."""

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from tank_cli.iggy import token, user
from tank_cli.iggy.commands import COMMANDS
from tank_cli.main import main
from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_node.users.argon2_hasher import Argon2Hasher
from tank_protos.feature_levels import IGGY
from tank_protos.users.permissions import (
    GlobalRight,
    Permissions,
    StreamPermissions,
    StreamRight,
    TopicPermissions,
    TopicRight,
)
from tank_protos.users.secret import Secret
from tests.controller.cluster_for_tests import Cluster
from tests.controller.users_for_tests import create_token, create_user, found_root, the
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.controllers.scripted_controllers import ScriptedControllers

Tank = Callable[..., Result]


@pytest.fixture
def world() -> Iterator[ScriptedControllers]:
    """Controllers of the level of Iggy, with the root user and alice."""
    cluster = Cluster(1)
    cluster.raise_to(IGGY)
    for command in (found_root(), create_user("alice")):
        cluster.do(command)
    with ScriptedControllers(cluster) as world:
        yield world


def asking(world: ScriptedControllers) -> Tank:
    """`tank("user", "list")`, of the controller that leads."""

    def run(*arguments: str, typed: str | None = None) -> Result:
        words = ["iggy", *arguments, "--controllers", world.addresses[1]]
        return CliRunner().invoke(main, words, prog_name="tank", input=typed)

    return run


@pytest.fixture
def tank(world: ScriptedControllers) -> Tank:
    return asking(world)


@pytest.mark.parametrize("table", [COMMANDS, user.COMMANDS, token.COMMANDS])
def test_the_tables_say_what_each_command_says_of_itself(table: dict[str, Any]) -> None:
    for entry in table.values():
        command = entry.load()
        assert isinstance(command, click.Command)
        assert entry.summary.rstrip(".") in command.get_short_help_str(limit=200) or command.help


@pytest.mark.parametrize(
    ("arguments", "which"),
    [
        (["user", "list"], 0),
        (["user", "create", "bob", "--password-file", "-"], 0),
        (["user", "update", "alice", "--inactive"], 0),
        (["user", "password", "alice", "--password-file", "-"], 0),
        (["user", "permissions", "alice"], 0),
        (["user", "permissions", "alice", "--server", "read_users"], 1),
        (["user", "delete", "alice", "--yes"], 0),
        (["token", "list", "alice"], 0),
        (["token", "create", "alice", "backup", "--expires-in", "1d"], 0),
        (["token", "delete", "alice", "laptop"], 0),
    ],
)
def test_every_command_prints_the_promised_json(
    arguments: list[str], which: int, world: ScriptedControllers, tank: Tank
) -> None:
    state = world.cluster.state
    given = Permissions(GlobalRight(0), (StreamPermissions(0, StreamRight.READ_STREAM),))
    world.cluster.do(create_user("carol", "secret", given, 0))
    if arguments[:3] == ["user", "permissions", "alice"] and which == 0:
        arguments = ["user", "permissions", "carol"]
    world.cluster.do(create_token(the(state, "alice"), "laptop", expires_us=1 << 60))
    found = parsed(tank(*arguments, "--output", "json", typed="open sesame\n"))
    if arguments == ["user", "list"]:
        found["users"] = [each for each in found["users"] if each["permissions"]]
    assert_same_shape(found, SHAPES[f"iggy {arguments[0]} {arguments[1]}"][which])


def test_a_password_comes_from_a_file_and_its_hash_alone_goes_away(
    world: ScriptedControllers, tank: Tank, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"open sesame\nand another line\n")
    assert tank("user", "create", "bob", "--password-file", str(file)).exit_code == 0
    state = world.cluster.state
    hasher = Argon2Hasher()
    assert hasher.matches(the(state, "bob").password_hash, Secret(b"open sesame"))
    assert tank("user", "password", "bob", "--password-file", "-", typed="swordfish\n").exit_code == 0
    assert hasher.matches(the(state, "bob").password_hash, Secret(b"swordfish"))
    assert b"sesame" not in state.snapshot()
    assert b"swordfish" not in state.snapshot()


def test_there_is_no_option_for_a_password_because_others_see_the_command_line(tank: Tank) -> None:
    for command in (user.create, user.password):
        options = {option for parameter in command.params for option in parameter.opts}
        assert "--password" not in options
        assert "--password-file" in options
    refused = tank("user", "password", "alice")
    assert refused.exit_code == ExitCode.USAGE
    assert "--password-file" in refused.stderr


def test_a_password_that_nobody_could_log_in_with_is_refused(tank: Tank) -> None:
    refused = tank("user", "create", "bob", "--password-file", "-", typed="xy\n")
    assert refused.exit_code == ExitCode.USAGE
    assert "3 to 100 bytes" in refused.stderr
    assert tank("user", "create", "bob", "--password-file", "/nowhere/at/all").exit_code == ExitCode.USAGE


def test_the_first_user_is_root() -> None:
    cluster = Cluster(1)
    cluster.raise_to(IGGY)
    with ScriptedControllers(cluster) as world:
        made = asking(world)("user", "create", "admin", "--password-file", "-", typed="open sesame\n")
    assert made.exit_code == 0, made.stderr
    assert "the root user" in made.stderr
    assert the(cluster.state, "admin").number == 0


def test_permissions_are_set_shown_and_taken_away(world: ScriptedControllers, tank: Tank) -> None:
    state = world.cluster.state
    set_them = tank(
        "user", "permissions", "alice", "--server", "read_servers,poll_messages",
        "--stream", "3:read_stream", "--topic", "1/2:send_messages",
        "--topic", "1/0:read_topic,poll_messages",
    )  # fmt: skip
    assert set_them.exit_code == 0, set_them.stderr
    topics = (
        TopicPermissions(0, TopicRight.READ_TOPIC | TopicRight.POLL_MESSAGES),
        TopicPermissions(2, TopicRight.SEND_MESSAGES),
    )
    assert the(state, "alice").permissions == Permissions(
        GlobalRight.READ_SERVERS | GlobalRight.POLL_MESSAGES,
        (
            StreamPermissions(1, StreamRight(0), topics),
            StreamPermissions(3, StreamRight.READ_STREAM),
        ),
    ).encode()  # fmt: skip
    shown = tank("user", "permissions", "alice").stdout
    assert "read_servers,poll_messages" in shown
    assert "topic 1/0" in shown
    assert "read_topic,poll_messages" in shown
    assert tank("user", "permissions", "alice", "--none").exit_code == 0
    assert the(state, "alice").permissions is None


@pytest.mark.parametrize(
    "wrong",
    [
        ["--server", "fly"], ["--stream", "x:read_stream"], ["--topic", "1:read_topic"],
        ["--stream", "4294967296:read_stream"], ["--none", "--server", "read_users"],
    ],
)  # fmt: skip
def test_permissions_that_there_are_not_are_refused(
    wrong: list[str], world: ScriptedControllers, tank: Tank
) -> None:
    assert tank("user", "permissions", "alice", *wrong).exit_code == ExitCode.USAGE
    assert not world.commands


def test_a_token_is_shown_once_and_its_digest_kept(world: ScriptedControllers, tank: Tank) -> None:
    made = tank("token", "create", "alice", "laptop")
    assert made.exit_code == 0, made.stderr
    shown = made.stdout.strip()
    assert len(shown) == 43
    (kept,) = the(world.cluster.state, "alice").tokens
    assert (kept.digest, kept.expires_us) == (sha256(shown.encode()).digest(), 0)
    assert shown not in tank("token", "list", "alice").stdout
    assert "never" in tank("token", "list", "alice").stdout


def test_what_is_not_there_is_said(tank: Tank) -> None:
    for words in (["user", "update", "nobody", "--active"], ["token", "list", "nobody"]):
        assert tank(*words).exit_code == ExitCode.NOT_FOUND
    assert "has no token" in tank("token", "delete", "alice", "laptop").stderr
    assert "root user" in tank("user", "delete", "iggy", "--yes").stderr
    assert tank("user", "delete", "alice").exit_code == ExitCode.USAGE
    assert tank("user", "update", "alice").exit_code == ExitCode.USAGE


def test_no_answer_of_the_controllers_and_no_output_shows_a_hash(
    world: ScriptedControllers, tank: Tank
) -> None:
    state = world.cluster.state
    world.cluster.do(create_token(the(state, "alice"), "laptop"))
    alice = the(state, "alice")
    shown = tank("user", "list").stdout + json.dumps(parsed(tank("user", "list", "-o", "json")))
    shown += tank("token", "list", "alice").stdout + repr(alice) + repr(state.users)
    assert "alice" in shown
    assert alice.password_hash not in shown
    assert "argon2" not in shown
    assert alice.tokens[0].digest.hex() not in shown
    assert repr(alice.tokens[0].digest) not in shown
