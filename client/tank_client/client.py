"""The asynchronous client: one object per program, shared by its producers and consumers."""

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from tank_client.admin import Admin
from tank_client.consumer import Consumer
from tank_client.consuming.reading_plan import OnPartitions, PartitionListener, ReadingPlan, as_topics
from tank_client.errors import InvalidArgument
from tank_client.model import Address, Features, FetchedChunk, Stored, parse_servers
from tank_client.producer import Producer
from tank_client.producing.partition_queue import Delivery
from tank_client.producing.sender import Sender
from tank_client.routing.calls import Calls
from tank_client.routing.pool import Pool
from tank_client.routing.routes import Routes, check_topic
from tank_client.settings import ClientSettings, ConsumerSettings, ProducerSettings, Start, StartAt
from tank_client.wire.data_operations import MAX_FETCH_BYTES, BundleToStore, Want, fetch, produce
from tank_protos.bundle import as_batch
from tank_protos.wire.buffer import Buffer


class Client:
    """A client of a Tank Cluster broker or cluster, of the C++ broker, or of a broker of the old TANK
    document.

    An async context manager, for one event loop. `servers`: `HOST:PORT,HOST:PORT,…`; one of them must answer.
    `random`: numbers from 0 up to 1, for waits, the first server and messages without a key.
    """

    def __init__(
        self,
        servers: str | Sequence[str] = "127.0.0.1:11011",
        settings: ClientSettings | None = None,
        *,
        random: Callable[[], float] = random.random,
    ) -> None:
        self.settings = settings or ClientSettings()
        self.servers: list[Address] = parse_servers(servers if isinstance(servers, str) else list(servers))
        routes = Routes(self.servers, int(random() * len(self.servers)))
        self._calls = Calls(Pool(routes, self.settings), random)
        self.admin = Admin(self._calls)
        self._children: set[Sender | Consumer] = set()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            await self.abort("the client's block ended with an exception")

    async def close(self) -> None:
        """Flushes and closes the client's producers, within their delivery timeouts, then closes consumers,
        which leave their groups and commit nothing, and connections. Raises the first failure of a message
        whose delivery the program has not looked at.
        """
        try:
            senders = [child for child in self._children if isinstance(child, Sender)]
            closed = await asyncio.gather(*(sender.close() for sender in senders), return_exceptions=True)
        finally:
            await self.abort("the client was closed while its producers were flushed")
        for error in closed:
            if isinstance(error, BaseException):
                raise error

    async def abort(self, why: str = "the client was aborted") -> None:
        """Closes everything at once. Messages that producers hold are dropped with a warning, which ends with
        `why`. Consumers leave their groups and commit nothing."""
        children = list(self._children)
        for child in children:
            if isinstance(child, Sender):
                child.give_up(why)
        consumers = [child for child in children if isinstance(child, Consumer)]
        await asyncio.gather(*(consumer._leave() for consumer in consumers), return_exceptions=True)
        self._calls.leaders.end()
        await self._calls.pool.close()

    def producer(self, settings: ProducerSettings | None = None) -> Producer:
        """Returns a producer that uses this client's connections."""
        return Producer(self._sender, settings or ProducerSettings())

    def _sender(
        self,
        settings: ProducerSettings,
        *,
        new_delivery: Callable[[], Delivery],
        lock: AbstractContextManager[object],
        on_room: Callable[[], None],
    ) -> Sender:
        """For `Producer` and `sync.Producer`: makes a producer's engine, which is closed with the client."""
        sender = Sender(
            self._calls,
            settings,
            new_delivery=new_delivery,
            lock=lock,
            on_room=on_room,
            on_close=self._children.discard,
        )
        self._children.add(sender)
        return sender

    def consumer(
        self,
        topics: str | Iterable[str] | Mapping[str, Iterable[int]],
        *,
        start: Start = StartAt.FIRST,
        group: str | None = None,
        stop_at_end: bool = False,
        settings: ConsumerSettings | None = None,
        instance_id: str = "",
        on_assigned: OnPartitions | None = None,
        on_revoked: OnPartitions | None = None,
        on_lost: OnPartitions | None = None,
    ) -> Consumer:
        """Returns a consumer of whole topics, or of {topic: partitions}.

        `start`: where to begin; 'committed': at the positions of `group` (a partition without one begins
        where `out_of_bounds` says). `stop_at_end`: the iteration ends at the high-water marks that the
        partitions had when it began.

        `group` with whole topics: the consumer is a member of the group, whose members share the partitions.
        It begins at the group's positions, and at `start` where there is none. Partitions and topics that are
        added come to a member by themselves. With `stop_at_end` it ends once it has read all that it was
        given; the partitions have the ends of the moment when it got them.

        `instance_id`: a name that no other member has. A member that ends and comes back under it within its
        session gets the same partitions, and the others keep theirs. `on_assigned`, `on_revoked`, `on_lost`:
        called between two reads with the partitions that come, are about to go, and are gone without a commit
        (without `on_lost` that is `on_revoked`, too); called again when they raise. Coroutine functions are
        awaited.

        `group` with {topic: partitions}: the group is only a name for positions, which `commit()` stores
        while it has no members.
        """
        plan = ReadingPlan(
            as_topics(topics),
            start,
            group,
            stop_at_end,
            settings or ConsumerSettings(),
            instance_id,
            PartitionListener(on_assigned, on_revoked, on_lost),
        )
        consumer = Consumer(self._calls, self.admin, plan, self._children.discard)
        self._children.add(consumer)
        return consumer

    async def fetch(
        self,
        topic: str,
        partition: int,
        number: int,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        *,
        takes_records: bool = False,
    ) -> FetchedChunk:
        """Returns raw bundles of one partition from `number` on (FIRST, END or a number), about `max_bytes`
        of them. The chunk is empty when no message came within `max_wait_ms`. `takes_records`: of a topic of
        Kafka's format, returns the record batches as they are stored, if the broker sends them; without it
        they come as bundles, which lack headers and nulls. Raises OutOfBounds, UnknownTopic,
        UnknownPartition."""
        check_topic(topic)
        if not 0 < max_bytes <= MAX_FETCH_BYTES:
            raise InvalidArgument(f"max_bytes must be 1 to {MAX_FETCH_BYTES}")
        want = Want(topic, partition, number, max_bytes)
        chunk = await self._calls.call(
            fetch(want, max_wait_ms, self.settings.client_id, takes_records=takes_records)
        )
        self._calls.leaders.delivered((topic, partition))
        if not chunk.chunk:
            self._calls.leaders.doubt((topic, partition))
        return chunk

    async def leader(self, topic: str, partition: int) -> tuple[Address, Features]:
        """Returns the address and the features of the partition's leader, as far as the client knows it, for
        a program that opens its own connection. After a fetch it is the broker that answered. The address is
        numeric, so it needs no name service. Raises ConnectionLost when the broker is unreachable.
        """
        transport = await self._calls.pool.get((topic, partition))
        return transport.reached, transport.server

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
        holds_records: bool = False,
    ) -> Stored:
        """Appends one bundle (see `tank_protos.bundle.encoding`; without length prefix), or with
        `holds_records` one record batch to a topic of Kafka's format (see
        `tank_protos.kafka.produced_batch`).

        With a producer id, the bundle is sent until it is stored, and stored once. Without one, it is not
        sent again when its outcome is unknown: raises OutcomeUnknown. The returned numbers are 0 when the
        broker does not give them.
        """
        check_topic(topic)
        bundle_to_store = BundleToStore(
            topic,
            partition,
            bundle if holds_records else as_batch(bundle),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            max_timestamp_ms=max_timestamp_ms,
            required_acks=required_acks,
            ack_timeout_ms=ack_timeout_ms,
            holds_records=holds_records,
        )
        return await self._calls.call(produce(bundle_to_store, self.settings.client_id))
