"""`examples/iggy_copy.py`: a topic goes from one server to another."""

import subprocess
import sys
from pathlib import Path

import pytest

from tank_protos.generated.iggy import CreateStreamRequest, CreateTopicRequest
from tank_protos.iggy.eras import V11
from tank_protos.iggy.identifiers import of_name
from tests.support.iggy.client_messages import ClientMessage
from tests.support.patience import patient
from tests.support.processes.iggy_broker import IggyBroker

pytestmark = pytest.mark.integration

PROGRAM = Path(__file__).parents[3] / "examples" / "iggy_copy.py"
HEADERS = ((b"kind", 2, b"\7", 9), (b"\1\2", 1, b"text", 2))


def copied(old: IggyBroker, new: IggyBroker) -> "subprocess.CompletedProcess[str]":
    servers = [f"iggy+tcp://iggy:iggy@127.0.0.1:{each.iggy_port}" for each in (old, new)]
    command = [sys.executable, str(PROGRAM), *servers, "shop", "orders"]
    return subprocess.run(command, capture_output=True, text=True, timeout=patient(100), check=False)


def test_payloads_headers_and_ids_are_copied_partition_by_partition(tmp_path: Path) -> None:
    pytest.importorskip("apache_iggy")
    with IggyBroker(tmp_path / "old") as old, IggyBroker(tmp_path / "new") as new:
        with old.iggy(V11) as client:
            client.tell(CreateStreamRequest(name="shop"))
            client.tell(CreateTopicRequest(stream=of_name("shop"), partitions_count=2, name="orders"))
            for turn in range(3):
                some = [ClientMessage(b"%d" % (400 * turn + n), 1 + 400 * turn + n) for n in range(400)]
                client.send_messages("shop", "orders", some)
            client.send_messages("shop", "orders", [ClientMessage(b"last", 4711, headers=HEADERS)])
        ended = copied(old, new)
        assert ended.stdout.splitlines() == [
            "partition 0: 1,201 messages; a new offset is the old one less 0",
            "partition 1: 0 messages; a new offset is the old one less 0",
        ], ended.stderr
        with old.iggy(V11) as client:
            wanted = client.first_messages("shop", "orders", 2000)
        with new.iggy(V11) as client:
            found = client.first_messages("shop", "orders", 2000)
        assert [(m.offset, m.id, m.payload) for m in found] == [(m.offset, m.id, m.payload) for m in wanted]
        assert sorted(found[-1].headers) == sorted(HEADERS)
        again = copied(old, new)
        assert again.returncode == 1
        assert "the new topic has 1,201 messages already" in again.stderr
