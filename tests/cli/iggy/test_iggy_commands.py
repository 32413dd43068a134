"""`tank iggy`, against controllers whose state a test sets."""

import pytest

from tank_cli.iggy.commands import COMMANDS, GROUP_COMMANDS, STREAM_COMMANDS, TOPIC_COMMANDS
from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.lazy import LazyCommand
from tank_cli.shell.shapes import SHAPES
from tank_protos.feature_levels import IGGY
from tests.support.clients.asked_commands import Ask
from tests.support.clients.asked_commands import ask as ask
from tests.support.clients.asked_commands import world as world
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.controllers.scripted_controllers import ScriptedControllers


@pytest.fixture
def iggy(world: ScriptedControllers, ask: Ask) -> Ask:
    """`iggy("stream", "list")`, at the level of these names."""
    world.cluster.raise_to(IGGY)

    def run(*arguments: str, **said: str) -> object:
        return ask("iggy", *arguments, **said)

    return run  # type: ignore[return-value]


@pytest.mark.parametrize("table", [COMMANDS, STREAM_COMMANDS, TOPIC_COMMANDS, GROUP_COMMANDS])
def test_the_tables_say_what_each_command_says_of_itself(table: dict[str, LazyCommand]) -> None:
    for entry in table.values():
        assert entry.summary == entry.load().get_short_help_str(limit=200)


def test_every_command_does_what_it_says_and_prints_the_promised_json(
    world: ScriptedControllers, iggy: Ask
) -> None:
    world.cluster.topic("payments", 2, 2)
    for words in (
        ["stream", "create", "main"],
        ["topic", "create", "main", "orders", "--partitions", "3", "--expiry", "1h", "--max-size", "1g"],
        ["group", "create", "main", "orders", "readers"],
        ["stream", "list"],
        ["topic", "list"],
        ["topic", "list", "--stream", "main"],
        ["group", "list"],
        ["expose", "payments", "--stream", "main"],
        ["stream", "purge", "main", "--yes"],
        ["topic", "alter", "main", "orders", "--partitions", "4", "--expiry", "never"],
        ["topic", "shrink", "main", "orders", "--partitions", "1", "--yes"],
        ["topic", "purge", "main", "orders", "--yes"],
        ["group", "delete", "main", "orders", "readers", "--yes"],
        ["topic", "rename", "main", "orders", "bills"],
        ["hide", "payments"],
        ["topic", "delete", "main", "bills", "--yes"],
        ["stream", "rename", "main", "archive"],
        ["stream", "delete", "archive", "--yes"],
    ):
        path = " ".join(words[: 1 if words[0] in ("expose", "hide") else 2])
        (shape,) = SHAPES[f"iggy {path}"]
        assert_same_shape(parsed(iggy(*words, "--output", "json")), shape)
    assert not world.cluster.state.iggy.streams
    assert [topic.name for topic in world.cluster.state.topics.values()] == ["payments"]


def test_tables_for_people(world: ScriptedControllers, iggy: Ask) -> None:
    for words, said in (
        (["stream", "list"], "no streams yet"),
        (["topic", "list"], "There are none"),
        (["group", "list"], "There are none"),
    ):
        assert said in iggy(*words).output
    iggy("stream", "create", "main")
    assert "number 0" in iggy("topic", "create", "main", "orders").output
    iggy("group", "create", "main", "orders", "readers")
    assert iggy("stream", "list").stdout.splitlines()[1].split()[:3] == ["0", "main", "1"]
    assert iggy("topic", "list").stdout.splitlines()[1].split() == [
        "main", "0", "orders", "main.orders", "1", "-",
    ]  # fmt: skip
    assert iggy("group", "list").stdout.splitlines()[1].split() == ["main", "orders", "0", "readers"]
    topic = next(iter(world.cluster.state.topics.values()))
    assert topic.settings == {"log.format": "kafka"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["stream", "rename", "other", "x"], "no stream"),
        (["topic", "purge", "main", "other", "--yes"], "no topic"),
        (["topic", "alter", "main", "other", "--expiry", "1h"], "no topic"),
        (["topic", "shrink", "main", "other", "--partitions", "1", "--yes"], "no topic"),
        (["group", "delete", "main", "orders", "other", "--yes"], "no group"),
        (["expose", "other", "--stream", "main"], "no topic"),
        (["hide", "other"], "no topic"),
    ],
)
def test_what_is_not_there_is_named(iggy: Ask, words: list[str], said: str) -> None:
    iggy("stream", "create", "main")
    iggy("topic", "create", "main", "orders")
    found = iggy(*words)
    assert found.exit_code == ExitCode.NOT_FOUND
    assert said in found.output


def test_what_loses_messages_is_asked_about_first(world: ScriptedControllers, iggy: Ask) -> None:
    iggy("stream", "create", "main")
    iggy("topic", "create", "main", "orders")
    iggy("group", "create", "main", "orders", "readers")
    before = list(world.commands)
    for words in (
        ["stream", "delete", "main"],
        ["stream", "purge", "main"],
        ["topic", "delete", "main", "orders"],
        ["topic", "purge", "main", "orders"],
        ["topic", "shrink", "main", "orders", "--partitions", "0"],
        ["group", "delete", "main", "orders", "readers"],
    ):
        found = iggy(*words)
        assert found.exit_code == ExitCode.USAGE
        assert "--yes" in found.output
    assert world.commands == before


def test_what_is_altered_is_what_iggys_clients_see_and_the_rest_stays(
    world: ScriptedControllers, iggy: Ask
) -> None:
    iggy("stream", "create", "main")
    iggy("topic", "create", "main", "orders", "--expiry", "1h", "--max-size", "1g")
    (topic,) = world.cluster.state.topics.values()

    def altered(*words: str) -> None:
        assert iggy("topic", "alter", "main", "orders", *words).exit_code == 0

    altered("--expiry", "2h")
    assert topic.iggy is not None
    assert (topic.iggy.expiry_us, topic.iggy.max_bytes) == (7_200_000_000, 2**30)
    altered("--max-size", "unlimited", "--expiry", "default")
    assert (topic.iggy.expiry_us, topic.iggy.max_bytes) == (0, 2**64 - 1)
    altered("--durability", "replicated", "--segment-size", "512m")
    assert topic.settings == {
        "flush": "replicated", "log.format": "kafka", "log.segment.bytes": str(512 << 20),
    }  # fmt: skip
    altered("--durability", "persisted")
    assert [(each.key, each.value) for each in topic.iggy.options] == [
        ("segment_size", str(512 << 20).encode()), ("durability", b"persisted"),
    ]  # fmt: skip
    altered("--partitions", "3")
    assert len(topic.partitions) == 3
    assert "2 partitions" in iggy("topic", "shrink", "main", "orders", "--partitions", "1", "--yes").output
    assert len(topic.partitions) == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["alter", "main", "orders"], "Nothing to change"),
        (
            ["alter", "main", "orders", "--partitions", "1"],
            "tank iggy topic shrink main orders --partitions 1",
        ),
        (
            ["shrink", "main", "orders", "--partitions", "3", "--yes"],
            "tank iggy topic alter main orders --partitions 3",
        ),
        (["alter", "main", "orders", "--expiry", "soon"], "no duration"),
        (["alter", "main", "orders", "--max-size", "much"], "no size"),
    ],
)
def test_what_a_change_can_not_be_is_said(
    world: ScriptedControllers, iggy: Ask, words: list[str], hint: str
) -> None:
    iggy("stream", "create", "main")
    iggy("topic", "create", "main", "orders", "--partitions", "2")
    before = list(world.commands)
    found = iggy("topic", *words)
    assert found.exit_code == ExitCode.USAGE
    assert hint in found.output
    assert world.commands == before


def test_below_the_level_the_controllers_say_what_it_needs(ask: Ask) -> None:
    found = ask("iggy", "stream", "create", "main")
    assert found.exit_code == ExitCode.FAILED
    assert "feature level 5" in found.output
