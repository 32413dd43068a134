"""`tank serve` as a real process: start, stop under load, restart, refusals, its HTTP port."""

import json
import os
import re
import resource
import signal
import socket
import threading
from pathlib import Path

import pytest

from tank_protos.error_codes import CreateTopicError
from tank_protos.generated.tank import (
    InitProducerRequest,
    InitProducerResponse,
)
from tests.integration.programs.served import (
    create_topic,
    delete_topic,
    get,
    produce,
    serve,
    started,
    stored,
    write_one,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess, running_broker
from tests.support.waiting import until

pytestmark = pytest.mark.integration

STOP_S = patient(20.0)
"""What is promised for an orderly stop."""


def test_port_0_is_taken_and_the_real_ports_are_said(tmp_path: Path) -> None:
    process, line = started("--listen", "127.0.0.1:0", environment={"XDG_STATE_HOME": str(tmp_path)})
    try:
        found = re.search(r"listening on 127\.0\.0\.1:(\d+), http on 127\.0\.0\.1:(\d+)", line)
        assert found is not None, line
        with socket.create_connection(("127.0.0.1", int(found[1])), 5) as connection:
            assert connection.recv(5) == b"\x03\0\0\0\0", "the protocol's ping"
        assert get(int(found[2]), "/healthz")[0] == 200
        assert (tmp_path / "tank" / "meta.json").exists(), "the default data folder"
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=STOP_S)
    assert process.returncode == 0, errors


def test_stop_in_order_under_load_and_restart(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert create_topic(broker, "load") == CreateTopicError.NONE
        acknowledged: list[bytes] = []
        enough = threading.Event()

        def write() -> None:
            with RawConnection(broker.port) as connection:
                try:
                    for number in range(1_000_000):
                        value = b"%d" % number
                        if produce(connection, "load", [value]) == 0:
                            acknowledged.append(value)
                        if number == 200:
                            enough.set()
                except OSError:
                    pass

        writer = threading.Thread(target=write, daemon=True)
        writer.start()
        assert enough.wait(patient(30))
        assert broker.stop(STOP_S) == 0, broker.output()
        writer.join(patient(10))
        broker.start()
        assert stored(broker, "load")[: len(acknowledged)] == acknowledged
        assert "after a clean stop" in broker.output()


def test_metadata_survives_kill_9(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        for round_number in range(3):
            for number in range(5):
                assert create_topic(broker, f"t-{round_number}-{number}", 2, b"flush=replicated") == 0
                write_one(broker, f"t-{round_number}-{number}")
            delete_topic(broker, f"t-{round_number}-0")
            broker.kill()
            broker.start()
        ready = json.loads(get(broker.http_port, "/readyz")[1])
        assert (ready["topics"], ready["partitions"]) == (12, 24)
        assert ready["problems"] == ready["found_at_start"] == []
        assert create_topic(broker, "t-0-1") == CreateTopicError.EXISTS
        assert create_topic(broker, "t-0-0") == CreateTopicError.NONE
        assert "after a crash" in broker.output()
        folders = sorted(int(path.name) for path in (broker.data / "topics").iterdir())
        assert len(folders) == 12, "one for each topic that was written to, none of a deleted one"


def test_files_of_a_topic_whose_deletion_a_crash_interrupted_go_at_the_next_start(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        create_topic(broker, "gone")
        write_one(broker, "gone")
        (folder,) = (broker.data / "topics").iterdir()
        delete_topic(broker, "gone")
        broker.kill()
        (folder / "0").mkdir(parents=True)
        (broker.data / "topics" / "99999").mkdir()
        broker.start()
        topics = broker.data / "topics"
        until(lambda: not any(topics.glob(".deleted-*")), "files whose deletion was interrupted stay")
        names = [path.name for path in topics.iterdir()]
        assert names == [".stray-99999-1"], "what was never a topic here is set aside, not deleted"


def test_producer_ids_survive_kill_9(tmp_path: Path) -> None:
    def producer_id(broker: BrokerProcess, name: str, generation: int) -> int:
        request = InitProducerRequest(request_id=1, name=name, generation=generation)
        with RawConnection(broker.port) as connection:
            return InitProducerResponse.decode(connection.ask(request.ID, request.encode())).producer_id

    with running_broker(tmp_path) as broker:
        named, anonymous = producer_id(broker, "spark/q/0", 1), producer_id(broker, "", 0)
        broker.kill()
        broker.start()
        assert producer_id(broker, "spark/q/0", 1) == named
        assert producer_id(broker, "", 0) not in (named, anonymous)
        assert producer_id(broker, "spark/q/0", 2) not in (named, anonymous)


def test_a_second_process_on_the_folder_is_refused(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        second = serve("--data", str(broker.data), "--listen", "127.0.0.1:0")
        assert second.returncode == 1
        assert "another process uses the data folder" in second.stderr
        assert get(broker.http_port, "/readyz")[0] == 200, "the first one goes on"


def test_an_address_that_is_taken_is_named_with_its_flag(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        refused = serve("--data", str(tmp_path / "d"), "--listen", address, "--http", "off")
        assert refused.returncode == 1
        assert f"can't listen on {address}" in refused.stderr
        assert "--listen" in refused.stderr
        no_http = serve("--data", str(tmp_path / "d"), "--listen", "127.0.0.1:0", "--http", address)
        assert no_http.returncode == 1
        assert "--http" in no_http.stderr


def test_damaged_metadata_is_refused_with_a_code_of_its_own(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        create_topic(broker, "t")
        assert broker.stop() == 0
        (segment,) = (broker.data / "controller").glob("*.raft")
        content = bytearray(segment.read_bytes())
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
        for _ in range(2):
            refused = serve("--data", str(broker.data), "--listen", "127.0.0.1:0")
            assert refused.returncode == 8
            assert "backup" in refused.stderr
        content[len(content) // 2] ^= 1
        segment.write_bytes(content)
        broker.start()
        assert create_topic(broker, "t") == CreateTopicError.EXISTS
        assert "after a clean stop" in broker.output(), "a start that failed changes nothing"


@pytest.mark.parametrize("written", [True, False])
def test_lost_metadata_is_not_taken_for_a_new_cluster(tmp_path: Path, written: bool) -> None:
    with running_broker(tmp_path) as broker:
        create_topic(broker, "t")
        if written:
            write_one(broker, "t")
        assert broker.stop() == 0
        for path in (broker.data / "controller").iterdir():
            path.unlink()
        refused = serve("--data", str(broker.data), "--listen", "127.0.0.1:0")
        assert refused.returncode == 1
        assert "has been in use" in refused.stderr
        names = [path.name for path in (broker.data / "topics").iterdir()]
        assert len(names) == written, "nothing was lost"
        assert not any(name.startswith(".stray") for name in names), "nothing was set aside"


def test_metrics_and_health(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        create_topic(broker, "t")
        with RawConnection(broker.port) as connection:
            assert produce(connection, "t", [b"a", b"b"]) == 0
        status, metrics = get(broker.http_port, "/metrics")
        assert status == 200
        assert "tank_produced_messages_total 2.0" in metrics
        assert "tank_ready 1.0" in metrics
        assert "tank_controller_leads 1.0" in metrics, "its controller's are there, too"
        assert "tank_controller_topics 1.0" in metrics
        assert "process_open_fds " in metrics
        assert get(broker.http_port, "/healthz") == (200, '{"status": "ok"}')
        ready = json.loads(get(broker.http_port, "/readyz")[1])
        assert ready["ready"] is True
        assert get(broker.http_port, "/nothing")[0] == 404


def test_json_for_programs_and_configuration_from_everywhere(tmp_path: Path) -> None:
    file = tmp_path / "tank.toml"
    file.write_text(
        f'data = "{tmp_path / "from-file"}"\nlisten = "127.0.0.1:1"\nhttp = "off"\nbroker_id = 3\n'
    )
    environment = {"TANK_CONFIG": str(file), "TANK_LISTEN": "bad", "TANK_LOG_FORMAT": "json"}
    process, line = started("--listen", "127.0.0.1:0", environment=environment)
    process.terminate()
    _, errors = process.communicate(timeout=STOP_S)
    said = json.loads(line)
    assert (said["broker_id"], said["http"], said["data"]) == (3, None, str(tmp_path / "from-file"))
    assert [json.loads(row)["level"] for row in errors.splitlines()] == ["info"]
    refused = serve(environment=environment)
    assert refused.returncode == 2
    assert "TANK_LISTEN: 'bad'" in refused.stderr


def test_an_open_address_is_warned_of(tmp_path: Path) -> None:
    process, line = started("--listen", "0.0.0.0:0", "--http", "0.0.0.0:0", "--data", str(tmp_path / "d"))
    process.terminate()
    _, errors = process.communicate(timeout=STOP_S)
    assert "listening on 0.0.0.0:" in line
    assert "no authentication" in errors
    assert "see the metrics" in errors


def test_with_json_logs_every_line_is_an_object(tmp_path: Path) -> None:
    arguments = ("--listen", "0.0.0.0:0", "--http", "off", "--data", str(tmp_path / "d"))
    process, line = started(*arguments, "--log-format", "json")
    process.terminate()
    _, errors = process.communicate(timeout=STOP_S)
    assert json.loads(line)["clean"] is True, "nothing crashed before the first start"
    said = [json.loads(row) for row in errors.splitlines()]
    assert [row["level"] for row in said] == ["warning", "info"]
    assert "no authentication" in said[0]["message"]


def test_ctrl_c_stops_it_in_order_and_a_second_one_at_once(tmp_path: Path) -> None:
    process, _ = started("--listen", "127.0.0.1:0", "--http", "off", "--data", str(tmp_path / "d"))
    process.send_signal(signal.SIGINT)
    assert process.wait(STOP_S) == 0
    process.communicate()
    with running_broker(tmp_path, "--stop-grace-ms", "600000") as broker:
        create_topic(broker, "t")
        with RawConnection(broker.port) as connection:
            connection.socket.sendall(b"\x01\x10")  # half a frame
            os.kill(broker.pid, signal.SIGTERM)
            os.kill(broker.pid, signal.SIGTERM)
            code = broker.stop(STOP_S)
        assert code in (0, 128 + signal.SIGTERM)


def test_metadata_that_finds_no_room_is_an_error_and_the_broker_goes_on(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        assert create_topic(broker, "before") == CreateTopicError.NONE
        soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (64, hard))  # no file may grow beyond it
        for _ in range(3):
            assert create_topic(broker, "now") == CreateTopicError.SYSTEM
        assert get(broker.http_port, "/readyz")[0] == 503  # it takes no changes
        assert get(broker.http_port, "/healthz")[0] == 200
        resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (soft, hard))
        # What waited for room comes to be, although its asker was told of the full disk.
        until(lambda: create_topic(broker, "now") == CreateTopicError.EXISTS, "no room was noticed")
        until(lambda: get(broker.http_port, "/readyz")[0] == 200, "it is not ready again")
        broker.kill()
        broker.start()
        assert create_topic(broker, "before") == create_topic(broker, "now") == CreateTopicError.EXISTS


def test_an_idle_broker_is_small(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        create_topic(broker, "t", 4)
        assert broker.resident_bytes() < 60 * 1024 * 1024
