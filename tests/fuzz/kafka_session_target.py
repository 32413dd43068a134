"""Sessions of Kafka's protocol over a node in memory: strangers, and an honest client of the same broker.

Nothing but a typed error may come out of a session. Answers come in the requests' order, once for each, and
are what a client can read in the version that it asked in. The honest client's records are stored and read
as ever.
"""

import logging
from collections import Counter, deque
from pathlib import Path
from random import Random
from typing import Final

from tank_node.broker.topic_ids import topic_uuid
from tank_protos.generated.kafka.by_id import RESPONSES
from tank_protos.wire.errors import WireError
from tests.fuzz.kafka_frames import TOPICS, FrameMaker
from tests.fuzz.session_node import BugLog, LateController
from tests.support.clients.kafka_fetcher import Fetcher, values
from tests.support.clients.kafka_producer import Producer, batch_of
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine
from tests.support.storage.fault_disk import FaultDisk

FRAMES: Final = 100
"""Frames of one conversation. Each begins with a fresh node, so that it can be replayed alone."""

WITNESS: Final = "a"
"""The topic of nobody but the client that does nothing wrong."""
_PARTITIONS: Final = 4
_TURN: Final = 20
"""After how many frames the honest client has its turn."""
_PRODUCE: Final = b"\0\0"
"""The request that may have no answer."""
_API_VERSIONS: Final = 18
_ANY_TIME: Final = "100y"
"""So that records are taken whose times the node's clock has not reached."""
_WAIT_MS: Final = 60_000
"""Longer than any wait of theirs that does not last for ever."""


def conversation(chance: Random) -> Counter[str]:
    """Strangers, one after another: a new one whenever one is refused. Returns the refusals by reason."""
    log = BugLog()
    logger = logging.getLogger("tank_node")
    logger.addHandler(log)
    try:
        refused = _conversation(chance)
    finally:
        logger.removeHandler(log)
    assert not log.bugs, "\n".join(log.bugs)
    assert not log.errors, f"bad clients are no error of the broker: {log.errors}"
    return refused


def _conversation(chance: Random) -> Counter[str]:
    refused: Counter[str] = Counter()
    with BenchNode(Path("/data"), disk=FaultDisk(), controller=LateController(chance)) as node:
        controller = node.controller
        for name in (*TOPICS, WITNESS):
            stored = "kafka" if name == "gold" else "tank"
            controller.add(
                name,
                _PARTITIONS,
                flush="replicated",
                log_format=stored,
                message_timestamp_after_max_ms=_ANY_TIME,
            )
        view = controller.view
        ids = {
            topic.name: topic_uuid(view.cluster_id, topic.topic_id)
            for topic in view.topics()
            if topic.name in TOPICS  # not the honest client's
        }
        maker = FrameMaker(chance, ids)
        witness = _Witness(node)
        stranger = _Stranger(node)
        for number in range(FRAMES):
            if stranger.reason:
                refused[stranger.reason] += 1
                stranger = _Stranger(node)
            stranger.say(maker.frame().data)
            if number % _TURN == 0:
                witness.check()
        stranger.leave()
        witness.check()
        assert not node.broker.deadlines.entries, "waits outlived their clients"
    return refused


class _Stranger:
    """A connection, and the requests whose answers are owed."""

    def __init__(self, node: BenchNode) -> None:
        self._node = node
        self._line = KafkaLine(node)
        self._line.session.hang_up = self._hung_up
        self._sent = bytearray()
        """What was sent, without the whole requests."""
        self._owed: deque[bytes] = deque()
        """The requests that may be answered."""
        self.reason = ""
        """Why the broker closed the connection."""

    def _hung_up(self, reason: str) -> None:
        self.reason = reason
        self._line.session.close()

    def say(self, data: bytes) -> None:
        """Sends a frame, and reads what is answered. Waits are waited for, so that nothing stays behind."""
        self._note(data)
        try:
            self._line.feed(data)
            for _ in range(3):
                if self.reason or not self._line.session.in_flight:
                    break
                self._node.pass_ms(_WAIT_MS)
                self._node.sync()
                self._line.feed(b"")
        except WireError as error:
            self.reason = error.reason
        self._read_answers()
        if self.reason:
            self.leave()

    def _note(self, data: bytes) -> None:
        """Finds the requests in what was sent, as a broker must: a size may lie."""
        self._sent += data
        while len(self._sent) >= 4:
            size = int.from_bytes(self._sent[:4], "big", signed=True)
            if not 8 <= size <= len(self._sent) - 4:
                return
            self._owed.append(bytes(self._sent[4 : 4 + size]))
            del self._sent[: 4 + size]

    def _read_answers(self) -> None:
        for answer in self._line.frames():
            request = self._owed.popleft()
            while request[4:8] != answer[:4]:
                assert request[:2] == _PRODUCE, f"{request.hex()} was left out: {answer[:40].hex()}"
                request = self._owed.popleft()
            key, version = int.from_bytes(request[:2], "big"), int.from_bytes(request[2:4], "big")
            codec = RESPONSES[key]
            if key == _API_VERSIONS and version > codec.VERSIONS[1]:
                version = 0
            self._line.read(answer, codec, version)

    def leave(self) -> None:
        """Closes the connection."""
        self._line.session.close()


class _Witness:
    """The client that does nothing wrong: it produces to both formats' topics, and reads it all again."""

    def __init__(self, node: BenchNode) -> None:
        self._producer = Producer(node, 9)
        self._fetcher = Fetcher(node, 12)
        self._values: list[bytes | None] = []

    def check(self) -> None:
        """Produces a record, and reads all."""
        value = b"%d" % len(self._values)
        result = self._producer.produce(batch_of(value))
        assert (result.error_code, result.base_offset) == (0, len(self._values)), result
        self._values.append(value)
        found = self._fetcher.fetch(0)
        assert found.error_code == 0
        assert values(self._fetcher.records(found)) == self._values
