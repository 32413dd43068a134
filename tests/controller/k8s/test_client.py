"""The room that asks Kubernetes, with the package `kubernetes` and an API server of the test's own."""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest

from tank_controller.k8s import client
from tank_controller.k8s.api_server import KubernetesError, PackageApiServer
from tank_controller.k8s.client import Kubernetes, KubernetesConfig
from tank_controller.leader.scaling import News, Pod, Reason, Scaling
from tests.support.patience import patient
from tests.support.waiting import comes

CONFIG = KubernetesConfig("ns", "tank-broker", "tank-controller-0", "uid-0", "tank-controller")


class ApiServer:
    """What the tests need of one: StatefulSets that are read, listed and watched, and events."""

    def __init__(self) -> None:
        self.replicas = {"tank-broker": 3, "tank-controller": 3}
        self.version = 10
        self.events: dict[str, dict[str, Any]] = {}
        self.refuse = 0
        """An HTTP status that is answered instead; 0: none."""
        self.asked: list[str] = []
        self.changes: queue.Queue[tuple[str, dict[str, object]] | None] = queue.Queue()
        """What the open watch is told; None ends it."""
        handler = type("Handler", (_Handler,), {"api": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def configure(self, configuration: Any) -> None:
        configuration.host = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self.changes.put(None)
        self._server.shutdown()
        self._server.server_close()

    def item(self, name: str) -> dict[str, object]:
        about = {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": str(self.version),
            "generation": self.version,
        }
        return {"kind": "StatefulSet", "metadata": about, "spec": {"replicas": self.replicas[name]}}

    def scale(self, replicas: int) -> None:
        self.version += 1
        self.replicas["tank-broker"] = replicas
        self.changes.put(("MODIFIED", self.item("tank-broker")))


class _Handler(BaseHTTPRequestHandler):
    api: ApiServer
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        asked = urlparse(self.path)
        query = parse_qs(asked.query)
        name = asked.path.rpartition("/")[2]
        self.api.asked.append("watch" if "watch" in query else "list" if name == "statefulsets" else "read")
        assert asked.path.startswith("/apis/apps/v1/namespaces/ns/statefulsets")
        if self.api.refuse:
            self._answer(self.api.refuse, {"message": "no"})
        elif name != "statefulsets":
            known = name in self.api.replicas
            self._answer(200 if known else 404, self.api.item(name) if known else {"message": "not found"})
        elif "watch" in query:
            self._watch()
        else:
            assert query["fieldSelector"] == ["metadata.name=tank-broker"]
            version = {"resourceVersion": str(self.api.version)}
            self._answer(200, {"metadata": version, "items": [self.api.item("tank-broker")]})

    def _watch(self) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while (change := self.api.changes.get()) is not None:
            line = json.dumps({"type": change[0], "object": change[1]}).encode() + b"\n"
            for piece in (line[:7], line[7:]):
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def do_POST(self) -> None:
        assert self.path.startswith("/api/v1/namespaces/ns/events")
        event = self._read()
        name = event["metadata"]["name"]
        taken = name in self.api.events
        if not taken:
            self.api.events[name] = event
        self._answer(409 if taken else 201, event)

    def do_PATCH(self) -> None:
        event = self.api.events[urlparse(self.path).path.rpartition("/")[2]]
        event.update(self._read())
        self._answer(200, event)

    def _read(self) -> dict[str, Any]:
        read: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return read

    def _answer(self, status: int, body: dict[str, object]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test's output is the test's."""


@pytest.fixture
def server() -> Iterator[ApiServer]:
    pytest.importorskip("kubernetes", reason="the package kubernetes is not installed")
    found = ApiServer()
    yield found
    found.close()


@asynccontextmanager
async def leading(server: ApiServer, scaling: Scaling) -> AsyncIterator[Kubernetes]:
    found = Kubernetes(CONFIG, PackageApiServer("ns", server.configure))
    found.tick(scaling, leads=True)
    yield found
    found.stop()


def test_the_leader_sees_how_many_are_wanted_and_every_change_of_it(server: ApiServer) -> None:
    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling):
            await comes(lambda: scaling.wanted == 3)
            server.scale(5)
            await comes(lambda: scaling.wanted == 5)
            server.changes.put(None)
            server.scale(4)
            await comes(lambda: scaling.wanted == 4)
        assert server.asked.count("list") == 1

    asyncio.run(live())


def test_a_watch_whose_version_is_forgotten_lists_again(server: ApiServer) -> None:
    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling):
            await comes(lambda: "watch" in server.asked)
            server.replicas["tank-broker"] = 4
            server.version += 1
            server.changes.put(("ERROR", {"code": 410, "message": "too old resource version"}))
            server.changes.put(None)
            await comes(lambda: scaling.wanted == 4)
        assert server.asked.count("list") == 2

    asyncio.run(live())


def test_a_question_hears_the_newest_and_an_older_change_that_comes_later_is_known_as_such(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FRESH_S", 0.0)

    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling) as api:
            await comes(lambda: scaling.wanted == 3)
            older = server.item("tank-broker")
            server.replicas["tank-broker"], server.version = 2, server.version + 1
            await api.look()
            assert scaling.wanted == 2
            server.changes.put(("MODIFIED", older))
            server.scale(1)
            await comes(lambda: scaling.wanted != 2)
            assert scaling.wanted == 1

    asyncio.run(live())


def test_an_api_server_that_refuses_leaves_what_is_known(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(client, "FRESH_S", 0.0)

    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling) as api:
            await comes(lambda: scaling.wanted == 3)
            server.refuse = 403
            server.changes.put(None)
            await api.look()
            assert scaling.wanted == 3
            assert await api.wanted_controllers() is None
            await comes(lambda: "let this pod's service account get, list and watch" in caplog.text)
            server.refuse = 0
            server.scale(4)
            await comes(lambda: scaling.wanted == 4)

    asyncio.run(live())


def test_for_a_while_an_api_server_that_does_not_say_leaves_open_who_is_to_stop(
    server: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "FRESH_S", 0.0)

    async def is_open_no_longer(api: client.Kubernetes) -> None:
        with monkeypatch.context() as shorter:
            shorter.setattr(client, "UNSURE_S", 0.2)
            async with asyncio.timeout(patient(10.0)):
                while not await api.look():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling) as api:
            await comes(lambda: scaling.wanted == 3)
            assert await api.look()
            server.refuse = 500
            assert [await api.look(), await api.look()] == [False, False]
            await is_open_no_longer(api)
            server.refuse = 0
            assert await api.look()
            server.refuse = 500
            assert not await api.look(), "it has said since"
            await is_open_no_longer(api)
            monkeypatch.setattr(client, "UNSURE_AGAIN_S", 0.0)
            assert not await api.look(), "that was another time"
            server.refuse = 0
            assert await api.look()

    asyncio.run(live())


def test_who_leads_no_longer_knows_nothing_and_does_not_watch(server: ApiServer) -> None:
    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling) as api:
            await comes(lambda: scaling.wanted == 3)
            api.tick(scaling, leads=False)
            assert scaling.wanted is None
            server.scale(5)
            assert not await api.look(), "nor does who leads since a moment"
            assert scaling.wanted is None
            api.tick(scaling, leads=True)
            await comes(lambda: scaling.wanted == 5)

    asyncio.run(live())


def test_how_many_controllers_are_wanted_is_asked_when_somebody_wants_to_know(server: ApiServer) -> None:
    async def live() -> None:
        api = Kubernetes(CONFIG, PackageApiServer("ns", server.configure))
        server.replicas["tank-controller"] = 5
        assert await api.wanted_controllers() == 5
        del server.replicas["tank-controller"]
        assert await api.wanted_controllers() is None

    asyncio.run(live())


def test_news_become_events_and_the_same_again_is_counted(server: ApiServer) -> None:
    async def live() -> None:
        scaling = Scaling()
        async with leading(server, scaling) as api:
            await comes(lambda: scaling.wanted == 3)
            pod = Pod("tank-broker-4", "uid-pod")
            for text in ("57 replicas.", "12 replicas."):
                scaling.news.append(News(Reason.DRAINING, 5, text, pod))
            scaling.news.append(News(Reason.SCALED_DOWN, 5, "Gone."))
            api.tick(scaling, leads=True)
            await comes(lambda: len(server.events) == 2)
            on_pod, on_set = server.events.values()
            assert (on_pod["involvedObject"]["uid"], on_pod["count"], on_pod["message"]) == (
                "uid-pod",
                2,
                "12 replicas.",
            )
            assert on_set["involvedObject"]["uid"] == "uid-tank-broker"

    asyncio.run(live())


def test_what_a_controller_tells_of_itself_is_told_before_it_ends(server: ApiServer) -> None:
    async def live() -> None:
        api = Kubernetes(CONFIG, PackageApiServer("ns", server.configure))
        api.report_controller(3, "Controller 3 stops.")
        await api.events_written()
        (event,) = server.events.values()
        about = event["involvedObject"]
        assert (about["kind"], about["name"], about["uid"]) == ("Pod", "tank-controller-0", "uid-0")
        assert (event["type"], event["reason"]) == ("Warning", "ControllersNotAsWanted")

    asyncio.run(live())


def test_outside_of_a_pod_it_says_that_this_is_none() -> None:
    pytest.importorskip("kubernetes", reason="the package kubernetes is not installed")
    with pytest.raises(KubernetesError, match="this is no pod that may ask Kubernetes"):
        PackageApiServer("ns")


def test_a_release_is_taken_down_when_both_of_its_sets_are_gone_or_are_to_have_no_pods(
    server: ApiServer,
) -> None:
    async def live() -> list[bool]:
        api = Kubernetes(CONFIG, PackageApiServer("ns", server.configure))
        found = [await api.is_taken_down()]
        for brokers, controllers in ((None, 3), (3, None), (None, None), (0, 0), (0, 3)):
            wanted = {"tank-broker": brokers, "tank-controller": controllers}
            server.replicas = {name: pods for name, pods in wanted.items() if pods is not None}
            found.append(await api.is_taken_down())
        return found

    assert asyncio.run(live()) == [False, False, False, True, True, False]


def test_a_right_that_is_lost_is_a_sign_of_the_end_and_one_that_never_was_is_none(server: ApiServer) -> None:
    async def live(*, had: bool) -> bool:
        api = Kubernetes(CONFIG, PackageApiServer("ns", server.configure))
        server.refuse = 0 if had else 403
        await api.learn_rights()
        server.refuse = 403
        return await api.is_taken_down()

    assert asyncio.run(live(had=True))
    assert not asyncio.run(live(had=False))


def test_an_api_server_that_fails_says_nothing_of_an_end(server: ApiServer) -> None:
    async def live() -> bool:
        api = Kubernetes(CONFIG, PackageApiServer("ns", server.configure))
        await api.learn_rights()
        server.refuse = 500
        return await api.is_taken_down()

    assert not asyncio.run(live())
