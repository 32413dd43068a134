"""Sessions of a whole node in memory: strangers and one honest client in the same ticks of one broker.

After every tick: each request that was taken is answered once or still owed, `in_flight` and the other
levels say how many, and a refusal is the one that the frame deserves. The honest client's batches lie between
the strangers' in the receive buffer, and its answers must be exactly right. At the end: the counters say what
the answers said, and every log holds what was acknowledged and nothing that nobody sent.
"""

import logging
from collections import Counter
from random import Random
from typing import Final

from tank_node.log.log import LogState
from tank_node.tank.dispatch import open_session
from tank_node.tank.session import TankSession
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
)
from tank_protos.wire.errors import WireError
from tank_protos.wire.framing import HEADER_BYTES, FrameReader
from tank_protos.wire.names import GROUPS_TOPIC
from tests.fuzz import mutate, mutate_fields, seeds
from tests.fuzz.session_ledger import Account, Ledger, stored_batches
from tests.fuzz.session_node import ROOMY, TIGHT, WITNESS, BugLog, Node
from tests.fuzz.session_requests import Requester

FRAMES: Final = 150
"""Bad frames in one conversation. Each begins with a fresh node, so that it can be replayed alone."""

ODD_SHARE: Final = 0.35
MEANT_SHARE: Final = 0.35
"""Of the frames: well-formed and odd; and those that fit what the broker holds. The rest is spoiled bytes."""

STRANGERS: Final = 3
_LAST_ROUNDS: Final = 30
"""Ticks in which what had to wait is taken; few are needed."""


class Client:
    """One connection: its session, the bytes that are not taken yet, and what it is owed."""

    def __init__(self, node: Node, ledger: Ledger) -> None:
        self.node, self.ledger = node, ledger
        self.account = Account()
        self.session = open_session(node.broker)
        self.pending = b""

    def receive(self, arena: bytearray, view: memoryview, start: int, end: int) -> str:
        """Gives the session what lies in the arena; returns why it was refused. Keeps what it left."""
        data = bytes(arena[start:end])
        self.ledger.begin()
        try:
            rest = self.session.receive(arena, view, start, end) - start
        except WireError as error:
            self._take(data, len(data), error.reason)
            return error.reason
        self._take(data, rest, "")
        self.pending = data[rest:]
        return ""

    def _take(self, data: bytes, stop: int, refused: str) -> None:
        """Writes down the frames of data[:stop], up to the one that was refused."""
        at = 0
        while stop - at >= HEADER_BYTES:
            message_id, length = data[at], int.from_bytes(data[at + 1 : at + HEADER_BYTES], "little")
            payload = data[at + HEADER_BYTES : at + HEADER_BYTES + length]
            whole = len(payload) == length
            deserved = self.ledger.refusal(message_id, length, payload if whole else None)
            if deserved:
                # Its entries are counted before it is decoded.
                fits = deserved == refused or (message_id in (66, 79) and refused == "out_of_range")
                assert fits, f"refused for {refused!r}, not {deserved!r}: {data.hex()}"
                return
            if not whole:
                break
            self.ledger.take(self.account, message_id, payload)
            at += HEADER_BYTES + length
        assert not refused, f"refused for {refused!r} without cause: {data.hex()}"

    def read_answers(self) -> list[tuple[int, bytes]]:
        """Takes the session's answers, as the server does, and writes down that they came."""
        answers = read_answers(self.session)
        for message_id, payload in answers:
            self.ledger.answer(self.account, message_id, payload)
        return answers

    def check(self) -> None:
        """The session's own books, after each tick."""
        session, limits = self.session, self.node.limits
        owed = self.account.count()
        assert session.in_flight == owed, f"in_flight is {session.in_flight}, {owed} are not answered"
        assert session.wait_entries == sum(waiter.entries for waiter in session.waits)
        assert session.wait_entries <= limits.wait_entries
        assert 0 <= session.asked_bytes <= 2 * limits.request_bytes
        assert owed or not session.asked_bytes, "nothing is asked and bytes are held for it"
        assert not session.out
        assert owed <= limits.in_flight, f"{owed} requests under way, {limits.in_flight} may be"


def read_answers(session: TankSession) -> list[tuple[int, bytes]]:
    """The frames that a session answered, chunks read from their files."""
    out, session.out = session.out, []
    session.has_chunks = False
    pieces = []
    assert session.out_bytes == sum(len(one) for one in out if isinstance(one, bytes))
    session.out_bytes = 0
    for output in out:
        if isinstance(output, bytes):
            pieces.append(output)
        else:
            pieces.append(output.file.files.disk.read_at(output.file.fd, output.length, output.position))
            assert len(pieces[-1]) == output.length, "a chunk reaches beyond its file"
            output.file.release()
    reader = FrameReader()
    answers = [(message_id, bytes(payload)) for message_id, payload in reader.feed(b"".join(pieces))]
    assert not reader.pending_bytes, "half an answer"
    return answers


class _Witness:
    """The client that does nothing wrong: it produces, waits and reads, and knows what must come."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.values: list[bytes] = []
        self._asked: dict[int, tuple[type, int]] = {}
        """By request number: what it is, and how many messages there were."""
        self._sent: dict[int, bytes] = {}
        self._next_id = 1_000_000

    def frames(self, chance: Random) -> bytes:
        """Something to produce, or to read what there is, or to wait for."""
        self._next_id += 1
        if chance.random() < 0.6 and not self._sent:
            value = b"%d " % self._next_id * chance.choice((1, 30))
            batch = memoryview(bundle.as_batch(bundle.encode([value], timestamps=1)))
            request = ProduceRequest(2, self._next_id, "witness", 0, 0, [_topic(ProducePartition(0, batch))])
            self._sent[self._next_id] = value
            return _framed(request)
        asked = ConsumePartition(0, chance.choice((1, len(self.values) + 1)), 1 << 20)
        wait_ms = chance.choice((0, 1000))
        question = ConsumeRequest(2, self._next_id, "", wait_ms, 0, 0, [ConsumeTopic(WITNESS, [asked])])
        self._asked[self._next_id] = (ConsumeRequest, asked.sequence_number)
        return _framed(question)

    def hear(self, answers: list[tuple[int, bytes]], full_disk: bool) -> None:
        """Checks the answers of a tick."""
        for message_id, payload in answers:
            if message_id == ProduceResponse.ID:
                stored = ProduceResponse.decode(payload)
                value = self._sent.pop(stored.request_id)
                [result] = stored.results
                assert result.error == 0 or full_disk, f"a good produce got {result}"
                if not result.error:
                    self.values.append(value)
                    partition = self.client.node.broker.topics[WITNESS].partitions[0]
                    assert partition.high_water_mark >= len(self.values), "acknowledged before it was safe"
            elif message_id == ConsumeResponse.ID:
                self._compare(ConsumeResponse.decode(payload))

    def _compare(self, answer: ConsumeResponse) -> None:
        _, number = self._asked.pop(answer.request_id)
        [entry] = answer.topics[0].partitions
        assert entry.flag == 0, f"a good consume got {entry}"
        found: list[bytes] = []
        for one in bundle.bundles(memoryview(answer.chunks)):
            first = entry.base_sequence_number + len(found)
            found += [message.value for message in bundle.decode(one, first)]
        known = [*self.values, *self._sent.values()]
        assert found == known[number - 1 : number - 1 + len(found)], "the honest client reads something else"

    @property
    def waits_for_the_disk(self) -> bool:
        """Whether a produce of its is not answered."""
        return bool(self._sent)

    def finish(self) -> None:
        """Everything it sent and was told is stored, in its order, and it owes and is owed nothing."""
        assert not self._sent, "the honest client's produce was not answered"
        assert not self._asked, "the honest client's question was not answered"
        partition = self.client.node.broker.topics[WITNESS].partitions[0]
        stored = stored_batches(partition)
        values = [bundle.decode(one, 1)[0].value for batch in stored for one in bundle.bundles(batch)]
        assert values == self.values


def _topic(entry: ProducePartition) -> ProduceTopic:
    return ProduceTopic(WITNESS, [entry])


def _framed(request: ProduceRequest | ConsumeRequest) -> bytes:
    payload = b"".join(request.encode())
    return bytes((request.ID,)) + len(payload).to_bytes(HEADER_BYTES - 1, "little") + payload


class _Conversation:
    """FRAMES frames from strangers, in ticks with the witness between them."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self.node = Node(chance, chance.choice((ROOMY, TIGHT)))
        self.node.controller.late_share = chance.choice((0.0, 0.0, 0.5))
        self._full_disk = chance.random() < 0.2
        self.ledger = Ledger(self.node.broker, self.node.limits, self.node.metrics)
        self.refused: Counter[str] = Counter()
        self._gone: list[Client] = []
        """Connections that were closed, and may be answered still."""
        self._numbers = 0
        self._strangers = [self._stranger() for _ in range(STRANGERS)]
        self._witness = _Witness(Client(self.node, self.ledger))
        self._arena = bytearray(self.node.limits.arena_bytes)
        self._view = memoryview(self._arena)

    def _stranger(self) -> tuple[Client, Requester]:
        self._numbers += 10_000
        return Client(self.node, self.ledger), Requester(self._chance, self.node.broker, self._numbers)

    def run(self) -> None:
        chance, sent = self._chance, 0
        while sent < FRAMES:
            self.node.add_topics()
            received: list[tuple[Client, bytes]] = []
            for at in chance.sample(range(STRANGERS), chance.choice((1, 2, STRANGERS))):
                client, requester = self._strangers[at]
                count = chance.choice((1, 1, 2))
                sent += count
                data = b"".join(self._frames(requester) for _ in range(count))
                received.append((client, self._cut(client, data)))
            witness = self._witness.client
            if chance.random() < 0.4 and not witness.pending:
                data = self._witness.frames(chance)
                received.insert(chance.randrange(len(received) + 1), (witness, data))
            if self._full_disk:
                self.node.fill_disk(chance.random() < 0.3)
            self._tick(received)
            if chance.random() < 0.05:
                self._rest(chance.choice((10, 2_000, 10_000, 100_000_000)))

    def _frames(self, requester: Requester) -> bytes:
        chance = self._chance
        roll = chance.random()
        if roll < MEANT_SHARE:
            return requester.frames()
        everything = seeds.requests()
        seed = chance.choice(everything)
        if roll < MEANT_SHARE + ODD_SHARE:
            return mutate.frame(chance, seed.codec.ID, mutate_fields.request(chance, seed))
        body = mutate.payload(chance, seed.payload, chance.choice(everything).payload)
        return mutate.frame(chance, seed.codec.ID, body)

    def _cut(self, client: Client, data: bytes) -> bytes:
        """What the client had left, and this, as far as it comes in one piece."""
        most = self.node.limits.receive_bytes
        if self._chance.random() < 0.2:
            data = data[: self._chance.randrange(len(data) + 1)]
        return (client.pending + data)[:most]

    def _tick(self, received: list[tuple[Client, bytes]]) -> None:
        """As the server does: side by side in one buffer, one end, then the refused are closed."""
        self.node.broker.begin_tick()
        used = 0
        refused: list[Client] = []
        for client, data in received:
            if used + len(data) > len(self._arena):
                self.node.broker.end_tick()
                used = 0
            end = used + len(data)
            self._arena[used:end] = data
            reason = client.receive(self._arena, self._view, used, end)
            if reason:
                self.refused[reason] += 1
                refused.append(client)
            used = end
        self.node.broker.end_tick()
        self._arena[:] = bytes(len(self._arena))  # what was not written by now is lost, as in the server
        chance = self._chance
        self.node.controller.settle(chance.choice((0.0, 0.3, 1.0)))
        self.node.end_tick(sync=chance.random() < 0.6)
        self._hear()
        for at, (client, _) in enumerate(self._strangers):
            too_much = len(client.pending) > self.node.limits.receive_bytes // 2
            if client in refused or too_much or chance.random() < 0.01:
                self._close(at)
        self._check()

    def _hear(self) -> None:
        for client, _ in self._strangers:
            client.read_answers()
        for client in self._gone:
            client.read_answers()
        self._witness.hear(self._witness.client.read_answers(), self.node.disk_was_full)

    def _close(self, at: int) -> None:
        """Ends a connection; the stranger's next bytes come on a new one."""
        client = self._strangers[at][0]
        self.ledger.close(client.account, client.session.waits)
        client.session.close()
        self._gone.append(client)
        self._strangers[at] = self._stranger()

    def _rest(self, milliseconds: int) -> None:
        if self._witness.waits_for_the_disk or self._chance.random() < 0.7:
            self.node.end_tick(sync=True)
        self.node.rest(milliseconds)
        self._hear()
        self._check()

    def _check(self) -> None:
        clients = [self._witness.client, *(client for client, _ in self._strangers)]
        for client in clients:
            client.check()
        broker, metrics = self.node.broker, self.node.metrics
        assert metrics.waiting == sum(len(client.session.waits) for client in clients)
        assert broker.deadlines.entries == sum(client.session.wait_entries for client in clients)
        assert broker.deadlines.entries <= self.node.limits.all_wait_entries
        for partition in broker.partitions():
            assert not partition.staged_batches, "batches are staged after the tick"
            assert len(partition.waiters) <= self.node.limits.waits_per_partition

    def finish(self) -> None:
        """All that is under way ends; then the books are compared."""
        self.node.fill_disk(False)
        clients = [self._witness.client, *(client for client, _ in self._strangers)]
        for _ in range(_LAST_ROUNDS):
            self.node.controller.settle()
            self._rest(4_000_000)
            waiting = [client for client in clients if client.pending and not client.session.is_full]
            self._tick([(client, client.pending) for client in waiting])
            clients = [self._witness.client, *(client for client, _ in self._strangers)]
        for client in clients:
            assert not client.account.count(), f"never answered: {dict(client.account.owed)}"
            client.session.close()
        for partition in self.node.broker.partitions():
            name = f"{partition.topic_name}/{partition.number}"
            assert not partition.acks.staged, name
            assert not partition.acks.waiting, name
            assert not partition.uncommitted, name
            # Its coordinator watches the partition that it leads.
            assert not partition.waiters or partition.topic_name == GROUPS_TOPIC, name
            assert partition.log.state is LogState.ACTIVE, f"{name}: {partition.log.reason}"
            checked = partition.log.scrub(1 << 30)
            assert checked.wrapped, f"{name}: {checked.bad}"
        self.ledger.settle()
        self._witness.finish()


def conversation(chance: Random) -> Counter[str]:
    """One conversation of many frames. Returns refusals by reason."""
    log = BugLog()
    logger = logging.getLogger("tank_node")
    logger.addHandler(log)
    try:
        held = _Conversation(chance)
        held.run()
        held.finish()
    finally:
        logger.removeHandler(log)
    assert not log.bugs, log.bugs[0]
    assert not log.errors or held.node.disk_was_full, log.errors[0]
    return held.refused + held.node.metrics.refused
