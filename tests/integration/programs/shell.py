"""The command in a shell of its own, beside a broker."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess

PATIENCE_S = patient(60)


class Shell:
    """Runs `tank` with a broker's address in its environment."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.environment = {**os.environ, "TANK_SERVERS": broker.address}

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "tank_cli", *arguments]

    def run(self, *arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            self.command(*arguments),
            input=stdin,
            capture_output=True,
            env=self.environment,
            timeout=PATIENCE_S,
            check=False,
        )

    def out(self, *arguments: str, stdin: bytes = b"") -> bytes:
        """stdout of a command that must end well."""
        ended = self.run(*arguments, stdin=stdin)
        assert ended.returncode == 0, ended.stderr.decode()
        assert b"Traceback" not in ended.stderr
        return ended.stdout

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        return json.loads(self.out(*arguments, "--output", "json", stdin=stdin))

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self.command(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=self.environment,
        )


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker") / "data") as running:
        yield running


@pytest.fixture
def shell(broker: BrokerProcess) -> Shell:
    return Shell(broker)


@pytest.fixture
def topic(shell: Shell, request: pytest.FixtureRequest) -> str:
    """An empty topic with two partitions, named after the test."""
    name = str(request.node.name).removeprefix("test_")[:60].strip("_")
    shell.out("topic", "create", name, "--partitions", "2", "--set", "flush=replicated")
    return name
