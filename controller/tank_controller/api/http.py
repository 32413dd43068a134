"""The controller's HTTP port: /metrics for Prometheus, /healthz and /readyz for probes and people, and the
API.
"""

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from aiohttp import web

from tank_controller import limits
from tank_controller.api.routes import HttpApi
from tank_controller.node import NodeHost
from tank_protos.cluster_secret import SecretRefusal
from tank_protos.resolver import host_and_port

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class ControllerHttp:
    """Serves one controller's metrics, health, and API."""

    def __init__(self, host: NodeHost, api: HttpApi | None = None) -> None:
        self._host = host
        self._api = api
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, address: str) -> int:
        """Listens on host:port; returns the port, which the system chooses for port 0. Raises OSError."""
        app = web.Application(client_max_size=limits.MAX_API_BODY_BYTES)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._api is not None:
            self._api.add_to(app)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False,
            keepalive_timeout=limits.HTTP_KEEPALIVE_S, shutdown_timeout=1.0,
        )  # fmt: skip
        await self._runner.setup()
        server = self._runner.server
        assert server is not None

        def adopt() -> asyncio.Protocol:
            connections = server.connections
            for oldest in connections[: max(len(connections) + 1 - limits.MAX_HTTP_CONNECTIONS, 0)]:
                oldest.force_close()
            return server()

        host, port = host_and_port(address)
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(adopt, host, int(port))
        chosen: int = self._listener.sockets[0].getsockname()[1]
        return chosen

    async def stop(self) -> None:
        """Stops serving; requests under way get a second."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def collect(self) -> "Iterator[Metric]":
        """The metrics, as Prometheus' library expects them from a collector."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        from tank_controller.api.metrics_collector import ControllerCollector

        node = self._host.node
        ready = node is not None and not node.problem
        yield GaugeMetricFamily(
            "tank_controller_ready", "1 when /readyz says that it is a member and takes part", float(ready)
        )
        if node is not None:
            yield GaugeMetricFamily(
                "tank_controller_knows_leader",
                "1 when it leads, or has heard from the controller that does",
                float(node.readiness.knows_leader),
            )
            yield from ControllerCollector(
                node.member.driver, node.metadata, node.clocks, node.brokers.leadership.fences
            ).collect()
            yield GaugeMetricFamily(
                "tank_controller_brokers_connected",
                "Brokers whose streams are open here: at the leader alone",
                float(len(node.brokers.streams)),
            )
            space = node.space()
            yield GaugeMetricFamily(
                "tank_controller_disk_free_bytes", "Room on its disk", space.free if space else None
            )
            yield GaugeMetricFamily(
                "tank_controller_disk_size_bytes", "Size of its disk", space.size if space else None
            )

        trust = self._host.trust
        refused = CounterMetricFamily(
            "tank_controller_untrusted_calls",
            "Calls that were refused because they didn't prove the cluster's secret, by reason",
            labels=["reason"],
        )
        for reason in SecretRefusal:
            refused.add_metric([reason.value], trust.refused[reason.value])
        yield refused
        yield CounterMetricFamily(
            "tank_controller_unproven_calls",
            "Calls that proved nothing and were taken: the secret isn't demanded yet",
            value=trust.unproven,
        )
        yield GaugeMetricFamily(
            "tank_controller_secret_demanded", "1 when no call is taken without the secret", trust.demanded
        )
        answers = CounterMetricFamily(
            "tank_controller_api_requests",
            "Requests to the API that were answered, by operation and outcome",
            labels=["operation", "outcome"],
        )
        for labels, count in sorted(self._api.answers.items()) if self._api else ():
            answers.add_metric(labels, count)
        yield answers

    async def _metrics(self, request: web.Request) -> web.Response:
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

        registry = CollectorRegistry()
        registry.register(self)
        ProcessCollector(registry=registry)
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _healthz(self, request: web.Request) -> web.Response:
        """Answers always: an answer shows that the event loop runs."""
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        node = self._host.node
        if node is None:
            body: dict[str, object] = {
                "ready": False,
                "problems": ["it belongs to no cluster yet: it waits for the other configured controllers"],
            }
        else:
            problems = [each for each in (node.problem, node.readiness.notice) if each]
            body = {"ready": not node.problem, "problems": problems, **node.facts()}
        return web.json_response(body, status=200 if body["ready"] else 503)
