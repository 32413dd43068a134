"""Ctrl-C in commands that run long, typed at a real terminal: where the prompt comes, and the exit code."""

import os
import pty
import re
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tests.integration.programs.shell import Shell
from tests.integration.programs.shell import broker as broker
from tests.integration.programs.shell import shell as shell
from tests.integration.programs.shell import topic as topic
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.cluster import LocalCluster
from tests.support.processes.ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

CTRL_C = b"\x03"
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`tank` at a terminal, and all that this shows."""

    def __init__(self, *arguments: str, **variables: str) -> None:
        self.pid, self._file = pty.fork()
        if not self.pid:  # the child
            command = [sys.executable, "-m", "tank_cli", *arguments]
            os.execve(sys.executable, command, {**os.environ, **variables, "TERM": "xterm"})
        self.shown = b""
        self._code: int | None = None

    def type(self, text: bytes) -> None:
        os.write(self._file, text)

    def until(self, wanted: bytes) -> None:
        """Until it is shown."""
        deadline = time.monotonic() + patient(30)
        while wanted not in self.shown:
            assert time.monotonic() < deadline, self.shown
            assert self._read() or wanted in self.shown, self.shown

    def _read(self) -> bool:
        """What is there now, or comes soon; False: it has ended."""
        if select.select([self._file], [], [], 0.1)[0]:
            try:
                more = os.read(self._file, 1 << 16)
            except OSError:  # nobody has the other side open
                return False
            self.shown += more
            return bool(more)
        return True

    def end(self, *, insists: bool = False) -> tuple[int, list[str]]:
        """Waits for it; its exit code, and the lines from the one with ^C on, the last being the prompt's.

        insists: types Ctrl-C again, as people do. One that comes in the moment before `input` begins to read
        is heard by Python only behind the next key."""
        deadline = time.monotonic() + patient(60)
        again = time.monotonic() + 2
        while self._read():
            assert time.monotonic() < deadline, self.shown
            if insists and time.monotonic() > again:
                again += 2
                self.type(CTRL_C)
        text = ESCAPE.sub("", self.shown.decode()).replace("\r\n", "\n")
        lines = text.split("\n")
        at = next(number for number, line in enumerate(lines) if "^C" in line)
        _, status = os.waitpid(self.pid, 0)
        self._code = os.waitstatus_to_exitcode(status)
        return self._code, [line.rpartition("\r")[2] for line in lines[at:]]

    def close(self) -> None:
        if self._code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self._file)


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Opens some; what a failed test leaves in them is ended."""
    opened = []

    def start(*arguments: str, **variables: str) -> Terminal:
        opened.append(Terminal(*arguments, **variables))
        return opened[-1]

    yield start
    for each in opened:
        each.close()


Start = Callable[..., Terminal]


def test_consume_that_follows_ends_with_the_line(
    shell: Shell, topic: str, broker: BrokerProcess, terminal: Start
) -> None:
    shell.out("produce", topic, "-m", "first")
    following = terminal("consume", topic, "--follow", TANK_SERVERS=broker.address)
    following.until(b"first")
    following.type(CTRL_C)
    assert following.end() == (ExitCode.INTERRUPTED, ["^C", ""])


def test_produce_says_on_a_line_of_its_own_what_is_stored(
    shell: Shell, topic: str, broker: BrokerProcess, terminal: Start
) -> None:
    producing = terminal("produce", topic, TANK_SERVERS=broker.address)
    producing.until(b"Ctrl-D ends")
    producing.type(b"one\n")
    producing.until(b"one")
    following = shell.start("consume", topic, "--follow")
    assert following.stdout is not None
    assert following.stdout.readline() == b"one\n"
    producing.type(CTRL_C)
    said = "Interrupted after 1 message, all of them stored."
    assert producing.end() == (ExitCode.INTERRUPTED, ["^C", said, ""])


def test_a_question_that_is_not_answered_ends_with_the_line(
    shell: Shell, topic: str, broker: BrokerProcess, terminal: Start
) -> None:
    asking = terminal("topic", "delete", topic, TANK_SERVERS=broker.address)
    asking.until(b"[y/N]")
    asking.type(CTRL_C)
    code, lines = asking.end(insists=True)
    assert (code, lines[1:]) == (ExitCode.INTERRUPTED, [""])


def test_a_measurement_ends_and_its_topic_goes(shell: Shell, broker: BrokerProcess, terminal: Start) -> None:
    before = shell.out("topic", "list", "--names")
    measuring = terminal("bench", "produce", "-n", "1000000000", TANK_SERVERS=broker.address)
    measuring.until(b"messages/s")
    measuring.type(CTRL_C)
    code, lines = measuring.end()
    assert code == ExitCode.INTERRUPTED
    assert lines[-1] == "", "the prompt stands in a line of its own"
    assert shell.out("topic", "list", "--names") == before


def test_serve_stops_in_order_and_logs_on_a_line_of_its_own(tmp_path: Path, terminal: Start) -> None:
    address = f"127.0.0.1:{free_port()}"
    serving = terminal("serve", "--data", str(tmp_path / "data"), "--listen", address, "--http", "off")
    serving.until(b"listening on")
    serving.type(CTRL_C)
    code, lines = serving.end()
    assert code == 0
    assert lines[0] == "^C"
    assert "stopping" in lines[1]
    assert lines[-1] == ""


def test_cluster_up_says_what_becomes_of_what_it_has_started(tmp_path: Path, terminal: Start) -> None:
    cluster = LocalCluster(tmp_path / "c")
    data = str(cluster.data)
    starting = terminal("cluster", "up", *cluster.size, "--data", data, "--base-port", str(cluster.base_port))
    starting.until(b"Starting 6 of 6")
    starting.type(CTRL_C)
    code, lines = starting.end()
    try:
        assert code == ExitCode.INTERRUPTED
        assert lines[0].endswith("^C")
        assert f"tank cluster down --data {data}" in lines[-2]
        assert lines[-1] == ""
    finally:
        cluster.down()
