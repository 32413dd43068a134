"""The asynchronous client: one object per program, shared by its producers and consumers."""

from collections.abc import Iterable, Mapping
from types import TracebackType

from tank_client.admin import Admin
from tank_client.consumer import Consumer
from tank_client.model import Address, FetchedChunk, Stored
from tank_client.producer import Producer
from tank_client.settings import ClientSettings, ConsumerSettings, ProducerSettings, Start, StartAt
from tank_protos.wire import Buffer


class Client:
    """A client of a TANK broker or cluster. Used as an async context manager, inside one event loop."""

    admin: Admin

    def __init__(
        self, servers: str | list[str] | list[Address] = "127.0.0.1:11011", settings: ClientSettings | None = None
    ) -> None: ...

    async def __aenter__(self) -> "Client":
        raise NotImplementedError

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def close(self) -> None: ...

    def producer(self, settings: ProducerSettings | None = None) -> Producer:
        raise NotImplementedError

    def consumer(
        self,
        topics: str | Iterable[str] | Mapping[str, Iterable[int]],
        *,
        start: Start = StartAt.FIRST,
        group: str | None = None,
        stop_at_end: bool = False,
        settings: ConsumerSettings | None = None,
    ) -> Consumer:
        raise NotImplementedError

    async def fetch(
        self, topic: str, partition: int, number: int, max_bytes: int = 1 << 20, max_wait_ms: int = 0
    ) -> FetchedChunk:
        """Raw bundles of one partition from `number` on (FIRST, END or a number). OutOfBounds, UnknownTopic, ..."""
        raise NotImplementedError

    async def produce_bundle(
        self,
        topic: str,
        partition: int,
        bundle: Buffer,
        *,
        producer_id: int = 0,
        producer_epoch: int = 0,
        sequence: int = 0,
        max_timestamp_ms: int = 0,
        required_acks: int = 0,
        ack_timeout_ms: int = 0,
    ) -> Stored:
        """Appends one bundle (without its length prefix); with a producer id it is stored once however often it is sent."""
        raise NotImplementedError
