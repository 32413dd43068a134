"""A broker as a process, over loopback: strangers send bad frames while an honest client goes on working.

The honest client keeps one connection through everything, and each of its answers must be exactly right. At
the end the refusals of a few known bad frames are counted one by one, and when all strangers are gone, their
descriptors, memory and waits are gone, too.
"""

import contextlib
import os
import re
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
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
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.broker_process import BrokerProcess
from tests.support.waiting import until

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

EXACTLY = 5
"""How often each of the known bad frames is sent, and must be counted."""

KNOWN_BAD = {
    "unknown_message": b"\x63\0\0\0\0",
    "frame_too_large": b"\x02" + (1 << 31).to_bytes(4, "little"),
    "malformed": b"\x03\1\0\0\0x",
    "truncated": b"\x0a\3\0\0\0abc",
    "trailing_bytes": b"\x0a\5\0\0\0\1\0\0\0x",
    "unsupported_version": b"\x40\5\0\0\0\xff\1\0\0\0",
    "not_a_peer": b"\x05\x0d\0\0\0\0\1\1\0\0\0\0\0\0\0\0\0\0",
}
"""A frame for each of the reasons for which a connection is closed."""

LEVELS = {"tank_connections": 1.0, "tank_held_bytes": 0.0, "tank_waiting_requests": 0.0}
"""What is left of everything when only the honest client is."""

_ADMIN_IDS = frozenset((7, 69, 70))
"""Creating or growing topics: left as the seeds have them, because 65530 partitions are slow but not bad."""


class LiveBroker:
    """The process, and the client that must not notice anything."""

    known_bad: Sequence[tuple[str, bytes]] = tuple(KNOWN_BAD.items())
    levels = LEVELS

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.process = self._broker_over(folder / "data", "--flush", "replicated", *arguments)
        self._stored: list[bytes] = []
        self._lingering: list[socket.socket] = []

    def _broker_over(self, data: Path, *arguments: str) -> BrokerProcess:
        return BrokerProcess(data, *arguments)

    @contextlib.contextmanager
    def running(self) -> "Iterator[LiveBroker]":
        """Started, with the topics that the seeds name; killed at the end whatever happens."""
        with self.process:
            self._resident_at_start = self.process.resident_bytes()
            self._sockets_at_start = self._sockets()
            self.create_topics()
            try:
                with RawConnection(self.process.port, 30) as self._honest:
                    yield self
            finally:
                self._send_all_away()

    def _send_all_away(self) -> None:
        for stranger in self._lingering:
            stranger.close()
        self._lingering = []

    def create_topics(self) -> None:
        """Again, too, because strangers delete them."""
        with RawConnection(self.process.port) as connection:
            for name in (*TOPICS, WITNESS):
                request = CreateTopicsRequest(name=name, partitions=4)
                answer = CreateTopicsResponse.decode(connection.ask(request.ID, request.encode()))
                assert answer.error in (0, 0x16), answer

    def round(self, chance: Random) -> None:
        """CONNECTIONS strangers, and the honest client between them; and the broker has not grown."""
        everything = seeds.requests()
        for number in range(CONNECTIONS):
            data = b"".join(self._frame(chance, everything) for _ in range(FRAMES_EACH))
            self._stranger(chance, data)
            if number % 10 == 0:
                self._check_service()
        self.create_topics()
        self._check_service()
        grown = self.process.resident_bytes() - self._resident_at_start
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

    @property
    def _strangers_port(self) -> int:
        """Where the strangers connect."""
        return self.process.port

    def _stranger(self, chance: Random, data: bytes) -> None:
        stranger = socket.create_connection(("127.0.0.1", self._strangers_port), timeout=10)
        with contextlib.suppress(ConnectionError):
            stranger.sendall(data)
            if chance.random() < 0.5:
                self._hear(stranger)
        self._linger(chance, stranger)

    def _linger(self, chance: Random, stranger: socket.socket) -> None:
        """Closes the connection, or later."""
        if chance.random() < 0.2:
            self._lingering.append(stranger)
            if len(self._lingering) > LINGERING:
                self._lingering.pop(0).close()
        else:
            stranger.close()

    def _hear(self, stranger: socket.socket) -> None:
        """Reads something of the answers."""
        stranger.recv(1 << 16)

    def _check_service(self) -> None:
        """The honest client asks for more than it gets at once: it waits for what it then produces."""
        value = f"message {len(self._stored)}".encode()
        batch = bundle.as_batch(bundle.encode([value], timestamps=1))
        produced = ProduceRequest(topics=[ProduceTopic(WITNESS, [ProducePartition(0, batch)])])
        wait = ConsumeRequest(
            max_wait_ms=60_000,
            topics=[ConsumeTopic(WITNESS, [ConsumePartition(0, len(self._stored) + 1, 1 << 20)])],
        )
        honest = self._honest
        honest.send(wait.ID, wait.encode())
        honest.send(produced.ID, produced.encode())
        answers = dict([honest.receive(), honest.receive()])
        stored = ProduceResponse.decode(answers[produced.ID])
        assert [result.error for result in stored.results] == [0], stored
        self._stored.append(value)
        assert _values(ConsumeResponse.decode(answers[wait.ID]), len(self._stored)) == [value]

    def read(self, connection: RawConnection, number: int, partition: int = 0) -> list[bytes]:
        """The witness' messages from `number` on."""
        asked = ConsumePartition(partition, number, 1 << 20)
        request = ConsumeRequest(topics=[ConsumeTopic(WITNESS, [asked])])
        answer = ConsumeResponse.decode(connection.ask(request.ID, request.encode()))
        return _values(answer, number)

    # --- the end ---------------------------------------------------------------------------------

    def finish(self) -> Counter[str]:
        """Counts, looks for what strangers left behind, and restarts the broker: what it acknowledged is
        still there. Returns refusals by reason."""
        self._send_all_away()
        until(self._left_nothing, "strangers are gone, and something of theirs is not")
        self._check_left_memory()
        self._count_exactly()
        refused = refusals(self.process.metrics())
        for sign in ("Traceback", " ERROR ", "damaged"):
            _, found, rest = self.process.output().partition(sign)
            assert not found, found + rest[:4000]
        self.process.restart()
        self._check_stored()
        return refused

    def _check_left_memory(self) -> None:
        """What the process has when the strangers are gone."""

    def _check_stored(self) -> None:
        """Everything that the honest client was told is stored."""
        with RawConnection(self.process.port) as connection:
            assert self.read(connection, 1) == self._stored

    def _left_nothing(self) -> bool:
        """No connection, no memory, no wait, no descriptor but those of honest clients."""
        text = self.process.metrics()
        levels = {name: _level(text, name) for name in self.levels}
        honest = int(self.levels["tank_connections"])
        return levels == self.levels and self._sockets() <= self._sockets_at_start + honest

    def _sockets(self) -> int:
        found = 0
        for link in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found += os.readlink(link).startswith("socket:")
        return found

    def _count_exactly(self) -> None:
        """Known bad frames, one a connection: each closes it without an answer, and is counted once."""
        before = refusals(self.process.metrics())
        for _, frame in self.known_bad:
            for _ in range(EXACTLY):
                with RawConnection(self._strangers_port) as stranger, contextlib.suppress(ConnectionError):
                    stranger.socket.sendall(frame)
                    raise AssertionError(f"{frame.hex()} was answered: {stranger.receive()}")
        counted = refusals(self.process.metrics()) - before
        wanted = Counter(reason for reason, _ in self.known_bad for _ in range(EXACTLY))
        assert counted == wanted, f"refusals counted: {counted}"


def _values(answer: ConsumeResponse, number: int) -> list[bytes]:
    """The contents in an answer, from the message with this number on."""
    [entry] = answer.topics[0].partitions
    found: list[bytes] = []
    for one in bundle.bundles(memoryview(answer.chunks)):
        base = entry.base_sequence_number + len(found)
        found += [message.value for message in bundle.decode(one, base)]
    return found[number - entry.base_sequence_number :]


def _level(metrics: str, name: str) -> float:
    """A level, summed over its labels."""
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (.+)$", metrics, re.MULTILINE)))


def refusals(metrics: str) -> Counter[str]:
    """`tank_refused_total` by its reason, from the text of /metrics."""
    found = re.findall(r'^tank_refused_total\{reason="(\w+)"\} ([0-9.e+]+)$', metrics, re.MULTILINE)
    return Counter({reason: int(float(count)) for reason, count in found})
