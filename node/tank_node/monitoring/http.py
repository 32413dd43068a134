"""The node's HTTP port: /metrics for Prometheus, /healthz and /readyz for probes and people, and the API."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from aiohttp import web

from tank_node.monitoring.health import Health
from tank_protos.http_api.service import HttpService

if TYPE_CHECKING:
    from prometheus_client.registry import Collector, CollectorRegistry


MAX_BODY_BYTES = 64 * 1024
"""The size of a request's body; a reset that names all partitions of a large topic takes some 50 KiB."""
MAX_CONNECTIONS = 64
"""The most connections: enough for probes and scrapers, and few beside the descriptors of logs and clients.
Above it the oldest are closed, which most likely are idle. A burst may exceed it by the listener's
backlog."""


class HttpServer:
    """Serves one node's metrics and health.

    collector: returns the collector of the broker's metrics, or None while the broker starts. It is called,
    and the Prometheus library imported, at the first scrape: a broker without scrapes does without that
    library's memory.
    """

    def __init__(
        self,
        collector: "Callable[[], Collector | None]",
        health: Callable[[], Health],
        api: HttpService | None = None,
    ) -> None:
        self._collector = collector
        self._registry: CollectorRegistry | None = None
        self._health = health
        self._api = api
        self._runner: web.AppRunner | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listens. Returns the bound address (the system chooses the port when 0 is asked for). Raises
        OSError."""
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        if self._api is not None:
            self._api.add_to(app)
        runner = web.AppRunner(
            app, access_log=None, handle_signals=False, keepalive_timeout=15.0, shutdown_timeout=1.0
        )
        await runner.setup()
        server = runner.server
        assert server is not None

        def adopt() -> asyncio.Protocol:
            connections = server.connections
            for oldest in connections[: max(len(connections) + 1 - MAX_CONNECTIONS, 0)]:
                oldest.force_close()
            return server()

        try:
            self._listener = await asyncio.get_running_loop().create_server(adopt, host, port)
        except OSError:
            await runner.cleanup()
            raise
        self._runner = runner
        address: tuple[str, int] = self._listener.sockets[0].getsockname()
        return address[0], address[1]

    async def stop(self) -> None:
        """Stops; requests under way get a second."""
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _metrics(self, request: web.Request) -> web.Response:
        from prometheus_client.exposition import CONTENT_TYPE_LATEST

        return web.Response(body=self.metrics_text(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    def metrics_text(self) -> bytes:
        """The metrics, as scrapers get them."""
        from prometheus_client import CollectorRegistry, ProcessCollector
        from prometheus_client.exposition import generate_latest

        from tank_node.monitoring.health_collector import HealthCollector

        registry = self._registry
        if registry is None:
            registry = CollectorRegistry()
            if (collector := self._collector()) is not None:
                registry.register(collector)
                self._registry = registry
            registry.register(HealthCollector(self._health))
            ProcessCollector(registry=registry)  # processor time, memory, descriptors
        return generate_latest(registry)

    async def _healthz(self, request: web.Request) -> web.Response:
        """Answers always: an answer shows that the event loop runs."""
        return web.json_response({"status": "ok"})

    async def _readyz(self, request: web.Request) -> web.Response:
        health = self._health()
        body = {
            "ready": health.ready,
            "problems": health.problems,
            "found_at_start": health.found_at_start,
            **health.facts,
        }
        return web.json_response(body, status=200 if health.ready else 503)
