"""Consumers of Kafka's protocol that others wrote, librdkafka's and aiokafka's: each is assigned one
partition, and reads it from its first record on."""

import asyncio
import threading
from typing import Final

from tests.chaos.client_thread import ClientThread
from tests.chaos.librdkafka_log import SETTINGS, log_beside
from tests.chaos.record import Place, Recorder
from tests.chaos.values import name_of

MOST_AT_ONCE: Final = 500
POLL_S: Final = 0.5
END_TIMEOUT_S: Final = 10.0


class StockReader(ClientThread):
    """What both have in common. When `written` is set, it reads up to the end of the partition."""

    def __init__(
        self, name: str, place: Place, servers: str, recorder: Recorder, written: threading.Event
    ) -> None:
        super().__init__(name, place, recorder)
        self._servers = servers
        self._written = written
        self._next = 0
        """The offset behind the last record."""

    def _saw(self, records: list[tuple[int, bytes]]) -> None:
        """TANK counts messages from 1 on, and Kafka from 0 on."""
        if records:
            numbers = [offset + 1 for offset, _ in records]
            self.recorder.seen(self.name, self.place, numbers, [name_of(value) for _, value in records])
            self.count += len(records)
            self._next = numbers[-1]


class LibrdkafkaReader(StockReader):
    """librdkafka, by confluent-kafka."""

    def work(self) -> None:
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "client.id": self.name,
                "group.id": "unused",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                **SETTINGS,
            },
            logger=log_beside(self.recorder.path),
        )
        partition = TopicPartition(*self.place, 0)
        consumer.assign([partition])
        try:
            while True:
                written = self._written.is_set()
                messages = consumer.consume(MOST_AT_ONCE, POLL_S)
                for message in messages:
                    if message.error() is not None:
                        raise KafkaException(message.error())
                self._saw([(message.offset(), message.value() or b"") for message in messages])
                if written and not messages:
                    _, end = consumer.get_watermark_offsets(partition, END_TIMEOUT_S)
                    if self._next >= end:
                        break
        finally:
            consumer.close()
        self.recorder.read_all(self.name, [self.place])


class AiokafkaReader(StockReader):
    """aiokafka, in an event loop of its own."""

    def work(self) -> None:
        asyncio.run(self._read())
        self.recorder.read_all(self.name, [self.place])

    async def _read(self) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        consumer = AIOKafkaConsumer(
            bootstrap_servers=self._servers, client_id=self.name, auto_offset_reset="none"
        )
        partition = TopicPartition(*self.place)
        await consumer.start()
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            while True:
                written = self._written.is_set()
                found = await consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_AT_ONCE)
                records = found.get(partition, [])
                self._saw([(record.offset, record.value or b"") for record in records])
                if written and not records:
                    ends = await consumer.end_offsets([partition])
                    if self._next >= ends[partition]:
                        return
        finally:
            await consumer.stop()
