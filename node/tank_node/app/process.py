"""A broker's process: builds all rooms, runs until SIGTERM or SIGINT, and stops in order.

Subclasses add the controller: `tank serve` runs one in the same process, `tank-node` reaches it over the
network.
"""

import asyncio
import gc
import os
import resource
import signal
import socket
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from logging import getLogger
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from tank_node.api.routes import BrokerApi
from tank_node.app.config import MINUTE_MS, ListenAddress, NodeConfig
from tank_node.app.ports import Port, Ports, listen_error
from tank_node.app.stop import bounded_stop, stop_at_once
from tank_node.broker.broker import Broker
from tank_node.broker.problems import MAX_PROBLEMS, partition_problems, problem_count
from tank_node.clock import SteadyClock, SystemClock
from tank_node.cluster.link import ControllerLink
from tank_node.cluster.registration import Registration
from tank_node.cluster.view import KAFKA, KAFKA_OUTSIDE, OUTSIDE
from tank_node.coordinators.groups_at_start import GroupsAtStart
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.disk import OsDisk
from tank_node.kafka.settings import KafkaSettings
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.monitoring.health import Health
from tank_node.monitoring.http import HttpServer
from tank_node.server.connections import Connections
from tank_node.server.listener import Listener
from tank_node.server.server import Server
from tank_node.session import Session
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.tank.dispatch import open_session
from tank_protos.generated import control_pb2 as pb
from tank_protos.http_api.access import Access
from tank_protos.http_api.token import TOKEN_VARIABLE, Token
from tank_protos.topic_settings import FlushPolicy

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from tank_node.app.iggy_serving import IggyServing

DEFAULT_BROKER_ID = 1
WANTED_FILES = 65_536
"""The soft limit of open files that the process sets, if the hard limit allows it."""
MOST_LOG_FILES = 2048
"""The most files of logs that stay open: each partition in use has two; others are opened and closed as
needed."""
OTHER_FILES = 128
"""Descriptors kept free of logs and clients: for the controller, folders, libraries, scrapes."""

_log = getLogger("tank")


@dataclass(slots=True, frozen=True)
class Started:
    """The facts that a node announces when it has started."""

    listen: ListenAddress
    kafka: ListenAddress | None
    iggy: ListenAddress | None
    http: ListenAddress | None
    data: Path
    cluster_id: str
    broker_id: int
    topics: int
    partitions: int
    messages: int
    stored_bytes: int
    cut_bytes: int
    """Bytes at the ends of logs that a crash left unfinished, and that were never acknowledged."""
    clean: bool
    """Whether the process before this one stopped in order, or there was none."""
    problems: int
    """Number of partitions with a problem, or mended at the start."""
    seconds: float


class NodeProcess(ABC):
    """The process of a node: `run` starts it, serves, and stops it."""

    auto_creates = False
    """Whether topics that Kafka clients name are created, where no option says so."""
    group_initial_delay_ms = GroupSettings().initial_delay_ms
    """How long a new group waits for more members, where no option says so."""
    data_folder: DataFolder
    """The data folder, which `run` opens."""

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
        self._starting = "the broker is starting"
        """What the broker is doing before it serves, for /readyz; empty once it serves."""

    async def run(self, announce: Callable[[Started], None]) -> None:
        """Starts, calls `announce`, serves, and stops in order at SIGTERM or SIGINT.

        Raises when it can't start: ListenError, DataFolderError, StorageError, and the errors of
        `_open_controller`.
        """
        self._loop = asyncio.get_running_loop()
        self._watch_signals()
        http = HttpServer(self._collector, self._health, self._api())
        try:
            await self._run(http, announce)
        finally:
            await http.stop()

    async def _run(self, http: HttpServer, announce: Callable[[Started], None]) -> None:
        config = self.config
        http_address = None
        if self._is_new:  # nothing to recover: /readyz answers while the process waits for a cluster
            http_address = await self._listen_http(http)
        self.data_folder = self._open_data_folder(await self._find_cluster() if self._is_new else "")
        try:
            if self._recover():
                http_address = http_address or await self._listen_http(http)
            self._ports = await Ports.bind(config, self._loop)
        except BaseException:
            await self._abandon()
            raise
        try:
            await self._run_bound(http, http_address, announce)
        finally:
            self._ports.close()

    async def _run_bound(
        self, http: HttpServer, http_address: ListenAddress | None, announce: Callable[[Started], None]
    ) -> None:
        """Runs with the ports bound, but for that of HTTP perhaps."""
        config = self.config
        try:
            link = await self._open_controller()
        except BaseException:
            await self._abandon()
            raise
        flusher = Flusher(self.data_folder.disk, self._post)
        broker = Broker(self.data_folder, link, flusher, self.clock, self.limits, self.metrics, config.flush)
        broker.groups = self._group_settings()
        self._broker = broker
        iggy = self._serve_iggy(broker, http)
        server = Server(broker, self._loop, self._listeners(broker, iggy), self.limits, self.metrics)
        self._replicate(broker, server.connections)
        broker.open()
        GroupsAtStart(broker, lambda: _coordinate(broker))
        # An exception before this line leaves the folder as a crash does: a close would call its logs clean.
        try:
            http_address = http_address or await self._listen_http(http)
            await self._serve(server, http_address, announce)
        finally:
            with bounded_stop():
                if iggy is not None:
                    iggy.close()
                await self._stop_controller()  # before the folder's lock goes with its logs
                broker.close()

    def _listeners(self, broker: Broker, iggy: "IggyServing | None") -> list[Listener]:
        """The listeners of the ports, each with its protocol."""
        ports = self._ports
        open_kafka = partial(_open_kafka_session, broker, self._kafka_settings())
        wanted: tuple[tuple[Port | None, Callable[[], Session] | None], ...] = (
            (ports.tank, partial(open_session, broker)),
            (ports.outside, partial(open_session, broker, is_outside=True)),
            (ports.kafka, open_kafka),
            (ports.kafka_outside, partial(open_kafka, is_outside=True)),
            (ports.iggy, None if iggy is None else iggy.open_session),
        )
        return [port.listener(opener) for port, opener in wanted if port is not None and opener is not None]

    def _group_settings(self) -> GroupSettings:
        config, delay_ms = self.config, self.config.group_initial_delay_ms
        return GroupSettings(
            min_session_ms=config.group_min_session_ms,
            max_session_ms=config.group_max_session_ms,
            initial_delay_ms=self.group_initial_delay_ms if delay_ms is None else delay_ms,
            offsets_retention_ms=config.offsets_retention_minutes * MINUTE_MS,
            consumer_session_ms=config.group_consumer_session_ms,
            consumer_heartbeat_ms=config.group_consumer_heartbeat_ms,
            consumer_migration=config.group_consumer_migration,
            lag_series=config.group_lag_series,
        )

    def _kafka_settings(self) -> KafkaSettings:
        config = self.config
        auto_create = config.kafka_auto_create
        return KafkaSettings(
            self.auto_creates if auto_create is None else auto_create,
            config.kafka_default_partitions,
            config.kafka_client_metrics,
        )

    def _serve_iggy(self, broker: Broker, http: HttpServer) -> "IggyServing | None":
        """Makes what serves Iggy's clients, and imports it: a broker without does without. Raises
        ListenError."""
        port = self._ports.iggy
        if port is None:
            return None
        from tank_node.app.iggy_serving import IggyServing

        return IggyServing(self.config, port, broker, self._loop, http.metrics_text)

    async def _serve(
        self, server: Server, http: ListenAddress | None, announce: Callable[[Started], None]
    ) -> None:
        config = self.config
        self._ports.listen()
        await server.start()
        try:
            await self._ready()
            self._starting = ""
            _spare_what_is_there()
            announce(self._started(http))
            await self._stopping.wait()
            await self._let_go()
            _log.info("stopping: no new requests, those under way have %d ms", config.stop_grace_ms)
        finally:
            await server.stop(config.stop_grace_ms / 1000)

    async def _listen_http(self, http: HttpServer) -> ListenAddress | None:
        """Opens the HTTP port. It opens before the registration, which may take long, so that probes find the
        process alive; but after recovery, which blocks the event loop, and for which a startup probe
        waits."""
        wanted = self.config.http
        if wanted is None:
            return None
        try:
            return ListenAddress(*await http.start(wanted.host, wanted.port))
        except OSError as error:
            raise listen_error("--http", wanted, error) from error

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

    def _advertised(self) -> ListenAddress:
        """The address at which clients and brokers reach this node."""
        return self.config.advertise or _reached(self.config.listen.host, self._ports.tank)

    def _endpoints(self) -> list[pb.Endpoint]:
        """The node's other addresses, which it registers."""
        config, ports = self.config, self._ports
        found = {OUTSIDE: config.outside_advertise}
        if config.kafka is not None and ports.kafka is not None:
            host = config.advertise.host if config.advertise else config.kafka.host
            found[KAFKA] = config.kafka_advertise or _reached(host, ports.kafka)
            found[KAFKA_OUTSIDE] = config.kafka_outside_advertise
        return [pb.Endpoint(name=name, host=it.host, port=it.port) for name, it in found.items() if it]

    def _registration(self) -> Registration:
        """What this process says of itself when it registers. A subclass adds the claims of the data
        folder."""
        advertised = self._advertised()
        return Registration(
            incarnation=self._incarnation,
            disk_uuid=UUID(self.data_folder.meta.disk_uuid).bytes,
            tail_sure=False,
            host=advertised.host,
            port=advertised.port,
            rack=self.config.rack,
            flush_replicated=self.config.flush is FlushPolicy.REPLICATED,
            endpoints=self._endpoints(),
        )

    async def _find_cluster(self) -> str:
        """The id of the cluster that a new data folder belongs to; empty: a cluster of its own."""
        return ""

    @abstractmethod
    def _recover(self) -> bool:
        """Recovers the logs before the registration, which names the damaged ones. Returns False when they
        are recovered later, by `Broker.open`."""

    @abstractmethod
    async def _open_controller(self) -> ControllerLink:
        """Connects to the controllers and registers this process. Returns the link, with a current view."""

    @abstractmethod
    def _replicate(self, broker: Broker, connections: Connections) -> None:
        """Gives the broker its replication and forwarding to other brokers, before `Broker.open`."""

    @abstractmethod
    async def _ready(self) -> None:
        """Called when the server listens: from now on clients are served."""

    @abstractmethod
    async def _let_go(self) -> None:
        """Called before an orderly stop: waits until other brokers have taken over."""

    @abstractmethod
    async def _stop_controller(self) -> None:
        """Ends the connection to the controllers."""

    @abstractmethod
    def _controller_problem(self) -> str | None:
        """A problem with the controllers that makes the broker unready; None when there is none."""

    def _catching_up(self) -> str | None:
        """Why the broker is not ready yet after its start; None when it is."""
        return None

    def _controllers_away(self) -> str | None:
        """A problem with the controllers that leaves the broker ready; None when there is none."""
        return None

    async def _abandon(self) -> None:
        """Gives back the data folder unchanged, when the start failed."""
        self.data_folder.abandon()

    def _started(self, http: ListenAddress | None) -> Started:
        logs = self.data_folder.logs.values()
        recovered = self.data_folder.recovered
        return Started(
            listen=self._ports.tank.address,
            kafka=self._ports.kafka.address if self._ports.kafka else None,
            iggy=self._ports.iggy.address if self._ports.iggy else None,
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
        """Makes the collector of the broker's metrics; None while the broker is starting."""
        from tank_node.monitoring.metrics_collector import MetricsCollector

        return None if self._starting else MetricsCollector(self._broker, self.metrics)

    def _api(self) -> BrokerApi:
        """The HTTP API, which refuses everything while the broker is starting."""
        token = Token(self.config.api_token_file, os.environ.get(TOKEN_VARIABLE, ""))
        return BrokerApi(
            lambda: None if self._starting else self._broker, open_session, Access(token, "broker")
        )

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
        """The node's health for /readyz and /metrics."""
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
            problems.append("the broker is stopping")
        facts: dict[str, str | int] = {
            "cluster_id": self.data_folder.meta.cluster_id,
            "broker_id": self.data_folder.meta.broker_id,
            "topics": len(self._broker.topics),
            "partitions": len(self.data_folder.logs),
        }
        ready = not self._stopping.is_set() and trouble is None and behind is None
        damaged = self.data_folder.recovered.damaged[:MAX_PROBLEMS]
        return Health(ready, problems, damaged, self.clock.ahead_ms, facts)


def _open_kafka_session(broker: Broker, settings: KafkaSettings, *, is_outside: bool = False) -> Session:
    """Makes the session of a Kafka client. The first one imports the protocol's session, the first request of
    each kind its handler and messages: 3 MB for a producer and a consumer, 5 MB for all."""
    from tank_node.kafka.dispatch import open_session as open_kafka

    return open_kafka(broker, settings=settings, is_outside=is_outside)


def _coordinate(broker: Broker) -> None:
    """Makes what coordinates groups: it reads those that this broker leads, and takes positions over."""
    from tank_node.peers.group_router import router_of

    router_of(broker)


def _spare_what_is_there() -> None:
    """Lets the garbage collector pass over what the process has by now, which is there to stay. A full
    collection would look at all of it, and stop the broker for 50 ms, on a busy machine for much longer."""
    gc.collect()
    gc.freeze()


def _reached(host: str, port: Port) -> ListenAddress:
    """The address at which others reach a port that listens on this host. One that listens on all addresses
    is reached by the machine's name."""
    return ListenAddress(socket.gethostname() if host in ("0.0.0.0", "::") else host, port.address.port)


def _raise_file_limit() -> int:
    """Raises the soft limit of open files up to WANTED_FILES. Returns the limit in force."""
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
    """The number of open files for logs: a third of the limit, because clients need the rest."""
    return max(16, min(MOST_LOG_FILES, limit // 3))
