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
from tests.fuzz import mutate, mutate_fields, seeds
from tests.support.fault_disk import FaultDisk
from tests.support.instant_controller import InstantController
from tests.support.manual_clock import ManualClock

FRAMES = 150
"""Bad frames in one conversation. Each begins with a fresh node, so that it can be replayed alone."""

ODD_SHARE = 0.5
"""Of the frames: well-formed, so that more than the decoder is tried."""

TOPICS = ("gold", "multi", "tail", "sparse")
"""What the seeds speak of."""

WITNESS = "witness"
"""A topic of nobody but the client that checks that the broker still works."""

MOST_PARTITIONS = 16
"""A topic of 65530 partitions is no bad input, only a slow one."""

LIMITS = Limits(receive_bytes=64 * KIB, arena_bytes=256 * KIB)


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

    def tick(self, received: "list[tuple[_Client, bytes]]") -> list[str]:
        """Gives bytes to sessions in one tick, as the server does: side by side in one buffer.

        Each client keeps what its session left. Returns the reasons of those that were refused and are to be
        closed.
        """
        self.clock.pass_ms(1)
        self.broker.begin_tick()
        used = 0
        refused: list[tuple[_Client, str]] = []
        for client, data in received:
            end = used + len(data)
            self._arena[used:end] = data
            try:
                rest = client.session.receive(self._arena, self._view, used, end)
                client.pending = bytes(self._arena[rest:end])
            except WireError as error:
                refused.append((client, error.reason))
            used = end
        self.broker.end_tick()
        self._arena[:used] = bytes(used)  # what was not written by now is lost, as in the server
        self.flusher.settle()
        self.broker.expire()
        for client, _ in refused:
            client.close()
        return [reason for _, reason in refused]

    def rest(self, milliseconds: int) -> None:
        """Nobody sends anything for a while: waits end, logs are maintained."""
        self.clock.pass_ms(milliseconds)
        self.broker.begin_tick()
        self.broker.expire()
        self.broker.give_up_late()
        self.broker.maintain()
        self.broker.end_tick()
        self.flusher.settle()


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

    def close(self) -> None:
        """Ends the connection; the next bytes come on a new one."""
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
        log = partition.log
        assert log.state is LogState.ACTIVE, f"{partition.topic_name}: {log.reason}"
        checked = log.scrub(1 << 30)
        assert checked.wrapped, f"{partition.topic_name}: {checked.bad}"
    assert node.metrics.waiting == 0, "a wait outlived its connection"
    return refused


def _attack(node: Node, chance: Random) -> Counter[str]:
    refused: Counter[str] = Counter()
    clients = [_Client(node) for _ in range(3)]
    sent = 0
    while sent < FRAMES:
        for topic in (*TOPICS, WITNESS):
            if topic not in node.broker.topics:
                node.controller.add(topic, 4)  # somebody deleted it
        received = []
        for client in chance.sample(clients, chance.choice((1, 2, 3))):
            count = chance.choice((1, 1, 2))
            data = b"".join(_bad_frame(chance) for _ in range(count))
            sent += count
            cut = chance.randrange(len(data) + 1) if chance.random() < 0.2 else len(data)
            received.append((client, (client.pending + data[:cut])[: LIMITS.receive_bytes]))
        refused.update(node.tick(received))
        if chance.random() < 0.03:
            node.rest(chance.choice((10, 2_000, 100_000_000)))
        for client in clients:
            read_answers(client.session)
            if len(client.pending) > LIMITS.receive_bytes // 2 or chance.random() < 0.01:
                client.close()
    for client in clients:
        client.close()
    return refused + Counter(node.metrics.refused)


def _bad_frame(chance: Random) -> bytes:
    everything = seeds.requests()
    seed = chance.choice(everything)
    if chance.random() < ODD_SHARE:
        return mutate.frame(chance, seed.codec.ID, mutate_fields.request(chance, seed))
    body = mutate.payload(chance, seed.payload, chance.choice(everything).payload)
    return mutate.frame(chance, seed.codec.ID, body)


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
    assert not client.node.tick([(client, head + payload)])
    assert not client.pending
    [(_, answer)] = read_answers(client.session)
    return answer
