"""Iggy's stock client keeps the books of a run, and says what no fault explains."""

import threading
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_client.sync import Client
from tests.chaos.checker import violations
from tests.chaos.iggy.clients import IggyProgram, IggyProgramAccess, NotMadeError
from tests.chaos.iggy.stream import PARTITIONS, PLACED, ROOT_VARIABLE
from tests.chaos.record import Recorder, read
from tests.chaos.run import read_all
from tests.iggy_clients.package import interpreter_that_is_there
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.ports import free_port
from tests.support.waiting import until

ROOT = "iggy:a long password"
LIVE_S = patient(60.0)


@pytest.fixture
def access(monkeypatch: pytest.MonkeyPatch) -> IggyProgramAccess:
    """A broker's address for Iggy's clients, and the interpreter that has their package."""
    python = interpreter_that_is_there()
    if python is None:
        pytest.skip("IGGY'S CLIENT IS NOT INSTALLED: `make chaos LONG=1` does that")
    monkeypatch.setenv(ROOT_VARIABLE, ROOT)
    return IggyProgramAccess(f"127.0.0.1:{free_port()}", python)


@pytest.fixture
def broker(tmp_path: Path, access: IggyProgramAccess) -> Iterator[BrokerProcess]:
    """Serves Iggy's clients there."""
    name, _, password = ROOT.partition(":")
    root = {"IGGY_ROOT_USERNAME": name, "IGGY_ROOT_PASSWORD": password}
    with BrokerProcess(tmp_path / "data", "--iggy", access.servers, environment=root) as started:
        yield started


def program(
    role: str, access: IggyProgramAccess, folder: Path, ends: threading.Event | None = None
) -> IggyProgram:
    return IggyProgram(role, access, Recorder(folder / f"{role}.jsonl"), 50, 1, ends)


@pytest.mark.integration
def test_what_is_acknowledged_is_read_by_consumers_and_group_over_a_kill(
    tmp_path: Path, access: IggyProgramAccess, broker: BrokerProcess
) -> None:
    written = threading.Event()
    access.make(Recorder(tmp_path / "make.jsonl"))
    access.make(Recorder(tmp_path / "make.jsonl"))  # what is there stays
    sender, poller = program("send", access, tmp_path), program("poll", access, tmp_path, written)
    for each in (sender, poller):
        each.start()
    until(lambda: poller.count > 50, "nothing is read", LIVE_S)
    broker.kill()
    broker.start()
    before = sender.count, poller.count
    until(lambda: sender.count > before[0] + 50, "nothing is written", LIVE_S)
    until(lambda: poller.count > before[1] + 50, "nothing more is read", LIVE_S)
    sender.stopping.set()
    sender.join(LIVE_S)
    written.set()
    poller.join(LIVE_S)
    assert [each.failure for each in (sender, poller)] == [None, None]
    history = read(sorted(tmp_path.glob("*.jsonl")))
    with Client(broker.address) as client:
        log = read_all(client, [PLACED])
    places = [(PLACED, partition) for partition in range(PARTITIONS)]
    assert violations(history, log) == []
    assert history.stored() == len(history.sent) > 100
    assert {place for read_through in history.through.values() for place in read_through} == set(places)
    assert history.through_groups == {"iggy-group": places}


@pytest.mark.integration
def test_an_error_that_no_fault_explains_ends_it(
    tmp_path: Path, access: IggyProgramAccess, broker: BrokerProcess
) -> None:
    sender = program("send", access, tmp_path)
    sender.run()
    assert "exit code 1" in str(sender.failure)
    assert "not found" in str(sender.failure), "there is no stream yet"


def test_a_program_without_its_package_is_broken(tmp_path: Path) -> None:
    venv.create(tmp_path / "empty")
    without = IggyProgramAccess("127.0.0.1:1", str(tmp_path / "empty" / "bin" / "python"))
    sender = program("send", without, tmp_path)
    sender.run()
    assert "No module named 'apache_iggy'" in str(sender.failure)
    with pytest.raises(NotMadeError, match="No module named 'apache_iggy'"):
        without.make(Recorder(tmp_path / "make.jsonl"))
