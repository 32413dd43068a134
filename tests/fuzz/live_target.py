"""A broker as a process, over loopback: strangers send bad frames while one client goes on working."""

import contextlib
import re
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tests.fuzz import mutate, mutate_fields, seeds
from tests.fuzz.session_target import ODD_SHARE
from tests.support.broker_process import BrokerProcess
from tests.support.raw_client import RawConnection

CONNECTIONS = 100
"""Strangers in one round."""

FRAMES_EACH = 3
"""What each of them sends: the broker closes at the first that is malformed, and never sees the rest."""

FRAMES = CONNECTIONS * FRAMES_EACH

LINGERING = 40
"""Strangers that stay connected, some with half a frame."""

MEMORY_GROWTH_BYTES = 192 << 20
"""The broker's own bound is 160 MiB for all connections (limits.py), and it holds the seeds' small topics."""

TOPICS = ("gold", "multi", "tail", "sparse")
WITNESS = "witness"
_ADMIN_IDS = frozenset((7, 69, 70))
"""Creating or growing topics: left as the seeds have them, because 65530 partitions are slow but not bad."""


class LiveBroker:
    """The process, and the client that must not notice anything."""

    def __init__(self, folder: Path) -> None:
        self.process = BrokerProcess(folder / "data", "--flush", "replicated")
        self.stored = 0
        self._lingering: list[socket.socket] = []

    @contextlib.contextmanager
    def running(self) -> "Iterator[LiveBroker]":
        """Started, with the topics that the seeds name; killed at the end whatever happens."""
        with self.process:
            self.create_topics()
            self.resident_at_start = self.process.resident_bytes()
            try:
                yield self
            finally:
                for stranger in self._lingering:
                    stranger.close()

    def create_topics(self) -> None:
        """Again, too, because strangers delete them."""
        with RawConnection(self.process.port) as connection:
            for name in (*TOPICS, WITNESS):
                request = CreateTopicsRequest(name=name, partitions=4)
                answer = CreateTopicsResponse.decode(connection.ask(request.ID, request.encode()))
                assert answer.error in (0, 0x16), answer

    def round(self, chance: Random) -> None:
        """CONNECTIONS strangers; then the client is served, and the broker has not grown."""
        everything = seeds.requests()
        for _ in range(CONNECTIONS):
            data = b"".join(self._frame(chance, everything) for _ in range(FRAMES_EACH))
            self._stranger(chance, data)
        self.create_topics()
        self._check_service()
        grown = self.process.resident_bytes() - self.resident_at_start
        assert grown < MEMORY_GROWTH_BYTES, f"the broker grew by {grown >> 20} MiB"

    def _frame(self, chance: Random, everything: list[seeds.Seed]) -> bytes:
        seed = chance.choice(everything)
        body = seed.payload
        if seed.codec.ID not in _ADMIN_IDS and chance.random() < ODD_SHARE:
            body = mutate_fields.request(chance, seed)
        elif seed.codec.ID not in _ADMIN_IDS:
            body = mutate.payload(chance, body, chance.choice(everything).payload)
        data = mutate.frame(chance, seed.codec.ID, body)
        return b"" if data and data[0] in _ADMIN_IDS and seed.codec.ID not in _ADMIN_IDS else data

    def _stranger(self, chance: Random, data: bytes) -> None:
        stranger = socket.create_connection(("127.0.0.1", self.process.port), timeout=10)
        with contextlib.suppress(ConnectionError):
            stranger.sendall(data)
            if chance.random() < 0.5:
                stranger.recv(1 << 16)
        if chance.random() < 0.2:
            self._lingering.append(stranger)
            if len(self._lingering) > LINGERING:
                self._lingering.pop(0).close()
        else:
            stranger.close()

    def _check_service(self) -> None:
        value = f"message {self.stored}".encode()
        batch = bundle.as_batch(bundle.encode([value], timestamps=1))
        with RawConnection(self.process.port) as connection:
            request = ProduceRequest(topics=[ProduceTopic(WITNESS, [ProducePartition(0, batch)])])
            answer = ProduceResponse.decode(connection.ask(request.ID, request.encode()))
            assert [result.error for result in answer.results] == [0], answer
            self.stored += 1
            assert self.read(connection, self.stored) == [value]

    def read(self, connection: RawConnection, number: int, partition: int = 0) -> list[bytes]:
        """The witness' messages from `number` on."""
        asked = ConsumePartition(partition, number, 1 << 20)
        request = ConsumeRequest(topics=[ConsumeTopic(WITNESS, [asked])])
        answer = ConsumeResponse.decode(connection.ask(request.ID, request.encode()))
        [entry] = answer.topics[0].partitions
        chunk = memoryview(answer.chunks)
        found: list[bytes] = []
        for one in bundle.bundles(chunk):
            base = entry.base_sequence_number + len(found)
            found += [message.value for message in bundle.decode(one, base)]
        return found[number - entry.base_sequence_number :]

    def finish(self) -> Counter[str]:
        """Stops and restarts the broker: what it acknowledged is still there. Returns refusals by reason."""
        refused = refusals(self.process.metrics())
        assert sum(refused.values()), "the broker counted no refusals"
        for sign in ("Traceback", " ERROR ", "damaged"):
            _, found, rest = self.process.output().partition(sign)
            assert not found, found + rest[:4000]
        self.process.restart()
        with RawConnection(self.process.port) as connection:
            kept = self.read(connection, 1)
        assert kept == [f"message {number}".encode() for number in range(self.stored)]
        return refused


def refusals(metrics: str) -> Counter[str]:
    """`tank_refused_total` by its reason, from the text of /metrics."""
    found = re.findall(r'^tank_refused_total\{reason="(\w+)"\} ([0-9.e+]+)$', metrics, re.MULTILINE)
    return Counter({reason: int(float(count)) for reason, count in found})
