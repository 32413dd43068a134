"""What the chart runs in pods beside brokers and controllers: its test, and what startup probes wait with."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tank_cli import first_message, started
from tank_client.settings import ClientSettings
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.ports import free_port

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]


def run(module: str, *arguments: str, servers: str = "") -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "TANK_SERVERS": servers}
    command = [sys.executable, "-m", module, *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=patient(120), check=False
    )


def test_the_charts_test_writes_reads_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "data") as broker:
        done = run("tank_cli.first_message", servers=broker.address)
        assert done.returncode == 0, done.stderr
        assert "300 messages were written to 3 partitions and read back" in done.stdout
        listed = run("tank_cli", "topic", "list", servers=broker.address)
        assert "helm-test" not in listed.stdout + listed.stderr


def test_the_charts_test_fails_and_says_why_where_no_broker_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(first_message, "SETTINGS", ClientSettings(request_timeout_ms=500))
    monkeypatch.setenv("TANK_SERVERS", f"127.0.0.1:{free_port()}")
    assert first_message.main() == 1
    assert capsys.readouterr().err.startswith("error: ")
    monkeypatch.setenv("TANK_SERVERS", "")
    assert first_message.main() == 2


def test_a_probe_of_a_start_waits_until_it_is_over_and_ready(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path / "data")
    probe = subprocess.Popen([sys.executable, "-m", "tank_cli.started", str(broker.http_port)])
    try:
        time.sleep(started.ASK_EVERY_S * 5)
        assert probe.poll() is None, "nothing answers yet, and it says nothing"
        with broker:
            assert probe.wait(patient(60)) == 0
            assert started.answers(broker.http_port, "/readyz")
    finally:
        probe.kill()
        probe.wait()


def test_a_start_that_doesnt_come_to_its_end_is_no_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "STARTED_S", 0.3)
    assert started.main(free_port()) == 1


def test_a_start_that_is_over_and_not_ready_for_long_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started, "READY_S", 0.3)
    monkeypatch.setattr(started, "answers", lambda port, path: path == "/healthz")
    assert started.main(1) == 0
