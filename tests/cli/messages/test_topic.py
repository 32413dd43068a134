"""`tank topic …` and `tank status` against a broker in a dictionary."""

import json
from dataclasses import replace

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client.model import ClientProtocol, ConnectedClient, PartitionTrouble, StrayFolder, Trouble
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.clients.scripted_client import FakeBroker, FakeTopic


@pytest.mark.parametrize(
    "path", ["topic create", "topic list", "topic describe", "topic alter", "topic delete"]
)
def test_topic_commands_print_the_promised_json(path: str, tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a", "b"])
    broker.topics["flights"].settings["flush"] = "replicated"
    arguments = {"topic create": ["new"], "topic list": [], "topic alter": ["flights", "-p", "2"]}.get(
        path, ["flights"]
    )
    if path == "topic delete":
        arguments = ["flights", "--yes"]
    found = parsed(tank(*path.split(), *arguments, "--output", "json"))
    assert_same_shape(found, SHAPES[path][0])


def test_create_passes_partitions_replicas_and_settings(tank: Tank, broker: FakeBroker) -> None:
    ended = tank(
        "topic", "create", "flights", "--partitions", "4", "--replication-factor", "3",
        "--set", "log.retention.secs=7d", "--set", "flush = replicated",
    )  # fmt: skip
    assert ended.exit_code == 0
    assert ended.stderr == "Created topic flights with 4 partitions.\n"
    settings = {"log.retention.secs": "7d", "flush": "replicated"}
    assert broker.calls[0] == ("create_topic", ("flights", 4, 3, settings))


@pytest.mark.parametrize(
    "words",
    [
        ("--format", "kafka"),
        ("--set", "log.format=kafka"),
        ("--format", "kafka", "--set", "log.format=kafka"),
    ],
)
def test_create_takes_the_format_as_an_option_or_as_the_setting_that_it_is(
    words: tuple[str, ...], tank: Tank, broker: FakeBroker
) -> None:
    assert tank("topic", "create", "orders.v1", *words).exit_code == 0
    assert broker.calls[0] == ("create_topic", ("orders.v1", 1, 0, {"log.format": "kafka"}))


def test_two_formats_are_refused(tank: Tank, broker: FakeBroker) -> None:
    ended = tank("topic", "create", "t", "--format", "kafka", "--set", "log.format=tank")
    assert ended.exit_code == ExitCode.USAGE
    assert "--format and --set log.format say different formats" in ended.stderr
    assert tank("topic", "create", "t", "--format", "xml").exit_code == ExitCode.USAGE
    assert not broker.calls


def test_describe_shows_the_format_of_a_broker_that_knows_it(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("older", [])
    broker.fill("orders.v1", [])
    broker.topics["orders.v1"].settings["log.format"] = "kafka"
    described = tank("topic", "describe", "orders.v1").stdout.splitlines()
    assert ["format", "kafka"] in [line.split() for line in described]
    assert "format" not in tank("topic", "describe", "older").stdout


def test_creating_what_is_there_is_an_error_of_its_own(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", [])
    assert tank("topic", "create", "flights").exit_code == ExitCode.EXISTS
    again = tank("topic", "create", "flights", "--if-not-exists", "-o", "json")
    assert parsed(again) == {"topic": "flights", "created": False}


def test_a_setting_is_key_equals_value(tank: Tank) -> None:
    ended = tank("topic", "create", "t", "--set", "flush")
    assert ended.exit_code == ExitCode.USAGE
    assert "KEY=VALUE" in ended.stderr


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("create", "t", "--set", "flush=disk", "--set", "flush=replicated"), "--set flush is there 2 times"),
        (("alter", "t", "--set", "flush=disk", "--set", "flush=disk"), "--set flush is there 2 times"),
        (("alter", "t", "--set", "flush=disk", "--unset", "flush"), "by --set and by --unset"),
    ],
)
def test_a_setting_is_said_once(tank: Tank, broker: FakeBroker, line: tuple[str, ...], said: str) -> None:
    broker.fill("t", [])
    ended = tank("topic", *line)
    assert ended.exit_code == ExitCode.USAGE
    assert said in ended.stderr
    assert not broker.calls


def test_list_in_a_pipe_is_plain_columns(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a", "b"], ["c"])
    broker.topics["empty"] = FakeTopic([[]], {"flush": "replicated"})
    assert tank("topic", "list").stdout.splitlines() == [
        "TOPIC    PARTITIONS  REPLICAS  MESSAGES   SIZE  SETTINGS",
        "empty             1         1         0  100 B  flush=replicated",
        "flights           2         1         3  200 B",
    ]
    assert tank("topic", "list", "--names").stdout == "empty\nflights\n"


def test_no_topics_is_said_on_stderr(tank: Tank) -> None:
    ended = tank("topic", "list")
    assert (ended.stdout, ended.exit_code) == ("", 0)
    assert "tank topic create" in ended.stderr


def test_describe_shows_settings_that_somebody_set_and_all_when_asked(tank: Tank, broker: FakeBroker) -> None:
    broker.topics["t"] = FakeTopic([[]], {"flush": "replicated"})
    few, all_of_them = (
        tank("topic", "describe", "t").stdout,
        tank("topic", "describe", "t", "--all-settings").stdout,
    )
    assert "flush" in few
    assert "log.roll.secs" not in few
    assert "log.roll.secs" in all_of_them


def test_settings_are_shown_in_the_units_in_which_people_write_them(tank: Tank, broker: FakeBroker) -> None:
    broker.topics["t"] = FakeTopic([[]], {"log.retention.secs": "604800", "log.segment.bytes": "67108864"})
    rows = [line.split() for line in tank("topic", "describe", "t").stdout.splitlines()]
    assert ["log.retention.secs", "7d", "set"] in rows
    assert ["log.segment.bytes", "64m", "set"] in rows
    assert "log.retention.secs=7d, log.segment.bytes=64m" in tank("topic", "list").stdout
    told = json.loads(tank("topic", "list", "--output", "json").stdout)
    assert told["topics"][0]["settings"]["log.retention.secs"] == "604800", (
        "programs read what they always did"
    )


def test_an_unknown_topic_gets_the_nearest_and_the_command_to_type(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", [])
    commands = {
        "tank topic create fligths": [["produce"], ["consume"]],
        "tank topic list": [["topic", "describe"], ["topic", "alter", "-p", "2"], ["topic", "delete", "-y"]],
    }
    for hint, lines in commands.items():
        for line in lines:
            ended = tank(*line, "fligths")
            assert ended.exit_code == ExitCode.NOT_FOUND
            said = f"error: There is no topic 'fligths'. Did you mean 'flights'?\n  try: {hint}\n"
            assert ended.stderr == said


def test_alter_sets_and_unsets(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", [])
    assert tank("topic", "alter", "t", "--set", "flush=disk", "--unset", "log.roll.secs").exit_code == 0
    assert broker.calls[0] == ("alter_topic", ("t", 0, {"log.roll.secs": None, "flush": "disk"}))


def test_alter_without_a_change_is_a_mistake(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", [])
    assert tank("topic", "alter", "t").exit_code == ExitCode.USAGE


def test_nothing_is_deleted_without_a_yes(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", ["a"])
    ended = tank("topic", "delete", "t")
    assert ended.exit_code == ExitCode.USAGE
    assert "--yes" in ended.stderr
    assert "t" in broker.topics
    assert tank("topic", "delete", "t", "--yes").exit_code == 0
    assert "t" not in broker.topics
    assert tank("topic", "delete", "t", "--yes").exit_code == ExitCode.NOT_FOUND
    assert tank("topic", "delete", "t", "--yes", "--if-exists").exit_code == 0


def test_status_tells_of_partitions_in_trouble_and_stray_folders(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a"])
    assert broker.report is not None
    trouble = PartitionTrouble("flights", 0, Trouble.DAMAGED, "its checksum\x1b does not match")
    stray = StrayFolder("/d/topics/.stray-9-1", 2048)
    broker.report = replace(broker.report, troubles=(trouble,), stray_folders=(stray,))
    shown = tank("status")
    assert shown.exit_code == 0, "they are told, and are no failure of the command"
    assert "flights/0  damaged  its checksum\\x1b does not match" in shown.stdout
    assert "/d/topics/.stray-9-1  2.0 KiB" in shown.stdout
    assert "tank log verify" in shown.stderr
    assert "belong to no topic" in shown.stderr
    found = parsed(tank("status", "-o", "json"))
    assert_same_shape(found, SHAPES["status"][0])
    assert found["troubles"][0]["trouble"] == "damaged"
    assert found["stray_folders"] == [{"path": "/d/topics/.stray-9-1", "size_bytes": 2048}]


def test_status_of_a_broker_that_does_not_describe_itself(tank: Tank, broker: FakeBroker) -> None:
    broker.report = None
    assert tank("status").exit_code == 0
    found = parsed(tank("status", "-o", "json"))
    assert (found["data_folder"], found["troubles"], found["stray_folders"]) == (None, None, None)
    assert found["brokers"]


def test_status_counts_the_clients_of_iggy_by_era(tank: Tank, broker: FakeBroker) -> None:
    def connected(number: int, protocol: ClientProtocol, software: str) -> ConnectedClient:
        return ConnectedClient(number, protocol, None, "iggy", software, "0.9.0", 5, None, None, 0, {})

    assert "Iggy" not in tank("status").stdout
    assert parsed(tank("status", "-o", "json"))["iggy_eras"] == []
    iggy = ClientProtocol.IGGY
    broker.connections = [
        connected(1, iggy, "iggy V11"),
        connected(2, ClientProtocol.KAFKA, "iggy B3"),
        connected(3, iggy, "iggy B3"),
        connected(4, iggy, ""),
        connected(5, iggy, "iggy V11"),
    ]
    shown = tank("status").stdout
    assert "2; 4 of Iggy clients: 1 B3, 2 V11, 1 unknown" in shown
    found = parsed(tank("status", "-o", "json"))
    assert_same_shape(found, SHAPES["status"][0])
    assert found["iggy_eras"] == [
        {"era": "B3", "connections": 1},
        {"era": "V11", "connections": 2},
        {"era": "unknown", "connections": 1},
    ]


def test_status_for_people_and_programs(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("flights", ["a", "b"], ["c"])
    shown = tank("status", "--limits")
    assert "Tank Cluster (protocol version 1000)" in shown.stdout
    assert "FindByTime" in shown.stdout
    assert "256.0 MiB" in shown.stdout
    found = parsed(tank("status", "-o", "json"))
    assert_same_shape(found, SHAPES["status"][0])
    assert (found["topics"], found["partitions"], found["messages"]) == (1, 2, 3)


def test_ends_that_the_broker_does_not_know_are_their_leaders_word(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("t", ["a"], ["b", "c"], ["d"], ["e", "f", "g"])
    broker.topics["t"].led_elsewhere = {1: 2, 2: 3, 3: 2}

    def lasts() -> list[int | None]:
        return [
            p["high_water_mark"] for p in parsed(tank("topic", "describe", "t", "-o", "json"))["partitions"]
        ]

    assert lasts() == [1, 2, 1, 3]
    assert [asked for name, asked in broker.calls if name == "await_ends"] == [
        [("t", 1), ("t", 3)], [("t", 2)],
    ], "leader by leader"  # fmt: skip
    assert parsed(tank("topic", "list", "-o", "json"))["topics"][0]["messages"] == 7
    assert parsed(tank("status", "-o", "json"))["messages"] == 7
    broker.hang = {2}
    assert lasts() == [1, None, 1, None], "one that hangs costs its own alone"
