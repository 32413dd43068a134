"""No file descriptor left: new connections are turned away, those that are there go on, and it passes."""

import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tank_protos import bundle
from tank_protos.generated.tank import CreateTopicRequest, ProducePartition, ProduceRequest, ProduceTopic
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.ports import free_port

pytestmark = pytest.mark.integration

FEW_FILES = 64


def produce(client: RawConnection) -> int:
    batch = memoryview(bundle.as_batch(bundle.encode([b"x"], timestamps=1)))
    request = ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [ProducePartition(0, batch)])])
    return client.ask(request.ID, request.encode())[-1]


def test_a_broker_without_descriptors_serves_those_it_has(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "tests.support.nodes.bare_node", str(port), str(tmp_path / "data")]
    process = subprocess.Popen(
        ["sh", "-c", f'ulimit -n {FEW_FILES}; exec "$@"', "sh", *command, "files_kept_free=0"],
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        with RawConnection(port) as first:
            first.ask(7, CreateTopicRequest(1, "a", 1, b"flush=replicated").encode())
            assert produce(first) == 0
            turned_away = 0
            with ExitStack() as stack:
                for _ in range(FEW_FILES):
                    client = stack.enter_context(RawConnection(port))
                    try:
                        client.send(3, [])
                        produce(client)
                    except OSError:
                        turned_away += 1
                assert turned_away > 0
                assert len(os.listdir(f"/proc/{process.pid}/fd")) <= FEW_FILES
                assert produce(first) == 0
            with RawConnection(port) as later:
                assert produce(later) == 0
    finally:
        process.terminate()
        assert process.wait(10) == 0
