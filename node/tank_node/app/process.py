"""A broker's process: put together, run until told to stop, taken apart in order.

Heirs bring the controller: `tank serve` has one in the same process, `tank-node` reaches it over the network.
"""

import asyncio
import os
import resource
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from tank_node.app.config import Address, NodeConfig
from tank_node.app.stop import bounded_stop, stop_at_once
from tank_node.broker.broker import Broker
from tank_node.broker.problems import MAX_PROBLEMS, partition_problems, problem_count
from tank_node.clock import SteadyClock, SystemClock
from tank_node.cluster.link import ControllerLink
from tank_node.cluster.session import Registration
from tank_node.cluster.view import OUTSIDE
from tank_node.disk import OsDisk
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.monitoring.health import Health
from tank_node.monitoring.http import HttpServer
from tank_node.server.connections import Connections
from tank_node.server.listener import Listener
from tank_node.server.server import Server
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.tank.dispatch import open_session
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import FlushPolicy

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

DEFAULT_BROKER_ID = 1
WANTED_FILES = 65_536
"""The soft limit of open files is raised to this where the hard one allows it."""
MOST_LOG_FILES = 2048
"""Open files of logs: each partition in use has two; more are opened and closed as needed."""
OTHER_FILES = 128
"""Kept free of logs and clients: for the controller, folders, libraries, scrapes."""

_log = getLogger("tank")


class ListenError(OSError):
    """An address that can't be listened on; the message says what to do."""


@dataclass(slots=True, frozen=True)
class Started:
    """What a node says of itself when it is ready."""

    listen: Address
    http: Address | None
    data: Path
    cluster_id: str
    broker_id: int
    topics: int
    partitions: int
    messages: int
    stored_bytes: int
    cut_bytes: int
    """What a crash left unfinished; nobody was told that it was stored."""
    clean: bool
    """The process before this one stopped in order, or there was none."""
    problems: int
    """How many partitions can't be used as they should, or had to be mended."""
    seconds: float


class NodeProcess(ABC):
    """All rooms of a node. `run` is its life."""

    data_folder: DataFolder
    """Taken by `run`."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self._log_files = log_files = _log_files(_raise_file_limit())
        self.limits = Limits(connections=config.max_connections, files_kept_free=log_files + OTHER_FILES)
        self.metrics = Metrics()
        self.clock = SteadyClock(SystemClock())
        self._began = time.monotonic()
        self._incarnation = os.urandom(16)
        self._stopping = asyncio.Event()
        self._is_new = not os.path.exists(config.data / "meta.json")
        self._starting = "it is starting"
        """What it does before it serves; empty: it serves."""

    async def run(self, announce: Callable[[Started], None]) -> None:
        """Starts, says so, and stops in order at SIGTERM or SIGINT.

        Raises what keeps it from starting: ListenError, what the logs and the controller's line raise.
        """
        self._loop = asyncio.get_running_loop()
        self._watch_signals()
        http = HttpServer(self._collector, self._health)
        try:
            await self._run(http, announce)
        finally:
            await http.stop()

    async def _run(self, http: HttpServer, announce: Callable[[Started], None]) -> None:
        config = self.config
        http_address = None
        if self._is_new:  # whoever probes it is answered while it waits; it has nothing to recover
            http_address = await self._listen_http(http)
        self.data_folder = self._open_data_folder(await self._find_cluster() if self._is_new else "")
        try:
            if self._recover():
                http_address = http_address or await self._listen_http(http)
            link = await self._open_controller()
        except BaseException:
            await self._abandon()
            raise
        flusher = Flusher(self.data_folder.disk, self._post)
        broker = Broker(self.data_folder, link, flusher, self.clock, self.limits, self.metrics, config.flush)
        self._broker = broker
        server = Server(broker, self._loop, self._listeners(broker), self.limits, self.metrics)
        self._replicate(broker, server.connections)
        broker.open()
        # What ends it before here leaves the folder as a crash does: closing says that its logs are in order.
        try:
            http_address = http_address or await self._listen_http(http)
            await self._serve(server, http_address, announce)
        finally:
            with bounded_stop():
                await self._stop_controller()  # before the folder's lock goes with its logs
                broker.close()

    def _listeners(self, broker: Broker) -> list[Listener]:
        """The broker's address, and where there is one, that for clients outside of the cluster's network."""
        listen, outside = self.config.listen, self.config.outside_listen
        listeners = [Listener((listen.host, listen.port), lambda: open_session(broker))]
        if outside is not None:
            listeners.append(
                Listener((outside.host, outside.port), lambda: open_session(broker, is_outside=True))
            )
        return listeners

    async def _serve(self, server: Server, http: Address | None, announce: Callable[[Started], None]) -> None:
        config = self.config
        listen = await _listening("--listen", config.listen, lambda: _first(server.start()))
        try:
            await self._ready(listen)
            self._starting = ""
            announce(self._started(listen, http))
            await self._stopping.wait()
            await self._let_go()
            _log.info("stopping: no new requests, those under way have %d ms", config.stop_grace_ms)
        finally:
            await server.stop(config.stop_grace_ms / 1000)

    async def _listen_http(self, http: HttpServer) -> Address | None:
        """Before it is registered: that may take long, and a process that waits is alive. Not before it has
        recovered, which holds up the loop, and which a startup probe waits for."""
        wanted = self.config.http
        if wanted is None:
            return None
        return await _listening("--http", wanted, lambda: http.start(wanted.host, wanted.port))

    # --- starting ---

    def _open_data_folder(self, cluster_id: str) -> DataFolder:
        config = self.config
        broker_id = config.broker_id or (DEFAULT_BROKER_ID if self._is_new else None)
        return DataFolder.open(
            str(config.data),
            OsDisk(),
            self.clock,
            cluster_id=cluster_id or config.cluster_id,
            broker_id=broker_id,
            open_files=self._log_files,
        )

    def _advertised(self, port: int) -> Address:
        """Where others reach a node that listens on this port."""
        if self.config.advertise is not None:
            return self.config.advertise
        host = self.config.listen.host
        return Address(socket.gethostname() if host in ("0.0.0.0", "::") else host, port)

    def _registration(self) -> Registration:
        """What this process says of itself; an heir says what of its disk."""
        advertised = self._advertised(self.config.listen.port)
        outside = self.config.outside_advertise
        return Registration(
            incarnation=self._incarnation,
            disk_uuid=UUID(self.data_folder.meta.disk_uuid).bytes,
            tail_sure=False,
            host=advertised.host,
            port=advertised.port,
            rack=self.config.rack,
            flush_replicated=self.config.flush is FlushPolicy.REPLICATED,
            endpoints=[]
            if outside is None
            else [pb.Endpoint(name=OUTSIDE, host=outside.host, port=outside.port)],
        )

    async def _find_cluster(self) -> str:
        """What a new data folder belongs to; empty: to a cluster of its own."""
        return ""

    @abstractmethod
    def _recover(self) -> bool:
        """Learns of its logs what it has to say when it registers; False: they are recovered when the broker
        opens."""

    @abstractmethod
    async def _open_controller(self) -> ControllerLink:
        """The line to the controller, with this process registered and the view of now."""

    @abstractmethod
    def _replicate(self, broker: Broker, connections: Connections) -> None:
        """Before the broker opens: what brings its messages to other brokers."""

    @abstractmethod
    async def _ready(self, listen: Address) -> None:
        """Clients are served from now on, there."""

    @abstractmethod
    async def _let_go(self) -> None:
        """Before an orderly stop: whatever others have to do first."""

    @abstractmethod
    async def _stop_controller(self) -> None:
        """Ends the line."""

    @abstractmethod
    def _controller_problem(self) -> str | None:
        """Why metadata can't be changed now; None when all is well."""

    def _catching_up(self) -> str | None:
        """Why it had better be waited for after its start; None: it is as it was."""
        return None

    def _controllers_away(self) -> str | None:
        """What is the matter with the controllers, though this broker serves; None: nothing."""
        return None

    async def _abandon(self) -> None:
        """The start failed: leaves the folder as it was found."""
        self.data_folder.abandon()

    def _started(self, listen: Address, http: Address | None) -> Started:
        logs = self.data_folder.logs.values()
        recovered = self.data_folder.recovered
        return Started(
            listen=listen,
            http=http,
            data=Path(self.data_folder.path),
            cluster_id=self.data_folder.meta.cluster_id,
            broker_id=self.data_folder.meta.broker_id,
            topics=len(self._broker.topics),
            partitions=len(logs),
            messages=sum(log.last - log.first_available + 1 for log in logs if log.last),
            stored_bytes=sum(log.size_bytes for log in logs),
            cut_bytes=recovered.bytes_cut,
            clean=recovered.clean or self._is_new,
            problems=max(problem_count(self._broker), len(recovered.damaged)),
            seconds=time.monotonic() - self._began,
        )

    # --- running ---

    def _collector(self) -> "Collector | None":
        """None: it is starting."""
        from tank_node.monitoring.metrics_collector import MetricsCollector

        return None if self._starting else MetricsCollector(self._broker, self.metrics)

    def _post(self, call: Callable[[], None]) -> None:
        """Runs a call on the loop, from any thread."""
        self._loop.call_soon_threadsafe(call)

    def _watch_signals(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: signal.Signals) -> None:
        if self._stopping.is_set():
            stop_at_once(number)
        if number == signal.SIGINT and sys.stderr.isatty():
            sys.stderr.write("\n")  # the terminal has shown ^C on this line
        self._stopping.set()

    def _health(self) -> Health:
        """For /readyz: the metadata can be changed, and which partitions can't be used."""
        if self._starting:
            return Health(False, [self._starting])
        problems = partition_problems(self._broker)
        trouble = self._controller_problem()
        if trouble is not None:
            problems.append(trouble)
        if (behind := self._catching_up() if trouble is None else None) is not None:
            problems.append(behind)
        if (away := self._controllers_away()) is not None:
            problems.append(away)
        if full := self._broker.volume.problem:
            problems.append(full)
        if clock := self.clock.problem:
            problems.append(clock)
        if self._stopping.is_set():
            problems.append("it is stopping")
        facts: dict[str, str | int] = {
            "cluster_id": self.data_folder.meta.cluster_id,
            "broker_id": self.data_folder.meta.broker_id,
            "topics": len(self._broker.topics),
            "partitions": len(self.data_folder.logs),
        }
        ready = not self._stopping.is_set() and trouble is None and behind is None
        damaged = self.data_folder.recovered.damaged[:MAX_PROBLEMS]
        return Health(ready, problems, damaged, self.clock.ahead_ms, facts)


async def _first(addresses: Awaitable[list[tuple[str, int]]]) -> tuple[str, int]:
    return (await addresses)[0]


async def _listening(flag: str, wanted: Address, start: Callable[[], Awaitable[tuple[str, int]]]) -> Address:
    try:
        host, port = await start()
    except OSError as error:
        reason = error.strerror or str(error)
        raise ListenError(
            f"can't listen on {wanted} ({reason}): choose another address with {flag}"
        ) from error
    return Address(host, port)


def _raise_file_limit() -> int:
    """As many open files as the system lets us have, up to a bound; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_FILES if hard == resource.RLIM_INFINITY else min(WANTED_FILES, hard)
    if soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (OSError, ValueError):
            return soft
        return wanted
    return soft


def _log_files(limit: int) -> int:
    """What of the open files the logs may use: a third, because clients need the rest."""
    return max(16, min(MOST_LOG_FILES, limit // 3))
