"""Only the client is installed: it writes and reads, and what needs more says what to install."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import patient
from tests.support.processes.broker_process import running_broker

pytestmark = [pytest.mark.integration, pytest.mark.timeout(200)]

WITHOUT_SERVERS = """
import runpy, sys
from tank_protos.server_packages import SERVER_PACKAGES

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in SERVER_PACKAGES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
module, *sys.argv[1:] = sys.argv[1:]
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def run(*words: str, given: str = "", servers: str = "127.0.0.1:1") -> subprocess.CompletedProcess[str]:
    """A program of the distribution, as it is without the extra."""
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_SERVERS, *words],
        input=given,
        capture_output=True,
        text=True,
        env={**os.environ, "TANK_SERVERS": servers},
        timeout=patient(60),
        check=False,
    )


def test_messages_are_written_and_read(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        for words in (
            ["topic", "create", "t"], ["produce", "t"], ["topic", "describe", "t"], ["status"], ["lag"],
            ["bench", "produce", "--messages", "10"],
        ):  # fmt: skip
            ended = run("tank_cli", *words, given="one\n", servers=broker.address)
            assert ended.returncode == 0, (words, ended.stderr)
        read = run("tank_cli", "consume", "t", "--from", "first", "--count", "1", servers=broker.address)
        assert read.stdout.strip() == "one"


@pytest.mark.parametrize(
    "words", [["serve"], ["cluster", "up", "--data", "c"], ["cluster", "status"], ["demo"]], ids=" ".join
)
def test_what_needs_the_servers_packages_says_so(words: list[str]) -> None:
    ended = run("tank_cli", *words)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: This needs the packages of a server, and ")
    assert ended.stderr.endswith(" is not installed.\n  try: pip install 'tank-cluster[server]'\n")


@pytest.mark.parametrize(
    "words",
    [
        ["tank_node", "--broker-id", "1", "--controllers", "c:1"],
        ["tank_controller", "--id", "1", "--cluster", "1=c:1", "--data", "d"],
    ],
    ids=["broker", "controller"],
)
def test_so_do_the_servers(words: list[str]) -> None:
    ended = run(*words)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: This needs the packages of a server, and ")
    assert ended.stderr.endswith(" is not installed: pip install 'tank-cluster[server]'\n")
