"""`tank produce` against a broker in a dictionary."""

import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tank_cli.messages import produce_input
from tank_cli.messages.produce import paced
from tank_cli.messages.produce_input import InputMessage
from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_client import errors
from tests.cli.conftest import Tank
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.clients.scripted_client import FakeBroker, Kept


def values(broker: FakeBroker, partition: int = 0, topic: str = "t") -> list[bytes | None]:
    return [kept.value for kept in broker.topics[topic].partitions[partition]]


def keys(broker: FakeBroker) -> list[bytes | None]:
    return [kept.key for kept in broker.topics["t"].partitions[0]]


@pytest.fixture(autouse=True)
def topic(broker: FakeBroker) -> None:
    broker.fill("t", [], [])


def test_a_line_is_a_message_and_the_last_needs_no_end(tank: Tank, broker: FakeBroker) -> None:
    ended = tank("produce", "t", stdin=b"one\n\nthree\xff\nfour")
    assert ended.exit_code == 0, ended.stderr
    assert values(broker) == [b"one", b"", b"three\xff", b"four"]
    assert ended.stdout == ""
    assert ended.stderr.startswith("4 messages stored in t (13 B in ")


def test_messages_on_the_command_line(tank: Tank, broker: FakeBroker) -> None:
    tank("produce", "t", "-m", "hello", "-m", "wörld", "--key", "k")
    assert values(broker) == [b"hello", "wörld".encode()]
    assert keys(broker) == [b"k", b"k"]


def test_files_one_after_another_and_stdin_among_them(tank: Tank, broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1\n2\n")
    (tmp_path / "b").write_bytes(b"4\n")
    tank("produce", "t", str(tmp_path / "a"), "-", str(tmp_path / "b"), stdin=b"3\n")
    assert values(broker) == [b"1", b"2", b"3", b"4"]


def test_a_file_as_one_message(tank: Tank, broker: FakeBroker, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"two\nlines\n")
    tank("produce", "t", "--format", "file", str(tmp_path / "a"))
    assert values(broker) == [b"two\nlines\n"]


def test_a_separator_parts_key_and_value(tank: Tank, broker: FakeBroker) -> None:
    tank("produce", "t", "--key-separator", ":", stdin=b"a:1\nb:2:3\n:4\n")
    assert keys(broker) == [b"a", b"b", None]
    assert values(broker) == [b"1", b"2:3", b"4"]


def test_json_lines_are_sent_as_they_stand_and_lend_key_and_time(tank: Tank, broker: FakeBroker) -> None:
    lines = b'{"carrier":"UA", "at": 5000}\n{"carrier": 7, "at": "1970-01-01T00:00:06"}\n'
    ended = tank(
        "produce", "t", "--format", "json", "--key-field", "carrier", "--timestamp-field", "at", stdin=lines
    )
    assert ended.exit_code == 0, ended.stderr
    assert values(broker) == lines.splitlines()
    assert keys(broker) == [b"UA", b"7"]
    assert [kept.timestamp_ms for kept in broker.topics["t"].partitions[0]] == [5000, 6000]


def test_what_consume_prints_can_be_produced_again(tank: Tank, broker: FakeBroker) -> None:
    broker.fill("from", [("k", "plain"), ("", "x"), ("k", "two\nlines")], [])
    kept = broker.topics["from"].partitions[0]
    kept[1] = kept[1]._replace(value=b"\xff\x00", key=None)
    printed = tank("consume", "from", "--format", "json").stdout_bytes
    assert tank("produce", "t", "--format", "messages", stdin=printed).exit_code == 0
    assert broker.topics["t"].partitions == broker.topics["from"].partitions


def test_messages_choose_their_partition_and_the_option_wins(tank: Tank, broker: FakeBroker) -> None:
    lines = b'{"value":"a","partition":1}\n{"value":"b","partition":0}\n{"value":"c","partition":1}\n'
    tank("produce", "t", "--format", "messages", stdin=lines)
    assert (values(broker, 0), values(broker, 1)) == ([b"b"], [b"a", b"c"])
    tank("produce", "t", "--format", "messages", "--partition", "0", stdin=lines)
    assert values(broker, 0) == [b"b", b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("arguments", "line", "said"),
    [
        (["--format", "json"], b"{not json}", "stdin, line 3: it is not JSON"),
        (["--format", "json"], b"[1]", "stdin, line 3: it is JSON, but not an object"),
        (["--format", "json", "--key-field", "k"], b"{}", "stdin, line 3: it has no field 'k'"),
        (["--format", "messages"], b"{}", "stdin, line 3: it has neither 'value'"),
        (
            ["--format", "messages"],
            b'{"value_base64":"?"}',
            "stdin, line 3: its 'value_base64' is not base64",
        ),
        (["--format", "messages"], b'{"value":"a","timestamp_ms":-1}', "stdin, line 3: its 'timestamp_ms'"),
        (["--key-separator", ":"], b"no colon", "stdin, line 3: it has no ':' between key and value"),
        (["--key-separator", ":"], b"k" * 256 + b":v", "stdin, line 3: its key has 256 bytes"),
    ],
)
def test_a_bad_line_is_named_and_the_lines_before_it_are_sent(
    arguments: list[str], line: bytes, said: str, tank: Tank, broker: FakeBroker
) -> None:
    good = b"k:1" if "--key-separator" in arguments else b'{"k":"1","value":"1"}'
    ended = tank("produce", "t", *arguments, stdin=b"\n".join([good, good, line, good, b""]))
    assert ended.exit_code == ExitCode.FAILED
    assert said in ended.stderr
    assert "the lines before it were sent" in ended.stderr
    assert len(values(broker)) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key-separator", ":", "--format", "json"],
        ["--key-field", "k"],
        ["--key", "k", "--key-separator", ":"],
        ["--key", "k", "--format", "messages"],
        ["--key", "k" * 256],
        ["--key-separator", ""],
        ["--rate", "0"],
        ["-m", "x", "file"],
    ],
)
def test_options_that_do_not_go_together(arguments: list[str], tank: Tank, broker: FakeBroker) -> None:
    assert tank("produce", "t", *arguments, stdin=b"x\n").exit_code == ExitCode.USAGE
    assert values(broker) == []


def test_a_partition_that_is_not_there(tank: Tank) -> None:
    ended = tank("produce", "t", "--partition", "9", stdin=b"x\n")
    assert ended.exit_code == ExitCode.NOT_FOUND
    assert "no partition 9" in ended.stderr


def test_a_file_that_is_not_there(tank: Tank) -> None:
    ended = tank("produce", "t", "gone.txt")
    assert ended.exit_code == ExitCode.NOT_FOUND
    assert "gone.txt can't be read" in ended.stderr


def test_the_json_summary_tells_numbers_when_there_is_one_partition(tank: Tank) -> None:
    found = parsed(tank("produce", "t", "-p", "0", "-o", "json", stdin=b"a\nb\n"))
    assert_same_shape(found, SHAPES["produce"][0])
    assert (found["messages"], found["first"], found["last"]) == (2, 1, 2)
    assert parsed(tank("produce", "t", "-o", "json", stdin=b"c\n"))["first"] is None


def test_quiet_says_nothing(tank: Tank) -> None:
    ended = tank("produce", "t", "-q", stdin=b"a\n")
    assert (ended.stdout, ended.stderr) == ("", "")


def test_settings_reach_the_producer(tank: Tank, broker: FakeBroker) -> None:
    tank(
        "produce",
        "t",
        "-m",
        "x",
        "--batch-bytes",
        "1m",
        "--linger",
        "2s",
        "--acks",
        "1",
        "--compression",
        "snappy",
    )
    ((_, settings),) = [call for call in broker.calls if call[0] == "producer"]
    chosen = (settings.batch_bytes, settings.linger_ms, settings.required_acks, settings.compression)
    assert chosen == (1 << 20, 2000, 1, True)


def test_a_failure_is_told_although_everything_was_sent(tank: Tank, broker: FakeBroker) -> None:
    broker.fails_with = errors.StorageFailure("the broker's disk is full: free some space")
    ended = tank("produce", "t", stdin=b"a\n")
    assert ended.exit_code == ExitCode.FAILED
    assert ended.stderr.splitlines() == [
        "Known to be stored: 1 of 1 message.",
        "error: The broker's disk is full: free some space.",
    ]


class Trickle(BytesIO):
    """Gives a few bytes at a time, as a slow pipe does."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(3)


def test_lines_over_many_reads_are_whole() -> None:
    runs = list(produce_input.line_runs(Trickle(b"a longer line\nx\n\nend"), "stdin"))
    assert [line for run in runs for line in run] == [b"a longer line", b"x", b"", b"end"]
    assert all(runs)


def test_a_line_without_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(produce_input, "MAX_MESSAGE_BYTES", 10)
    with pytest.raises(CliError, match="too large for one message"):
        list(produce_input.line_runs(Trickle(b"x" * 100), "stdin"))


def test_a_rate_cuts_runs_into_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr("tank_cli.messages.produce.time.monotonic", lambda: 100.0 + sum(slept))
    monkeypatch.setattr("tank_cli.messages.produce.time.sleep", slept.append)
    runs = list(paced(iter([[InputMessage(b"x")] * 100]), rate=200))
    assert [len(run) for run in runs] == [10] * 10
    assert sum(slept) == pytest.approx(90 / 200)


def test_the_summary_is_valid_json_on_one_line_in_a_pipe(tank: Tank) -> None:
    shown = tank("produce", "t", "-m", "x", "-o", "json").stdout
    assert shown.count("\n") == 1
    assert json.loads(shown)["topic"] == "t"


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), CliError("the input is broken")])
def test_what_was_read_before_a_fault_is_flushed(
    fault: BaseException, tank: Tank, broker: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def runs(*_: object) -> Iterator[list[InputMessage]]:
        yield [InputMessage(b"one"), InputMessage(b"two")]
        raise fault

    monkeypatch.setattr("tank_cli.messages.produce.message_runs", runs)
    ended = tank("produce", "t")
    assert ended.exit_code == (1 if isinstance(fault, CliError) else ExitCode.INTERRUPTED)
    assert ("flush", None) in broker.calls
    assert values(broker) == [b"one", b"two"]


def test_headers_of_the_command_line_come_before_those_of_a_message(tank: Tank, broker: FakeBroker) -> None:
    broker.topics["t"].settings["log.format"] = "kafka"
    line = (
        b'{"value":null,"key":"k","headers":[{"key":"own","value":null},{"key":"b","value_base64":"/w=="}]}'
    )
    ended = tank("produce", "t", "--format", "messages", "-H", "h=1", "--header", "h=a=b", stdin=line)
    assert ended.exit_code == 0, ended.stderr
    (kept,) = broker.topics["t"].partitions[0]
    assert (kept.key, kept.value) == (b"k", None)
    assert kept.headers == (("h", b"1"), ("h", b"a=b"), ("own", None), ("b", b"\xff"))


def test_what_consume_prints_of_headers_and_null_can_be_produced_again(
    tank: Tank, broker: FakeBroker
) -> None:
    broker.topics["t"].settings["log.format"] = "kafka"
    headers = (("h", b"\xff"), ("\udcff", None), ("e", b""))
    broker.topics["t"].partitions[0] += [Kept(1, 5, b"", None, headers), Kept(2, 6, None, b"")]
    lines = tank("consume", "t", "--format", "json").stdout_bytes
    assert tank("produce", "t", "--format", "messages", stdin=lines).exit_code == 0
    kept = broker.topics["t"].partitions[0]
    assert [each[1:] for each in kept[2:]] == [each[1:] for each in kept[:2]]


@pytest.mark.parametrize("given", ["h", "=v", ""])
def test_a_header_has_a_name_and_a_value(given: str, tank: Tank, broker: FakeBroker) -> None:
    ended = tank("produce", "t", "-m", "x", "--header", given)
    assert (ended.exit_code, "NAME=VALUE" in ended.stderr) == (ExitCode.USAGE, True)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b'{"value":"x","headers":5}', "'headers' is no list"),
        (b'{"value":"x","headers":[5]}', "'headers' is no list"),
        (b'{"value":"x","headers":[{"value":"x"}]}', "has no 'key'"),
    ],
)
def test_headers_of_another_form_are_named(line: bytes, said: str, tank: Tank, broker: FakeBroker) -> None:
    ended = tank("produce", "t", "--format", "messages", stdin=line)
    assert (ended.exit_code, said in ended.stderr) == (ExitCode.FAILED, True)


def test_keys_of_any_length_go_to_topics_of_kafkas_format(tank: Tank, broker: FakeBroker) -> None:
    key = "k" * 300
    assert tank("produce", "t", "-m", "x", "--key", key).exit_code == ExitCode.USAGE
    broker.topics["t"].settings["log.format"] = "kafka"
    assert tank("produce", "t", "-m", "x", "--key", key).exit_code == 0
    assert tank("produce", "t", "--key-separator", ":", stdin=f"{key}:y".encode()).exit_code == 0
    assert [kept.key for kept in broker.topics["t"].partitions[0]] == [key.encode()] * 2
