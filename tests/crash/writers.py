"""Clients that write until the broker dies under them, and remember what was acknowledged."""

import random
import threading
from dataclasses import dataclass, field

from tank_protos.bundle import as_batch, encode
from tank_protos.generated.tank import (
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    InitProducerRequest,
    InitProducerResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection

PIPELINE = 5
MESSAGES_A_BUNDLE = 3


@dataclass(slots=True)
class Written:
    """What one writer was told of one partition since the last check.

    `numbered`: first number -> the bundle's values, acknowledged with numbers.
    `stored`: values that were acknowledged as stored before, numbers unknown.
    `ordered`: values in the order they were acknowledged (TANK's own produce tells no numbers).
    `checked`: how many messages earlier checks have found; `reached`: the number up to which `ordered` was.
    """

    topic: str
    partition: int
    numbered: dict[int, list[bytes]] = field(default_factory=dict)
    stored: list[bytes] = field(default_factory=list)
    ordered: list[bytes] = field(default_factory=list)
    checked: int = 0
    reached: int = 0


@dataclass(slots=True)
class _Unsure:
    """A bundle that was sent and not answered: sent again after the restart, under the same sequence."""

    sequence: int
    values: list[bytes]


class IdempotentWriter(threading.Thread):
    """Sends pipelined bundles with sequences; after a crash sends again what was not answered."""

    def __init__(self, name: str, port: int, written: Written, seed: int) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self.written = port, written
        self.random = random.Random(seed)
        self.producer_id = 0
        self.epoch = 0
        self.next_sequence = 0
        self.unsure: list[_Unsure] = []
        self.errors: list[str] = []
        self.stopping = threading.Event()

    def resume(self) -> "IdempotentWriter":
        """A new thread that goes on where this one was cut off."""
        after = IdempotentWriter(self.name, self.port, self.written, self.random.getrandbits(32))
        after.producer_id, after.epoch = self.producer_id, self.epoch
        after.next_sequence, after.unsure = self.next_sequence, self.unsure
        after.errors = self.errors
        return after

    def run(self) -> None:
        try:
            with RawConnection(self.port) as connection:
                if not self.producer_id:
                    self._take_producer_id(connection)
                self._write(connection)
        except (ConnectionError, OSError):
            return  # the broker was killed: that is what this is for

    def _take_producer_id(self, connection: RawConnection) -> None:
        request = InitProducerRequest(request_id=1, name=self.name, generation=0)
        answer = InitProducerResponse.decode(connection.ask(InitProducerRequest.ID, request.encode()))
        if answer.error:
            self.errors.append(f"{self.name}: no producer id: {answer.message}")
            raise ConnectionError
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch

    def _write(self, connection: RawConnection) -> None:
        waiting: list[_Unsure] = []
        again = list(self.unsure)
        while not self.stopping.is_set() or again or waiting:
            while len(waiting) < PIPELINE and (again or not self.stopping.is_set()):
                waiting.append(again.pop(0) if again else self._new_bundle())
                self._send(connection, waiting[-1])
            self._settle(connection, waiting.pop(0))

    def _new_bundle(self) -> _Unsure:
        values = [
            f"{self.name}/{self.next_sequence + i}/".encode()
            + self.random.randbytes(self.random.randrange(80))
            for i in range(MESSAGES_A_BUNDLE)
        ]
        bundle = _Unsure(self.next_sequence, values)
        self.next_sequence += len(values)
        self.unsure.append(bundle)
        return bundle

    def _send(self, connection: RawConnection, bundle: _Unsure) -> None:
        batch = as_batch(encode(bundle.values, timestamps=1_700_000_000_000))
        entry = IdempotentPartition(partition=self.written.partition, sequence=bundle.sequence, bundle=batch)
        request = IdempotentProduceRequest(
            request_id=bundle.sequence & 0xFFFFFFFF,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[IdempotentTopic(name=self.written.topic, partitions=[entry])],
        )
        connection.send(IdempotentProduceRequest.ID, request.encode())

    def _settle(self, connection: RawConnection, bundle: _Unsure) -> None:
        answer = IdempotentProduceResponse.decode(connection.receive()[1])
        result = answer.topics[0].partitions[0]
        if answer.request_id != bundle.sequence or result.error:
            self.errors.append(f"{self.name}: sequence {bundle.sequence}: error {result.error:#x}")
            raise ConnectionError
        if result.first:
            self.written.numbered[result.first] = bundle.values
        else:
            self.written.stored += bundle.values
        self.unsure.remove(bundle)


class PlainWriter(threading.Thread):
    """TANK's own produce, one bundle at a time; never sends a bundle twice."""

    def __init__(self, name: str, port: int, written: Written, seed: int, begin: int = 0) -> None:
        super().__init__(name=name, daemon=True)
        self.port, self.written = port, written
        self.random = random.Random(seed)
        self.count = begin
        self.errors: list[str] = []
        self.stopping = threading.Event()

    def resume(self) -> "PlainWriter":
        """A new thread that goes on where this one was cut off."""
        after = PlainWriter(self.name, self.port, self.written, self.random.getrandbits(32), self.count + 1)
        after.errors = self.errors
        return after

    def run(self) -> None:
        try:
            with RawConnection(self.port) as connection:
                while not self.stopping.is_set():
                    self._write_one(connection)
        except (ConnectionError, OSError):
            return

    def _write_one(self, connection: RawConnection) -> None:
        values = [f"{self.name}/{self.count}/".encode() + self.random.randbytes(40)]
        self.count += 1
        entry = ProducePartition(
            partition=self.written.partition, bundle=as_batch(encode(values, timestamps=1_700_000_000_000))
        )
        request = ProduceRequest(
            client_version=2,
            request_id=self.count,
            topics=[ProduceTopic(name=self.written.topic, partitions=[entry])],
        )
        answer = ProduceResponse.decode(connection.ask(ProduceRequest.ID, request.encode()))
        if answer.results[0].error:
            self.errors.append(f"{self.name}: bundle {self.count}: error {answer.results[0].error:#x}")
            raise ConnectionError
        self.written.ordered += values
