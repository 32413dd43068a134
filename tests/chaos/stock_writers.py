"""Idempotent producers of Kafka's protocol that others wrote: librdkafka's and aiokafka's."""

import asyncio
import random
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from tests.chaos.client_thread import ClientThread
from tests.chaos.record import Fate, Place, Recorder
from tests.chaos.values import content, named

if TYPE_CHECKING:
    from aiokafka.structs import RecordMetadata
    from confluent_kafka import KafkaError, Message

SETTLE_S: Final = 150.0
"""Longer than a delivery may take."""
REQUEST_TIMEOUT_MS: Final = 60_000
"""aiokafka gives a batch up that finds no leader for so long. A fault is over before."""
MOST_AT_ONCE: Final = 5


class StockWriter(ClientThread):
    """What both have in common: what they write, and how often."""

    def __init__(
        self, name: str, place: Place, servers: str, recorder: Recorder, rate: float, seed: int
    ) -> None:
        """`rate`: how often a second."""
        super().__init__(name, place, recorder)
        self._servers = servers
        self._pause_s = 1 / rate
        self._chance = random.Random(f"{seed}-{name}")
        self._order = 0

    def _values(self) -> list[str]:
        """The next ones, which are on record as sent."""
        count = self._chance.randint(1, MOST_AT_ONCE)
        values = [named(self.name, self.place, self._order + i) for i in range(count)]
        self.recorder.sent(self.name, self.place, self._order, True, values)
        self._order += count
        return values

    def _stored(self, value: str, offset: int) -> None:
        """TANK counts messages from 1 on, and Kafka from 0 on."""
        self.recorder.told(Fate.STORED, [value], offset + 1)
        self.count += 1


class LibrdkafkaWriter(StockWriter):
    """librdkafka, by confluent-kafka."""

    def work(self) -> None:
        from confluent_kafka import Producer

        topic, partition = self.place
        errors: list[str] = []
        producer = Producer(
            {
                "bootstrap.servers": self._servers,
                "client.id": self.name,
                "enable.idempotence": True,
                "message.timeout.ms": int(SETTLE_S * 1000),
                "log_level": 0,
            }
        )
        while not self.stopping.wait(self._pause_s) and not errors:
            for value in self._values():
                told = partial(self._told, errors, value)
                producer.produce(topic, content(value), partition=partition, on_delivery=told)
            producer.poll(0)
        left = producer.flush(SETTLE_S)
        assert not errors, errors[:3]
        assert not left, f"{left} values were not told of"

    def _told(self, errors: list[str], value: str, error: "KafkaError | None", message: "Message") -> None:
        if error is None:
            self._stored(value, message.offset())
        else:
            self.recorder.told(Fate.UNKNOWN, [value])
            errors.append(f"{value}: {error}")


class AiokafkaWriter(StockWriter):
    """aiokafka, in an event loop of its own."""

    def work(self) -> None:
        asyncio.run(self._write())

    async def _write(self) -> None:
        from aiokafka import AIOKafkaProducer

        topic, partition = self.place
        producer = AIOKafkaProducer(
            bootstrap_servers=self._servers,
            client_id=self.name,
            enable_idempotence=True,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )
        await producer.start()
        waiting: set[asyncio.Task[None]] = set()
        try:
            while not self.stopping.is_set():
                for value in self._values():
                    future = await producer.send(topic, content(value), partition=partition)
                    waiting.add(asyncio.create_task(self._settle(value, future)))
                for task in self._through(waiting):
                    task.result()
                await asyncio.sleep(self._pause_s)
            async with asyncio.timeout(SETTLE_S):
                await asyncio.gather(*waiting)
        finally:
            for task in waiting:
                task.cancel()
            await producer.stop()

    def _through(self, waiting: set[asyncio.Task[None]]) -> Iterator[asyncio.Task[None]]:
        """Takes out those that have ended."""
        for task in [task for task in waiting if task.done()]:
            waiting.discard(task)
            yield task

    async def _settle(self, value: str, future: "asyncio.Future[RecordMetadata]") -> None:
        self._stored(value, (await future).offset)
