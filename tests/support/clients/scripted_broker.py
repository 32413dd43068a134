"""A small broker for the client's tests: real sockets on loopback, everything in memory, and it does what
the script says.

It plays three kinds: OURS (the messages from 0x40 on, idempotent produce), CPP (version 400; what it does
is what the captures in tests/golden/tank show of the C++ broker, which itself is not needed) and OLD (a
broker of the old document: ids 1 to 3 only, anything else closes the connection, chunks are cut at the
fetch size).
`script` is asked before and after each request is carried out and can cut the connection, send another
error, or hold the answer back.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated import tank
from tank_protos.wire.framing import FrameReader, frame
from tests.support.clients.scripted_sharing import FEATURES as SHARING
from tests.support.clients.scripted_sharing import ScriptedSharing
from tests.support.controllers.scripted_metadata import Metadata
from tests.support.storage.scripted_log import Log

END = 2**64 - 1
OUR_FEATURES = (
    "init_producer", "idempotent_produce", "describe_topics", "commit_positions",
    "fetch_positions", "await_ends", "find_by_time",
)  # fmt: skip


class Kind(Enum):
    """Which broker it plays."""

    OURS = 1000
    CPP = 400
    OLD = 0


class Fate(Enum):
    """What becomes of a request."""

    SERVE = auto()
    CUT = auto()
    HOLD = auto()


@dataclass
class Moment:
    """What a script is told: the how-manieth request this is (from 0, over all connections), the request,
    and whether it was carried out already."""

    index: int
    request: Any
    carried_out: bool


Script = Callable[[Moment], Fate | int]
"""An int is an error byte: for a produce, sent instead of storing the bundle."""


def serve_all(moment: Moment) -> Fate | int:
    """The script of a broker that just works."""
    return Fate.SERVE


class ScriptedBroker:
    """`async with ScriptedBroker(kind, {"topic": partitions}) as broker: ... broker.address`."""

    def __init__(self, kind: Kind = Kind.OURS, topics: dict[str, int] | None = None) -> None:
        self.kind = kind
        self.topics = {name: [Log() for _ in range(count)] for name, count in (topics or {}).items()}
        self.script: Script = serve_all
        self.requests: list[Any] = []
        self.connections = 0
        self.fetched_bytes = 0
        """Of all chunks that were answered."""
        self.redirects: dict[tuple[str, int], int] = {}
        """(topic, partition) -> the port of the broker that leads it; 0: it has no address that fits."""
        self.metadata = Metadata()
        self.positions: dict[str, dict[tuple[str, int], tuple[int, str]]] = {}
        self.sharing: ScriptedSharing | None = None
        """Its groups whose partitions it assigns; None: it is of a version that does not."""
        self.next_producer = 100
        self.port = 0
        self._server: asyncio.Server | None = None
        self._changed = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> "ScriptedBroker":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listens; again on the same port after a `stop`."""
        self._server = await asyncio.start_server(self.serve, "127.0.0.1", self.port, limit=1 << 26)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Closes everything."""
        assert self._server is not None
        self._server.close()
        self.cut_all()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def cut_all(self) -> None:
        """Closes every connection, without a word."""
        for writer in list(self._writers):
            writer.transport.abort()

    def say(self, data: bytes) -> None:
        """Sends these bytes on every connection."""
        for writer in self._writers:
            writer.write(data)

    def append(self, topic: str, partition: int, batch: bytes) -> None:
        """Stores a batch as another producer would."""
        self.topics[topic][partition].append(batch)
        self.wake()

    def wake(self) -> None:
        """Whoever waits looks again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection, whichever server took it."""
        self.connections += 1
        self._writers.add(writer)
        frames = FrameReader()
        writer.writelines(frame(tank.Ping.ID, []))
        try:
            while data := await reader.read(1 << 16):
                for message_id, payload in frames.feed(data):
                    if not await self._receive(message_id, payload, writer):
                        writer.transport.abort()
                        return
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _receive(self, message_id: int, payload: memoryview, writer: asyncio.StreamWriter) -> bool:
        """False: close the connection."""
        handler = self._handlers().get(message_id)
        if handler is None:
            return False
        request_type, carry_out = handler
        request = request_type.decode(bytes(payload))
        index = len(self.requests)
        self.requests.append(request)
        fate = self.script(Moment(index, request, False))
        if fate is Fate.CUT:
            return False
        if fate is Fate.HOLD:
            return True
        task = asyncio.ensure_future(self._answer(index, request, carry_out, fate, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if message_id != tank.ConsumeRequest.ID and message_id != tank.AwaitEndsRequest.ID:
            with contextlib.suppress(ConnectionError):
                await task  # in order, but for the requests that wait
        return not writer.transport.is_closing()

    async def _answer(
        self, index: int, request: Any, carry_out: Any, fate: Fate | int, writer: asyncio.StreamWriter
    ) -> None:
        answer = carry_out(request, fate if not isinstance(fate, Fate) else 0)
        if asyncio.iscoroutine(answer):
            answer = await answer
        after = self.script(Moment(index, request, True))
        if after is Fate.CUT:
            writer.transport.abort()
        elif after is not Fate.HOLD and not writer.transport.is_closing():
            answer.request_id = request.request_id
            version = getattr(request, "version", 0)
            writer.writelines(frame(answer.ID, answer.encode(version)))

    def _handlers(self) -> dict[int, tuple[Any, Any]]:
        handlers: dict[int, tuple[Any, Any]] = {
            1: (tank.ProduceRequest, self._produce),
            2: (tank.ConsumeRequest, self._consume),
        }
        if self.kind is Kind.OLD:
            return handlers
        handlers |= {
            6: (tank.DiscoverPartitionsRequest, self._discover_partitions),
            7: (tank.CreateTopicRequest, self._create_topic),
            10: (tank.StatusRequest, lambda request, error: tank.StatusResponse(version=self.kind.value)),
            11: (tank.DiscoverTopicsRequest, self._discover_topics),
        }
        if self.kind is Kind.CPP:
            return handlers
        return (
            handlers
            | {
                64: (tank.FeaturesRequest, self._features),
                65: (tank.InitProducerRequest, self._init_producer),
                66: (tank.IdempotentProduceRequest, self._idempotent_produce),
                67: (tank.FindByTimeRequest, self._find_by_time),
                68: (tank.DescribeTopicsRequest, self._describe_topics),
                72: (tank.CommitPositionsRequest, self._commit),
                73: (tank.FetchPositionsRequest, self._positions),
                75: (tank.AwaitEndsRequest, self._await_ends),
            }
            | (self.sharing.handlers() if self.sharing is not None else {})
        )

    def _log(self, topic: str, partition: int) -> Log | None:
        logs = self.topics.get(topic)
        return logs[partition] if logs is not None and partition < len(logs) else None

    def _produce(self, request: Any, error: int) -> Any:
        results = []
        for topic in request.topics:
            if topic.name not in self.topics:
                results.append(tank.ProduceResult(error=0xFF))
                continue
            for entry in topic.partitions:
                log = self._log(topic.name, entry.partition)
                port = self.redirects.get((topic.name, entry.partition))
                if port is not None:
                    results.append(
                        tank.ProduceResult(error=0xFC, leader_ipv4=b"\x7f\0\0\x01", leader_port=port)
                    )
                elif log is None or error:
                    results.append(tank.ProduceResult(error=error or 1))
                else:
                    log.append(bytes(entry.bundle))
                    results.append(tank.ProduceResult())
        self.wake()
        return tank.ProduceResponse(results=results)

    def _idempotent_produce(self, request: Any, error: int) -> Any:
        topics = []
        for topic in request.topics:
            entries = []
            for entry in topic.partitions:
                result = tank.IdempotentPartitionResult(partition=entry.partition)
                log = self._log(topic.name, entry.partition)
                port = self.redirects.get((topic.name, entry.partition))
                if port is not None:
                    result.error, result.leader_host, result.leader_port = 0xFC, "127.0.0.1", port
                elif log is None:
                    result.error = ErrorCode.UNKNOWN_TOPIC if topic.name not in self.topics else 1
                elif error:
                    result.error = error
                elif not request.producer_id:
                    result.first, result.last = log.append(bytes(entry.bundle))
                else:
                    result.error, result.first, result.last = log.append_once(
                        bytes(entry.bundle), request.producer_id, request.producer_epoch, entry.sequence
                    )
                entries.append(result)
            topics.append(tank.IdempotentTopicResult(name=topic.name, partitions=entries))
        self.wake()
        return tank.IdempotentProduceResponse(topics=topics)

    async def _consume(self, request: Any, error: int) -> Any:
        if request.max_wait_ms and not any(self._has_news(topic) for topic in request.topics):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    while not any(self._has_news(topic) for topic in request.topics):
                        await self._changed.wait()
        topics, chunks = [], b""
        for topic in request.topics:
            answer = tank.FetchedTopic(name=topic.name, partition_count=len(topic.partitions))
            if topic.name not in self.topics:
                answer.unknown = True
            else:
                for entry in topic.partitions:
                    fetched, chunk = self._fetch(topic.name, entry, error)
                    answer.partitions.append(fetched)
                    chunks += chunk
            topics.append(answer)
        return tank.ConsumeResponse(topics=topics, chunks=chunks)

    def _has_news(self, topic: Any) -> bool:
        for entry in topic.partitions:
            log = self._log(topic.name, entry.partition)
            number = entry.sequence_number
            if log is None or (topic.name, entry.partition) in self.redirects:
                return True
            if number != END and (number <= log.committed or number > log.committed + 1) and log.batches:
                return True
        return False

    def _fetch(self, topic: str, entry: Any, error: int) -> tuple[Any, bytes]:
        log = self._log(topic, entry.partition)
        fetched = tank.FetchedPartition(partition=entry.partition)
        port = self.redirects.get((topic, entry.partition))
        if error or log is None or port is not None:
            fetched.flag = error or (
                ConsumeFlag.UNKNOWN_PARTITION if log is None else ConsumeFlag.OTHER_LEADER
            )
            if fetched.flag == ConsumeFlag.OTHER_LEADER:
                fetched.leader_ipv4, fetched.leader_port = b"\x7f\0\0\x01", port or 0
            return fetched, b""
        fetched.high_water_mark = log.committed
        number = entry.sequence_number
        if number and number != END and not log.first_available <= number <= log.last + 1:
            fetched.flag, fetched.first_available = ConsumeFlag.OUT_OF_BOUNDS, log.first_available
            return fetched, b""
        wanted = [batch for batch in log.batches if batch[1] >= number and batch[0] <= log.committed]
        if not wanted or number == END:
            fetched.base_sequence_number = log.first_available if log.batches else 0
            return fetched, b""
        chunk = b""
        for _, _, batch in wanted:
            if chunk and len(chunk) + len(batch) > entry.fetch_size:
                break
            chunk += batch
        if self.kind is Kind.OLD:
            chunk = b"".join(batch for _, _, batch in wanted)[: entry.fetch_size]
        fetched.base_sequence_number = wanted[0][0]
        fetched.chunk_length = len(chunk)
        self.fetched_bytes += len(chunk)
        return fetched, chunk

    def _discover_partitions(self, request: Any, error: int) -> Any:
        logs = self.topics.get(request.topic, [])
        return tank.DiscoverPartitionsResponse(
            topic=request.topic,
            partitions=[
                tank.DiscoveredPartition(log.first_available if log.batches else 0, log.committed)
                for log in (logs if not request.partitions else [logs[p] for p in request.partitions])
            ],
        )

    def _create_topic(self, request: Any, error: int) -> Any:
        exists = request.topic in self.topics
        if not exists and not error:
            self.topics[request.topic] = [Log() for _ in range(request.partitions)]
        return tank.CreateTopicResponse(topic=request.topic, error=error or int(exists))

    def _discover_topics(self, request: Any, error: int) -> Any:
        topics = [tank.DiscoveredTopic(name, 1, len(logs)) for name, logs in self.topics.items()]
        return tank.DiscoverTopicsResponse(topic_count=len(topics), topics=topics)

    def _features(self, request: Any, error: int) -> Any:
        newest = dict.fromkeys(OUR_FEATURES, 0) | (SHARING if self.sharing is not None else {})
        features = [tank.Feature(name, 0, version) for name, version in newest.items()]
        broker_id = self.metadata.broker_id
        return tank.FeaturesResponse(cluster_id="scripted", broker_id=broker_id, features=features)

    def _init_producer(self, request: Any, error: int) -> Any:
        self.next_producer += 1
        return tank.InitProducerResponse(error=error, producer_id=self.next_producer)

    def _describe_topics(self, request: Any, error: int) -> Any:
        return self.metadata.describe(request, {name: len(logs) for name, logs in self.topics.items()})

    def _find_by_time(self, request: Any, error: int) -> Any:
        found = []
        for asked in request.partitions:
            refusal = self._refusal((request.topic, asked.partition))
            found.append(tank.FoundTime(asked.partition, refusal, 1, asked.timestamp_ms))
        return tank.FindByTimeResponse(partitions=found)

    def _commit(self, request: Any, error: int) -> Any:
        group = self.positions.setdefault(request.group, {})
        for kept in request.positions:
            group[kept.topic, kept.partition] = (kept.sequence_number, kept.metadata)
        return tank.CommitPositionsResponse(results=[tank.CommitResult() for _ in request.positions])

    def _positions(self, request: Any, error: int) -> Any:
        if not self.topics.keys() >= set(request.topics):
            return tank.FetchPositionsResponse(error=ErrorCode.UNKNOWN_TOPIC)
        return tank.FetchPositionsResponse(
            positions=[
                tank.CommittedPosition(topic, partition, number, metadata)
                for (topic, partition), (number, metadata) in self.positions.get(request.group, {}).items()
                if not request.topics or topic in request.topics
            ]
        )

    def _refusal(self, route: tuple[str, int]) -> int:
        """What it says of a partition instead of its end or a time in it; 0: nothing."""
        if self._log(*route) is None:
            return ErrorCode.UNKNOWN_TOPIC
        return ErrorCode.OTHER_LEADER if route in self.redirects else self.metadata.refusal(route)

    async def _await_ends(self, request: Any, error: int) -> Any:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(request.max_wait_ms / 1000):
                while not any(self._is_further(entry) for entry in request.partitions):
                    await self._changed.wait()
        ends = []
        for entry in request.partitions:
            log = self._log(entry.topic, entry.partition)
            refusal = self._refusal((entry.topic, entry.partition))
            if log is None or refusal:
                ends.append(tank.ReachedEnd(refusal))
            else:
                ends.append(tank.ReachedEnd(0, log.first_available if log.batches else 0, log.committed))
        return tank.AwaitEndsResponse(partitions=ends)

    def _is_further(self, known: Any) -> bool:
        log = self._log(known.topic, known.partition)
        unknown = log is None or (known.topic, known.partition) in self.redirects
        return unknown or known.high_water_mark in (END, *range(log.committed if log else 0))
