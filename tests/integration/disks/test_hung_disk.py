"""`tank serve` whose disk hangs when it is told to stop: it ends all the same, and the next start finds what
is there."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tank_protos.generated.tank import CreateTopicRequest
from tests.integration.programs.served import create_topic, produce_request, stored, write_one
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.broker_process import BrokerProcess

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ON_A_DISK_THAT_HANGS = """
import os, sys, time
from tank_cli import main
from tank_controller.raft_node import files
from tank_node import disk
from tank_node.app import stop

part, told, close_s = sys.argv.pop(1), sys.argv.pop(1), float(sys.argv.pop(1))
stop.TELL_S, stop.CLOSE_S = 0.1, close_s
place = {"log": disk.OsDisk, "metadata": files._OsAppendFile}[part]
sync = place.sync

def hang(*of):
    if os.path.exists(told):
        print("the disk hangs", file=sys.stderr, flush=True)
        time.sleep(3600)
    sync(*of)

place.sync = hang
main.main()
"""
"""Its fsyncs return no more as soon as there is a certain file."""


def read_until(broker: subprocess.Popen[str], words: str) -> str:
    """Its standard error up to the line with these words; all of it when there is none."""
    assert broker.stderr is not None
    read = ""
    for line in broker.stderr:
        read += line
        if words in line:
            break
    return read


@pytest.mark.parametrize("part", ["log", "metadata"])
@pytest.mark.parametrize(("close_s", "signals", "code"), [(3600.0, 2, 143), (0.2, 1, 1)])
def test_it_stops_when_told_again_and_when_it_has_waited_for_long(
    tmp_path: Path, part: str, close_s: float, signals: int, code: int
) -> None:
    healthy = BrokerProcess(tmp_path / "data")
    hangs = tmp_path / "hangs"
    script = [sys.executable, "-c", ON_A_DISK_THAT_HANGS, part, str(hangs), str(close_s)]
    command = [*script, "serve", "--data", str(healthy.data), "--listen", healthy.address]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as broker:
        try:
            assert broker.stdout is not None
            assert "listening" in broker.stdout.readline()
            assert create_topic(healthy, "t") == 0
            write_one(healthy, "t")
            hangs.touch()
            create = CreateTopicRequest(request_id=1, topic="never", partitions=1)
            asked = produce_request("t", [b"unsure"]) if part == "log" else create
            with RawConnection(healthy.port) as connection:
                connection.send(asked.ID, asked.encode())
                assert read_until(broker, "hangs").endswith("the disk hangs\n")
            broker.send_signal(signal.SIGTERM)
            if signals == 2:
                assert "a second signal stops at once" in read_until(broker, "a second signal")
                broker.send_signal(signal.SIGTERM)
            else:
                assert "stops without its disk" in read_until(broker, "stops without")
            assert broker.wait(60) == code
        finally:
            broker.kill()
    with healthy:
        assert stored(healthy, "t")[0] == b"one"
