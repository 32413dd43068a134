"""Every command of `tank`, as a process of its own, against a real broker."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tests.integration.programs.shell import PATIENCE_S, Shell
from tests.integration.programs.shell import broker as broker
from tests.integration.programs.shell import shell as shell
from tests.integration.programs.shell import topic as topic
from tests.support.clients.cli_shapes import assert_same_shape
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

pytestmark = pytest.mark.integration


def lines_of(process: "subprocess.Popen[bytes]", count: int) -> list[bytes]:
    assert process.stdout is not None
    return [process.stdout.readline().rstrip(b"\n") for _ in range(count)]


def end_with(process: "subprocess.Popen[bytes]", number: signal.Signals) -> tuple[int, bytes]:
    process.send_signal(number)
    _, talk = process.communicate(timeout=PATIENCE_S)
    return process.returncode, talk


def test_a_topics_life(shell: Shell) -> None:
    shell.out("topic", "create", "life", "--partitions", "2", "--set", "log.retention.secs=7d")
    assert shell.run("topic", "create", "life").returncode == ExitCode.EXISTS
    (found,) = [each for each in shell.json("topic", "list")["topics"] if each["name"] == "life"]
    assert (found["partitions"], found["messages"]) == (2, 0)
    shell.out(
        "topic", "alter", "life", "--partitions", "3", "--unset", "log.retention.secs", "--set", "flush=disk"
    )
    described = shell.json("topic", "describe", "life")
    assert_same_shape(described, SHAPES["topic describe"][0])
    assert len(described["partitions"]) == 3
    assert [s["key"] for s in described["settings"] if not s["is_default"]] == ["flush"]
    refused = shell.run("topic", "alter", "life", "--partitions", "1")
    assert refused.returncode == ExitCode.FAILED
    shell.out("topic", "delete", "life", "--yes")
    assert shell.run("topic", "describe", "life").returncode == ExitCode.NOT_FOUND


def test_what_is_refused_is_said_in_one_sentence(shell: Shell) -> None:
    for arguments in (["bad name"], ["t", "--set", "flush=never"], ["t", "--set", "x=y"], ["t", "-r", "3"]):
        ended = shell.run("topic", "create", *arguments)
        assert ended.returncode == ExitCode.FAILED
        assert ended.stderr.startswith(b"error: ")
        assert ended.stderr.count(b"\n") == 1


def test_a_topic_that_is_not_there_is_not_made_by_accident(shell: Shell) -> None:
    ended = shell.run("produce", "nowhere", stdin=b"x\n")
    assert ended.returncode == ExitCode.NOT_FOUND
    assert b"try: tank topic create nowhere" in ended.stderr
    assert shell.run("topic", "describe", "nowhere").returncode == ExitCode.NOT_FOUND


def test_lines_come_back_byte_for_byte(shell: Shell, topic: str) -> None:
    lines = b"".join(b"line %d \xff\x00\x1b\n" % n for n in range(50_000))
    summary = shell.json("produce", topic, "--partition", "1", stdin=lines)
    assert (summary["messages"], summary["first"], summary["last"]) == (50_000, 1, 50_000)
    assert shell.out("consume", topic) == lines
    assert shell.out("consume", topic, "--from", "100", "--until", "101") == b"".join(
        lines.splitlines(True)[99:101]
    )
    assert shell.out("consume", topic, "--from", "-1") == lines.splitlines(True)[-1]


def test_a_bad_line_ends_it_and_the_lines_before_it_are_stored(shell: Shell, topic: str) -> None:
    good = b"".join(b"k:%d\n" % n for n in range(10_000))
    ended = shell.run("produce", topic, "--key-separator", ":", "--linger", "10s", stdin=good + b"bad\nk:x\n")
    assert ended.returncode == ExitCode.FAILED
    assert b"stdin, line 10001" in ended.stderr
    assert shell.out("consume", topic).count(b"\n") == 10_000


def test_ctrl_c_ends_producing_and_says_how_much_is_stored(shell: Shell, topic: str) -> None:
    producing = shell.start("produce", topic, "--partition", "0")
    assert producing.stdin is not None
    producing.stdin.write(b"one\ntwo\n")
    producing.stdin.flush()
    following = shell.start("consume", topic, "--follow")
    assert lines_of(following, 2) == [b"one", b"two"]
    end_with(following, signal.SIGINT)
    code, talk = end_with(producing, signal.SIGINT)
    assert code == ExitCode.INTERRUPTED
    assert b"Interrupted after 2 messages, all of them stored." in talk


def test_keys_keep_their_messages_together_and_in_order(shell: Shell, topic: str) -> None:
    pairs = [(f"k{n % 7}", f"v{n}") for n in range(1_000)]
    shell.out(
        "produce", topic, "--key-separator", "=", stdin="".join(f"{k}={v}\n" for k, v in pairs).encode()
    )
    found = [json.loads(line) for line in shell.out("consume", topic, "-f", "json").splitlines()]
    for key in {key for key, _ in pairs}:
        mine = [each for each in found if each["key"] == key]
        assert [each["value"] for each in mine] == [value for name, value in pairs if name == key]
        assert len({each["partition"] for each in mine}) == 1


def test_a_topic_can_be_copied_through_a_pipe(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, "-p", "0", "-m", "one", "-m", "two", "--key", "k")
    shell.out("topic", "create", "copy", "--partitions", "2")
    shell.out(
        "produce", "copy", "--format", "messages", stdin=shell.out("consume", topic, "--format", "json")
    )
    original, copy = (
        shell.out("consume", name, "-f", "json").replace(name.encode(), b"") for name in (topic, "copy")
    )
    assert copy == original


def test_times_choose_where_to_begin_and_end(shell: Shell, topic: str) -> None:
    lines = b"".join(b'{"at": %d}\n' % (1_000_000 + second * 1_000) for second in range(3_000))
    options = ["--format", "json", "--timestamp-field", "at", "--batch-bytes", "1k", "--partition", "0"]
    shell.out("produce", topic, *options, stdin=lines)
    chosen = shell.out("consume", topic, "--from", "@1500", "--until", "@1503")
    assert chosen == b'{"at": 1500000}\n{"at": 1501000}\n{"at": 1502000}\n'


def test_follow_shows_what_comes_and_ctrl_c_ends_it(shell: Shell, topic: str) -> None:
    following = shell.start("consume", topic, "--follow", "--group", "readers")
    shell.out("produce", topic, "-p", "0", "-m", "first")
    assert lines_of(following, 1) == [b"first"]
    shell.out("produce", topic, "-p", "1", "-m", "second")
    assert lines_of(following, 1) == [b"second"]
    code, talk = end_with(following, signal.SIGINT)
    assert code == ExitCode.INTERRUPTED
    assert talk.decode().strip() == f"As a member of readers: reads {topic} 0-1."
    (group,) = shell.json("lag", "readers")["groups"]
    assert {p["partition"]: p["position"] for p in group["partitions"]} == {0: 2, 1: 2}
    assert group["lag"] == 0


def test_two_of_a_group_share_a_topic(shell: Shell, topic: str) -> None:
    followers = [shell.start("consume", topic, "--follow", "--group", "sharers") for _ in range(2)]

    def is_shared() -> bool:
        if "sharers" not in {each["group"] for each in shell.json("group", "list")["groups"]}:
            return False
        members = shell.json("group", "members", "sharers")["members"]
        return len(members) == 2 and all(each["partitions"] for each in members)

    until(is_shared, "the partitions are not shared", 60)
    for partition, word in enumerate(("first", "second")):
        shell.out("produce", topic, "-p", str(partition), "-m", word)
    assert sorted(line for each in followers for line in lines_of(each, 1)) == [b"first", b"second"]
    talks = [end_with(each, signal.SIGINT)[1].decode() for each in followers]
    assert all("As a member of sharers: reads" in talk for talk in talks), talks
    (group,) = shell.json("lag", "sharers")["groups"]
    assert group["lag"] == 0


def test_a_slow_pipe_has_no_delay(shell: Shell, topic: str) -> None:
    producing = shell.start("produce", topic, "--partition", "0")
    following = shell.start("consume", topic, "--follow")
    assert producing.stdin is not None
    for word in (b"one", b"two", b"three"):
        producing.stdin.write(word + b"\n")
        producing.stdin.flush()
        assert lines_of(following, 1) == [word]
    producing.stdin.close()
    assert producing.wait(PATIENCE_S) == 0
    for stream in (producing.stdout, producing.stderr):
        assert stream is not None
        stream.close()
    end_with(following, signal.SIGINT)


def test_a_reader_that_goes_away_is_no_noise(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, stdin=b"some words\n" * 100_000)
    consuming = shell.start("consume", topic)
    assert consuming.stdout is not None
    consuming.stdout.readline()
    consuming.stdout.close()
    assert consuming.wait(PATIENCE_S) == ExitCode.OUTPUT_CLOSED
    assert consuming.stderr is not None
    assert consuming.stderr.read() == b""
    consuming.stderr.close()
    assert consuming.stdin is not None
    consuming.stdin.close()


def test_a_group_goes_on_where_it_was_and_lag_tells_how_far(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, "--partition", "0", stdin=b"".join(b"%d\n" % n for n in range(10)))
    assert shell.out("consume", topic, "--group", "g", "--count", "4") == b"0\n1\n2\n3\n"
    (group,) = shell.json("lag", "g")["groups"]
    assert group["lag"] == 6
    assert shell.out("consume", topic, "--group", "g") == b"4\n5\n6\n7\n8\n9\n"
    assert b"g" in shell.out("lag", "--topic", topic)


def test_a_terminal_is_shown_no_control_characters(shell: Shell, topic: str) -> None:
    shell.out("produce", topic, stdin=b"\x1b[31mred\x07\xff\n")
    master, slave = pty.openpty()
    subprocess.run(
        shell.command("consume", topic),
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=shell.environment,
        timeout=PATIENCE_S,
        check=True,
    )
    os.close(slave)
    shown = os.read(master, 10_000)
    os.close(master)
    assert shown == b"\\x1b[31mred\\x07\\xff\r\n"


def test_status_says_what_the_broker_holds(shell: Shell, topic: str) -> None:
    found = shell.json("status")
    assert_same_shape(found, SHAPES["status"][0])
    assert found["version"] >= 1000
    assert found["without_leader"] == found["troubles"] == found["stray_folders"] == []
    assert found["data_folder"] == str(shell.broker.data)
    assert 0 < found["free_bytes"] < found["disk_bytes"]
    assert found["connections"] >= 1
    assert found["partitions"] >= 2
    assert found["round_trip_ms"] > 0
    assert topic in shell.out("topic", "list", "--names").decode().split()
    assert b"Tank Cluster" in shell.out("status", "--limits")


@pytest.mark.parametrize("bench", ["produce", "consume", "latency"])
def test_benchmarks_measure_and_leave_nothing(bench: str, shell: Shell) -> None:
    before = shell.out("topic", "list", "--names")
    found = shell.json("bench", bench, "--messages", "200", "--size", "100", "--partitions", "2")
    assert_same_shape(found, SHAPES[f"bench {bench}"][0])
    assert (found["messages"], found["bytes"]) == (200, 20_000)
    assert found["messages_per_s"] > 0
    if bench != "consume":
        assert found["latency_ms"]["ack"]["max"] >= found["latency_ms"]["ack"]["p50"] > 0
    assert shell.out("topic", "list", "--names") == before


def test_the_shell_completes_commands_and_topics(shell: Shell, topic: str) -> None:
    def completions(words: str) -> list[str]:
        asked = {
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_TANK_COMPLETE": "bash_complete",
        }
        ended = subprocess.run(
            [sys.executable, "-c", "from tank_cli.main import main; main(prog_name='tank')"],
            env={**shell.environment, **asked},
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
        return [line.partition(",")[2] for line in ended.stdout.decode().splitlines() if line]

    assert completions("tank prod") == ["produce"]
    assert completions(f"tank consume {topic[:8]}") == [topic]


def test_nobody_there_is_said_with_what_to_do(shell: Shell) -> None:
    ended = shell.run("topic", "list", "--servers", "127.0.0.1:1")
    assert ended.returncode == ExitCode.UNREACHABLE
    assert b"connection refused" in ended.stderr
    assert b"try: tank serve" in ended.stderr


def test_a_producer_goes_on_over_a_crash_of_the_broker(tmp_path: Path) -> None:
    """A broker of its own, killed while lines come in: all of them are stored, once."""
    with BrokerProcess(tmp_path / "data") as broker:
        shell = Shell(broker)
        shell.out("topic", "create", "t")
        producing = shell.start("produce", "t", "--rate", "2000")
        assert producing.stdin is not None
        producing.stdin.write(b"".join(b"%d\n" % n for n in range(4_000)))
        producing.stdin.close()
        while not shell.out("consume", "t", "--count", "1"):
            time.sleep(0.05)
        broker.kill()
        broker.start()
        assert producing.wait(PATIENCE_S) == 0
        for stream in (producing.stdout, producing.stderr):
            assert stream is not None
            stream.close()
        assert shell.out("consume", "t").split() == [b"%d" % n for n in range(4_000)]


def test_a_data_folder_is_verified_and_dumped_without_a_broker(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    shell = Shell(broker)
    shell.out("topic", "create", "flights", "--partitions", "2")
    shell.out("produce", "flights", "-p", "1", "-m", "one", "-m", "two", "--key", "k")
    assert shell.json("log", "verify", str(broker.data))["ok"] is True
    broker.stop()
    (found,) = shell.json("log", "verify", str(broker.data))["partitions"]
    assert (found["topic"], found["partition"], found["messages"]) == ("flights", 1, 2)
    dumped = json.loads(shell.out("log", "dump", str(broker.data), "-t", "flights", "-m", "-o", "json"))
    assert [(m["number"], m["key"], m["value"]) for m in dumped["messages"]] == [
        (1, "k", "one"),
        (2, "k", "two"),
    ]
    (log,) = (broker.data / "topics").glob("*/1/*.log")
    log.write_bytes(log.read_bytes().replace(b"one", b"two"))
    ended = shell.run("log", "verify", str(broker.data))
    assert ended.returncode == ExitCode.DAMAGED
    assert b"flights/1" in ended.stderr


def test_a_folder_that_belongs_to_no_topic_is_set_aside_and_told(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data").start()
    broker.stop()
    (broker.data / "topics" / "99").mkdir()
    (broker.data / "topics" / "99" / "log").write_bytes(b"x" * 2048)
    broker.start()
    shell = Shell(broker)
    (stray,) = shell.json("status")["stray_folders"]
    assert stray == {"path": str(broker.data / "topics" / ".stray-99-1"), "size_bytes": 2048}
    shown = shell.run("status")
    assert (shown.returncode, b".stray-99-1  2.0 KiB" in shown.stdout) == (0, True)
    broker.stop()


def test_the_demo_shows_what_it_promises() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tank_cli", "demo", "--output", "json"],
        capture_output=True,
        timeout=patient(120),
        check=False,
    )
    assert ended.returncode == 0, ended.stderr.decode()
    found = json.loads(ended.stdout)
    assert_same_shape(found, SHAPES["demo"][0])
    assert found["repeats_stored"] == 1
    assert len(found["recovery_seconds"]) == found["kills"] == 3
    assert found["entries"] > 0
