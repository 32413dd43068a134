"""A broker as a process, over loopback: strangers send bad frames to its Kafka port while two honest clients,
one of each protocol, go on working.

Each stranger sends several frames at once, and some are cut off in the middle of one. The honest clients'
answers must be exactly right, and the broker's memory stays where it was when it had seen some of everything.
"""

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from struct import pack
from typing import Final

from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    FetchResponse,
    MetadataRequest,
    MetadataResponse,
    ProduceResponse,
)
from tests.fuzz import live_target
from tests.fuzz.kafka_frames import TOPICS, FrameMaker
from tests.fuzz.live_target import LiveBroker
from tests.support.clients.kafka_calls import (
    FETCH_VERSION,
    PRODUCE_VERSION,
    base_offset,
    batch_of,
    create_topic,
    fetch_request,
    fetched,
    produce_request,
    values_of,
)
from tests.support.clients.kafka_socket import KafkaSocket

CONNECTIONS: Final = 100
"""Strangers in one round."""

ALIKE: Final = 4
"""Strangers that send the same, one after the other, as retries do: to make a frame takes longer than to
refuse it."""

FRAMES_EACH: Final = 10
"""What each of them sends: the broker closes at the first that is malformed, and never sees the rest."""

FRAMES: Final = CONNECTIONS * FRAMES_EACH

WARM_ROUNDS: Final = 6
"""Rounds after which the broker has seen something of everything, and keeps what it keeps: imported handlers,
buffers, forms of requests."""

MEMORY_GROWTH_BYTES: Final = 32 << 20
"""Between then and the end, when no stranger is connected."""

PEAK_GROWTH_BYTES: Final = 224 << 20
"""At any time: 160 MiB for all connections (limits.py), or records of 64 MiB that are unpacked."""

LOG_LINES_A_ROUND: Final = 60
"""A second or two of one line for each reason and second."""

WITNESS: Final = "kafka-witness"

LEVELS: Final = {"tank_connections": 2.0, "tank_held_bytes": 0.0, "tank_waiting_requests": 0.0}

_PATIENCE_S: Final = 0.2
"""How long a stranger waits for the next answer."""

KNOWN_BAD: Final = {
    "unknown_request": pack(">ihhih", 10, 999, 0, 1, -1),
    "invalid_frame_size": b"GET / HTTP/1.1\r\n\r\n",
    "truncated": pack(">ihhih", 10, 3, 0, 1, 9),
    "trailing_bytes": pack(">ihhihB", 11, 18, 0, 1, -1, 0),
    "out_of_range": pack(">ihhihi", 14, 3, 0, 1, -1, -1),
}
"""A frame for each of the reasons for which a Kafka client's connection is closed."""


class KafkaLiveBroker(LiveBroker):
    """The process, and the two clients that must not notice anything."""

    known_bad = tuple(KNOWN_BAD.items())
    levels = LEVELS

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--kafka-auto-create", "off")
        self._rounds = 0
        self._values: list[bytes] = []
        self._slowest_s = 0.0

    @contextlib.contextmanager
    def running(self) -> "Iterator[KafkaLiveBroker]":
        """As its base, with an honest Kafka client, too."""
        with super().running(), KafkaSocket(self.process.kafka_port, 30) as self._kafka:
            yield self

    def create_topics(self) -> None:
        """Those of the strangers, as they were meant; others, which they created, are deleted."""
        with KafkaSocket(self.process.kafka_port, 60) as client:
            known = client.ask(MetadataRequest(None), MetadataResponse, 12).topics
            kept = {*TOPICS, *live_target.TOPICS, live_target.WITNESS, WITNESS}
            others = [
                DeleteTopicState(topic.name)
                for topic in known
                if topic.name not in kept and not topic.is_internal  # the broker keeps its groups in one
            ]
            answer = client.ask(DeleteTopicsRequest(others, timeout_ms=30_000), DeleteTopicsResponse, 6)
            assert not any(result.error_code for result in answer.responses), answer
            for name in (*TOPICS, WITNESS):
                stored = "kafka" if name in ("gold", WITNESS) else "tank"
                create_topic(client, name, 4, log_format=stored)
            known = client.ask(MetadataRequest(None), MetadataResponse, 12).topics
            # Those of the honest clients' topics would let a stranger delete them.
            self._ids = {topic.name or "": topic.topic_id for topic in known if topic.name in TOPICS}
        super().create_topics()

    def round(self, chance: Random) -> None:
        """CONNECTIONS strangers, and the honest clients between them; and the broker has not grown."""
        maker = FrameMaker(chance, self._ids)
        for number in range(0, CONNECTIONS, ALIKE):
            data = b"".join(maker.frame().data for _ in range(FRAMES_EACH))
            for _ in range(ALIKE):
                cut = chance.random() < 0.2
                self._stranger(chance, data[: chance.randrange(len(data))] if cut else data)
            if number % 20 == 0:
                self._check_service()
        self.create_topics()
        self._check_service()
        self._rounds += 1
        if self._rounds == WARM_ROUNDS:
            self._warm_bytes = self.process.resident_bytes()
        grown = self._peak_bytes() - self._resident_at_start
        assert grown < PEAK_GROWTH_BYTES, f"the broker grew by {grown >> 20} MiB"

    def _peak_bytes(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [kib] = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kib) << 10

    @property
    def _strangers_port(self) -> int:
        return self.process.kafka_port

    def _check_service(self) -> None:
        began = time.monotonic()
        super()._check_service()
        self._slowest_s = max(self._slowest_s, time.monotonic() - began)
        value = b"record %d" % len(self._values)
        client, offset = self._kafka, len(self._values)
        client.ask(ApiVersionsRequest("honest", "1"), ApiVersionsResponse, 3)
        stored = client.ask(produce_request(WITNESS, batch_of(value)), ProduceResponse, PRODUCE_VERSION)
        assert base_offset(stored) == offset
        self._values.append(value)
        found = fetched(client.ask(fetch_request(WITNESS, offset), FetchResponse, FETCH_VERSION))
        assert values_of(found, offset) == [value]

    def _hear(self, stranger: socket.socket) -> None:
        """Says that nothing follows, and reads until the broker has nothing more to say."""
        stranger.settimeout(_PATIENCE_S)
        with contextlib.suppress(OSError):  # a fetch may wait for an hour
            stranger.shutdown(socket.SHUT_WR)
            while stranger.recv(1 << 16):
                pass

    def _check_left_memory(self) -> None:
        if self._rounds > WARM_ROUNDS:
            grown = self.process.resident_bytes() - self._warm_bytes
            peak = self._peak_bytes() - self._resident_at_start
            print(
                f"the broker grew by {grown / (1 << 20):.1f} MiB, by {peak >> 20} at its peak; the slowest"
                f" answers to the honest TANK client took {self._slowest_s:.3f} s"
            )
            assert grown < MEMORY_GROWTH_BYTES, f"the broker grew by {grown >> 20} MiB"
        lines = self.process.output().count("\n")
        assert lines < LOG_LINES_A_ROUND * (self._rounds + 1), f"{lines} lines in {self._rounds} rounds"

    def _check_stored(self) -> None:
        super()._check_stored()
        with KafkaSocket(self.process.kafka_port, 30) as client:
            request = fetch_request(WITNESS, 0, most_bytes=32 << 20)
            answer = fetched(client.ask(request, FetchResponse, FETCH_VERSION))
            assert values_of(answer, 0) == self._values
