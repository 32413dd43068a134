"""The zone of a broker's node, asked of an API server that is played here."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tank_node.app.zone import NodeZoneError, read_zone, zone_of_node

NODE = {"kind": "Node", "metadata": {"name": "worker 1", "labels": {"topology.kubernetes.io/zone": "zone-b"}}}


@contextmanager
def api_server(status: int, body: object) -> Iterator[tuple[dict[str, str], list[tuple[str, str | None]]]]:
    """An environment that leads to it, and what it was asked: path and authorization."""
    asked: list[tuple[str, str | None]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["Authorization"]))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, format: str, *arguments: object) -> None:
            """Tests are quiet."""

    server = HTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        port = str(server.server_address[1])
        yield {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def account(tmp_path: Path) -> Path:
    (tmp_path / "token").write_text("of-this-pod\n")
    return tmp_path


def test_a_broker_learns_the_zone_of_its_node_with_its_own_token(account: Path) -> None:
    with api_server(200, NODE) as (environment, asked):
        assert zone_of_node("worker 1", environment, account, "http") == "zone-b"
    assert asked == [("/api/v1/nodes/worker%201", "Bearer of-this-pod")]


def test_a_node_without_a_zone_has_none() -> None:
    assert read_zone(json.dumps({"metadata": {"labels": {}}}).encode()) == ""
    assert read_zone(json.dumps({"metadata": {}}).encode()) == ""


def test_who_may_not_ask_is_told_what_to_do(account: Path) -> None:
    with (
        api_server(403, {"kind": "Status"}) as (environment, _),
        pytest.raises(NodeZoneError, match=r"rackFromNode\.enabled"),
    ):
        zone_of_node("worker", environment, account, "http")


def test_an_api_server_that_is_away_is_an_error_of_ours(account: Path) -> None:
    with api_server(200, NODE) as (environment, _):
        pass
    with pytest.raises(NodeZoneError, match="can't be asked"):
        zone_of_node("worker", environment, account, "http")


def test_without_kubernetes_or_a_token_nothing_is_asked(tmp_path: Path) -> None:
    with pytest.raises(NodeZoneError, match="no pod"):
        zone_of_node("worker", {}, tmp_path)
    with api_server(200, NODE) as (environment, asked), pytest.raises(NodeZoneError, match="token"):
        zone_of_node("worker", environment, tmp_path)
    assert not asked


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"metadata": 1}', b'{"metadata": {"labels": [1]}}',
             b'{"metadata": {"labels": {"topology.kubernetes.io/zone": 7}}}'],
)  # fmt: skip
def test_an_answer_that_is_no_node_is_refused(body: bytes) -> None:
    with pytest.raises(NodeZoneError, match="not a node"):
        read_zone(body)
