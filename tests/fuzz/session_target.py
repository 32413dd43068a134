"""Sessions of a whole node in memory: several clients send bad frames into one broker, in any pieces."""

import logging
from collections import Counter
from collections.abc import Callable
from random import Random

from tank_node.broker import Broker
from tank_node.controller_link import NewTopic, TopicAlteration, TopicOutcome
from tank_node.disk import Disk
from tank_node.limits import KIB, Limits
from tank_node.log.data_folder import DataFolder
from tank_node.log.flusher import Flusher
from tank_node.log.log import LogState
from tank_node.metrics import Metrics
from tank_node.sessions.output import Chunk
from tank_node.sessions.tank import TankSession
from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.errors import WireError
from tank_protos.framing import HEADER_BYTES, FrameReader
from tank_protos.generated.tank import (
    NOTICES,
    RESPONSES,
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tank_protos.topic_settings import SettingError
from tests.fuzz import mutate, seeds
from tests.support.fault_disk import FaultDisk
from tests.support.instant_controller import InstantController
from tests.support.manual_clock import ManualClock

FRAMES = 150
"""Bad frames in one conversation; a conversation begins with a fresh node and can be replayed alone."""

TOPICS = ("gold", "multi", "tail", "sparse")
"""What the seeds speak of."""

WITNESS = "witness"
"""A topic of nobody but the client that checks that the broker still works."""

MOST_PARTITIONS = 16
"""A topic of 65530 partitions is no bad input, only a slow one."""

LIMITS = Limits(receive_bytes=64 * KIB, arena_bytes=256 * KIB, decompressed_bytes=1024 * KIB)


class _SmallTopics(InstantController):
    """Refuses topics with many partitions, so that the fuzzer's time goes into frames."""

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        if topic.partitions > MOST_PARTITIONS:
            return done(TopicOutcome(ErrorCode.INVALID_PARTITIONS, "too many"))
        return super().create_topic(topic, done)

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        if change.partitions > MOST_PARTITIONS:
            return done(TopicOutcome(ErrorCode.INVALID_PARTITIONS, "too many"))
        try:
            return super().alter_topic(change, done)
        except SettingError as error:
            return done(TopicOutcome(ErrorCode.INVALID_SETTING, str(error)))


class _InlineFlusher(Flusher):
    """Syncs at once and without threads: what is posted waits for the end of the tick."""

    def __init__(self, disk: Disk) -> None:
        self.posted: list[Callable[[], None]] = []
        super().__init__(disk, self.posted.append)

    def _submit(self, job: Callable[[], None]) -> None:
        self._idle -= 1
        job()

    def settle(self) -> None:
        while self.posted:
            self.posted.pop(0)()


class BugLog(logging.Handler):
    """Collects what the node logs as an error: a broker that only had bad clients logs none."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(logging.Formatter().format(record))


class Node:
    """A broker over a disk in memory, with the loop that a server would be."""

    def __init__(self) -> None:
        disk, self.clock, self.metrics = FaultDisk(), ManualClock(), Metrics()
        self.disk = disk
        self.controller = _SmallTopics()
        self.flusher = _InlineFlusher(disk)
        folder = DataFolder.open("/data", disk, self.clock, new_uuid=lambda: "0" * 32, boot_id=lambda: "boot")
        self.broker = Broker(folder, self.controller, self.flusher, self.clock, LIMITS, self.metrics)
        self.broker.open()
        self._arena = bytearray(LIMITS.arena_bytes)
        self._view = memoryview(self._arena)

    def tick(self, session: TankSession, received: bytes) -> bytes:
        """Gives bytes to a session as the server does; returns what it left. Raises WireError."""
        self.clock.pass_ms(1)
        self.broker.begin_tick()
        end = len(received)
        try:
            self._arena[:end] = received
            rest = session.receive(self._arena, self._view, 0, end)
            return bytes(self._arena[rest:end])
        finally:
            self.broker.end_tick()
            self._arena[:end] = bytes(end)  # what was not written by now is lost, as in the server
            self.flusher.settle()
            self.broker.expire()


def read_answers(session: TankSession) -> list[tuple[int, bytes]]:
    """Takes the session's answers, and checks that a client can read each of them."""
    out, session.out = session.out, []
    session.has_chunks = False
    pieces = []
    for output in out:
        if isinstance(output, Chunk):
            pieces.append(output.file.files.disk.read_at(output.file.fd, output.length, output.position))
            assert len(pieces[-1]) == output.length, "a chunk reaches beyond its file"
            output.file.release()
        else:
            pieces.append(output)
    reader = FrameReader()
    answers = [(message_id, bytes(payload)) for message_id, payload in reader.feed(b"".join(pieces))]
    assert not reader.pending_bytes, "half an answer"
    for message_id, payload in answers:
        try:
            (RESPONSES | NOTICES)[message_id].decode(payload)
        except WireError as error:
            raise AssertionError(f"answer {message_id} {payload.hex()} is wrong: {error}") from error
    return answers


class _Client:
    """One connection: its session and the bytes that are not a whole frame yet."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.session = TankSession(node.broker)
        self.pending = b""

    def send(self, data: bytes) -> str:
        """The reason why the connection was closed, or nothing."""
        data = self.pending + data
        most = LIMITS.receive_bytes
        try:
            self.pending = self.node.tick(self.session, data[:most]) + data[most:]
        except WireError as error:
            self.close()
            return error.reason
        read_answers(self.session)
        return ""

    def close(self) -> None:
        read_answers(self.session)
        self.session.close()
        self.session = TankSession(self.node.broker)
        self.pending = b""


def conversation(chance: Random) -> Counter[str]:
    """FRAMES bad frames from three clients; then a good one is served. Returns refusals by reason."""
    bugs = BugLog()
    logger = logging.getLogger("tank_node")
    logger.addHandler(bugs)
    try:
        node = Node()
        refused = _attack(node, chance)
        _check_service(node)
    finally:
        logger.removeHandler(bugs)
    assert not bugs.lines, bugs.lines[0]
    for partition in node.broker.partitions():
        assert partition.log.state is LogState.ACTIVE, f"{partition.topic_name}: {partition.log.reason}"
    assert node.metrics.waiting == 0, "a wait outlived its connection"
    return refused


def _attack(node: Node, chance: Random) -> Counter[str]:
    refused: Counter[str] = Counter()
    clients = [_Client(node) for _ in range(3)]
    everything = seeds.requests()
    for _ in range(FRAMES):
        for topic in (*TOPICS, WITNESS):
            if topic not in node.broker.topics:
                node.controller.add(topic, 4)  # somebody deleted it
        seed = chance.choice(everything)
        body = mutate.payload(chance, seed.payload, chance.choice(everything).payload)
        data = mutate.frame(chance, seed.codec.ID, body)
        client = chance.choice(clients)
        cut = chance.randrange(len(data) + 1) if chance.random() < 0.2 else len(data)
        for piece in (data[:cut], data[cut:]):
            reason = client.send(piece) if piece else ""
            if reason:
                refused[reason] += 1
                break
        if len(client.pending) > LIMITS.receive_bytes or chance.random() < 0.01:
            client.close()
    for client in clients:
        client.close()
    return refused + Counter(node.metrics.refused)


def _check_service(node: Node) -> None:
    """A client that does nothing wrong is served as if nothing had happened."""
    client = _Client(node)
    batch = bundle.as_batch(bundle.encode([b"still", b"here"], timestamps=1))
    before = node.broker.topics[WITNESS].partitions[0].log.last
    request = ProduceRequest(topics=[ProduceTopic(WITNESS, [ProducePartition(0, batch)])])
    stored = ProduceResponse.decode(_ask(client, request))
    assert [result.error for result in stored.results] == [0], stored
    question = ConsumeRequest(topics=[ConsumeTopic(WITNESS, [ConsumePartition(0, before + 1, 1024)])])
    answer = ConsumeResponse.decode(_ask(client, question))
    [entry] = answer.topics[0].partitions
    assert entry.flag == ConsumeFlag.DATA
    [found] = bundle.bundles(memoryview(answer.chunks))
    values = [one.value for one in bundle.decode(found, entry.base_sequence_number)]
    assert values == [b"still", b"here"]
    client.close()


def _ask(client: _Client, request: ProduceRequest | ConsumeRequest) -> bytes:
    payload = b"".join(request.encode())
    head = bytes((request.ID,)) + len(payload).to_bytes(HEADER_BYTES - 1, "little")
    rest = client.node.tick(client.session, head + payload)
    assert not rest
    [(_, answer)] = read_answers(client.session)
    return answer
