"""The synchronous client and consumer."""

import atexit
import random
import time
import weakref
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final

from tank_client import client as asynchronous
from tank_client import errors
from tank_client.consumer import Consumer as AsyncConsumer
from tank_client.consumer import Part
from tank_client.consuming.batch import MessageBatch
from tank_client.consuming.held_partitions import PartitionChange
from tank_client.consuming.reading_plan import OnPartitions
from tank_client.model import Address, ConsumedMessage, Features, FetchedChunk, Route, Stored
from tank_client.producing.unstored import log
from tank_client.settings import ClientSettings, ConsumerSettings, ProducerSettings, Start, StartAt
from tank_client.sync.admin import Admin
from tank_client.sync.loop_thread import LoopThread
from tank_client.sync.producer import Producer
from tank_protos.wire.buffer import Buffer

_open: Final["weakref.WeakSet[Client]"] = weakref.WeakSet()
"""Clients that this process has made, and that may be open."""


def _flush_at_exit(client: "Client") -> None:
    """Closes the client when the interpreter exits: a script that never closed it keeps its messages.

    Called after the finalizer is made, so that the function registered here runs before finalizers, which end
    the thread. Daemon threads still run at that time.
    """
    if not _open:
        atexit.unregister(_close_all)
        atexit.register(_close_all)
    _open.add(client)


def _close_all() -> None:
    for client in list(_open):
        try:
            client.close()
        except errors.TankError as error:
            log.warning("the client was closed at the program's end: %s", error)


class Client:
    """A client of a TANK broker or cluster; see `tank_client.Client`. A context manager."""

    def __init__(
        self,
        servers: str | Sequence[str] = "127.0.0.1:11011",
        settings: ClientSettings | None = None,
        *,
        random: Callable[[], float] = random.random,
    ) -> None:
        # Made here, so that wrong arguments raise before the thread is started; used only in the loop's
        # thread.
        self._client = asynchronous.Client(servers, settings, random=random)
        self._thread = LoopThread()
        self.admin = Admin(self._client.admin, self._thread)
        self._finalizer = weakref.finalize(self, self._thread.stop)
        _flush_at_exit(self)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._end(partial(self._client.abort, "the client's block ended with an exception"))

    @property
    def settings(self) -> ClientSettings:
        """The client's bounds."""
        return self._client.settings

    @property
    def servers(self) -> list[Address]:
        """The servers that were named."""
        return self._client.servers

    def close(self) -> None:
        """Flushes and closes the client's producers, within their delivery timeouts, closes consumers and
        connections, and ends the thread. At the end of a program, an open client is closed in the same way.
        In a forked child this does nothing.
        """
        self._end(self._client.close)

    def _end(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if not self._thread.alive:
            return
        try:
            self._thread.run(work)
        finally:
            self._finalizer()

    def producer(self, settings: ProducerSettings | None = None) -> Producer:
        """Returns a producer that uses this client's connections."""
        return Producer(self, self._client, self._thread, settings or ProducerSettings())

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
    ) -> "Consumer":
        """Returns a consumer of whole topics, or of {topic: partitions}; see `tank_client.Client.consumer`.
        The callbacks are called in the thread that reads."""

        async def make() -> AsyncConsumer:
            return self._client.consumer(
                topics,
                start=start,
                group=group,
                stop_at_end=stop_at_end,
                settings=settings,
                instance_id=instance_id,
                on_assigned=on_assigned,
                on_revoked=on_revoked,
                on_lost=on_lost,
            )

        return Consumer(self, self._thread.run(make), self._thread)

    def fetch(
        self,
        topic: str,
        partition: int,
        number: int,
        max_bytes: int = 1 << 20,
        max_wait_ms: int = 0,
        *,
        takes_records: bool = False,
    ) -> FetchedChunk:
        """Returns raw bundles of one partition, or record batches; see `tank_client.Client.fetch`."""
        return self._thread.run(
            self._client.fetch,
            topic,
            partition,
            number,
            max_bytes,
            max_wait_ms,
            takes_records=takes_records,
        )

    def leader(self, topic: str, partition: int) -> tuple[Address, Features]:
        """Returns the address and the features of the broker that leads the partition; see
        `tank_client.Client.leader`."""
        return self._thread.run(self._client.leader, topic, partition)

    def produce_bundle(
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
        """Appends one bundle; see `tank_client.Client.produce_bundle`."""
        return self._thread.run(
            self._client.produce_bundle,
            topic,
            partition,
            bundle,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            sequence=sequence,
            max_timestamp_ms=max_timestamp_ms,
            required_acks=required_acks,
            ack_timeout_ms=ack_timeout_ms,
            holds_records=holds_records,
        )


class Consumer:
    """Reads partitions, each in order; see `tank_client.Consumer`. `for batch in consumer`, or
    `for message in consumer.messages()`."""

    def __init__(self, owner: object, consumer: AsyncConsumer, thread: LoopThread) -> None:
        self._owner = owner
        """A reference to the client, which would be collected as garbage while only its consumer is used."""
        self._consumer = consumer
        self._thread = thread

    def __enter__(self) -> "Consumer":
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._thread.alive:
            self._thread.run(self._consumer._leave)

    def start(self) -> None:
        """Finds the partitions and their starting numbers, or joins the group; otherwise the first read does
        so."""
        self._thread.run(self._consumer.start)

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> MessageBatch:
        # StopAsyncIteration cannot pass through a future; None stands for the end.
        batch = self._take(None)
        if batch is None:
            raise StopIteration
        return batch

    def poll(self, max_wait_ms: int = 0) -> MessageBatch | None:
        """Returns the next batch; None when none came within `max_wait_ms`, or all was read up to the end."""
        return self._take(max_wait_ms)

    def _take(self, max_wait_ms: int | None) -> MessageBatch | None:
        part = self._next(max_wait_ms)
        if part is None:
            return None
        # Here, in the caller's thread: when the caller was interrupted (Ctrl-C), the batch must not count as
        # read.
        self._consumer._handed_out(part)
        return part[1]

    def _next(self, max_wait_ms: int | None) -> Part | None:
        """The next part, after the program has heard of all changes."""
        begun = time.monotonic()
        while True:
            spent_ms = int((time.monotonic() - begun) * 1000)
            left_ms = None if max_wait_ms is None else max(max_wait_ms - spent_ms, 0)
            found = self._thread.run(self._consumer._next_part, left_ms)
            if not isinstance(found, PartitionChange):
                return found
            self._tell(found)

    def _tell(self, change: PartitionChange) -> None:
        callback = self._consumer.listener.of(change.kind)
        if callback is not None:
            callback(list(change.partitions))  # in the caller's thread, where it may use the client
        self._thread.run(self._consumer._carry_out, change)

    def messages(self) -> Iterator[ConsumedMessage]:
        """Yields single messages; see `tank_client.Consumer.messages`."""
        while True:
            found = self._next(None)
            if found is None:
                return
            yield from self._consumer._hand_out(found)

    @property
    def at_end(self) -> bool:
        """With `stop_at_end`: whether all messages were handed out."""
        return self._consumer.at_end

    @property
    def assignment(self) -> list[Route]:
        """The partitions that are read, once the consumer has started; as a member of a group, those that it
        has now."""
        return self._consumer.assignment

    def lag(self) -> dict[Route, int | None]:
        """Returns how many messages each partition has that were not handed out yet; see
        `tank_client.Consumer.lag`."""
        return self._consumer.lag()

    def position(self, topic: str, partition: int) -> int:
        """Returns the next number that will be handed out; 0: the first available."""
        return self._consumer.position(topic, partition)

    def positions(self) -> dict[Route, int]:
        """Returns all positions, by (topic, partition)."""
        return self._consumer.positions()

    def seek(self, topic: str, partition: int, number: int) -> None:
        """Continues at `number` (FIRST, END or a number) in that partition."""
        self._thread.run(self._consumer.seek, topic, partition, number)

    def commit(self) -> None:
        """Stores the positions behind all messages handed out so far, for the group. They are durable when
        the call returns. Raises PartitionsLost when the group gave partitions of this member to others.
        """
        self._thread.run(self._consumer.commit)

    def close(self) -> None:
        """Ends the fetches. A member of a group commits and leaves; see `tank_client.Consumer.close`."""
        if not self._thread.alive:
            return
        try:
            while (change := self._thread.run(self._consumer._give_up)) is not None:
                self._tell(change)
        finally:
            self._thread.run(self._consumer._leave)
