"""What clients are owed and what they were told, written down beside the broker, and compared with it."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from tank_node.broker.broker import Broker
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.tank.fetch import FetchWait
from tank_protos import bundle
from tank_protos.generated.tank import (
    REQUESTS,
    RESPONSES,
    AppendStoredRequest,
    AwaitEndsRequest,
    ConsumeRequest,
    ConsumeResponse,
    FetchStoredRequest,
    GroupRequest,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    PartitionControlRequest,
    PartitionSizesRequest,
    Ping,
    ProduceRecordBatchesRequest,
    ProduceRecordBatchesResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceWithBaseSeqNumRequest,
    ReplicaIdRequest,
)
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tank_protos.wire.names import GROUPS_TOPIC

_ANSWERED_AS = {5: 1}
"""Produce with numbers is answered as a produce."""
_BETWEEN_BROKERS = (9, 90, 91, 92, 93)
"""What no session takes: the original TANK's replication, and what comes inside GroupRequest alone."""
_TAKEN = {*REQUESTS, Ping.ID}
_FOR_BROKERS = (
    GroupRequest, FetchStoredRequest, AppendStoredRequest, PartitionControlRequest, PartitionSizesRequest,
)  # fmt: skip
"""What brokers alone send each other, on connections for forwarded requests."""
_CARRIES_BUNDLES = (1, 5, 66, 79, 87)
_ENTRY_BYTES = {66: 15, 79: 10}
"""By message: the size of the smallest entry with a batch. Too short requests are not
counted."""
_NUMBERED = {66: "idempotent_produce", 79: "produce_record_batches"}
"""By message: the name of its errors in the metrics."""
_PEER_VERSIONS = range(0x100, 0x10000)
_ENTRY_ERRORS = {
    "invalid_bundle": ("invalid_bundle", "too_large_to_renumber"),
    "too_large": ("bundle_too_large",),
    "sequence_number_not_above_end": ("number_out_of_range",),
    "out_of_order_sequence": ("gap",),
    "unknown_producer": ("unknown",),
}
"""Errors of single bundles, and the reasons that they are counted under as refusals."""

Place = tuple[str, int, int]
"""A topic's name and id, and a partition."""


@dataclass(slots=True)
class Owed:
    """A request that was taken and is not answered."""

    batches: list[tuple[Place, bytes]] | None = None
    """Of a produce: each of its bundles, in the order of the answer's results; None: not known."""


@dataclass(slots=True)
class Account:
    """What one connection is owed, by the id of the answer's frame and the request's number."""

    owed: dict[tuple[int, int], list[Owed]] = field(default_factory=lambda: defaultdict(list))
    closed: bool = False
    """Nobody reads the answers any more; they are counted all the same."""

    def count(self) -> int:
        """How many requests are not answered."""
        return sum(map(len, self.owed.values()))


class Ledger:
    """The books of one conversation."""

    def __init__(self, broker: Broker, limits: Limits, metrics: Metrics) -> None:
        self._broker, self._limits, self._metrics = broker, limits, metrics
        self.taken: Counter[int] = Counter()
        """Requests that the broker took or refused in their handler, by message id."""
        self.errors: Counter[str] = Counter()
        """Error codes read in answers, by the kind that the broker counts them under."""
        self.acknowledged: dict[Place, list[bytes]] = defaultdict(list)
        self.sent: set[bytes] = set()
        """Every batch that somebody produced without choosing its numbers."""

        self._before: dict[str, int] = {}
        """The topics by their ids before the frames that are taken now."""

    # --- requests --------------------------------------------------------------------------------

    def begin(self) -> None:
        """Frames are about to be taken, which may delete the topics of those before them."""
        self._before = self._topics()

    def _topics(self) -> dict[str, int]:
        return {name: topic.view.topic_id for name, topic in self._broker.topics.items()}

    def refusal(self, message_id: int, length: int, payload: bytes | None) -> str:
        """Why a frame is refused and its connection closed; empty for one that is taken.

        `payload` is None as long as it has not come as a whole.
        """
        if message_id in _BETWEEN_BROKERS or message_id not in _TAKEN:
            return "unknown_message"
        bound = self._limits.frame_bytes if message_id in _CARRIES_BUNDLES else self._limits.request_bytes
        if length > bound:
            return "frame_too_large"
        if payload is None:
            return ""
        self.taken[message_id] += 1
        if message_id == Ping.ID:
            return "malformed" if payload else ""
        if message_id == ReplicaIdRequest.ID and len(payload) == 2:
            return "old_peer"
        try:
            request = REQUESTS[message_id].decode(payload)
        except WireError as error:
            return error.reason
        return self._odd(request)

    def _odd(self, request: Message) -> str:
        """Well-formed requests that are refused all the same."""
        if isinstance(request, ReplicaIdRequest):
            return "wrong_peer"
        if isinstance(request, _FOR_BROKERS):
            return "malformed"
        if isinstance(request, ConsumeRequest):
            topics = self._broker.topics
            known = [topic for topic in request.topics if topic.name in topics]
            asked = [entry.partition for topic in known for entry in topic.partitions]
            return "out_of_range" if 0xFFFF in asked else ""
        if isinstance(request, ProduceWithBaseSeqNumRequest):
            return "not_a_peer" if request.client_version in _PEER_VERSIONS else ""
        if isinstance(request, IdempotentProduceRequest | ProduceRecordBatchesRequest):
            entries = sum(len(topic.partitions) for topic in request.topics)
            size = sum(map(len, request.encode()))
            most = self._limits.produce_entries
            entry_bytes = _ENTRY_BYTES[request.ID]
            return "out_of_range" if entries > most and size > entry_bytes * most else ""
        return ""

    def take(self, account: Account, message_id: int, payload: bytes) -> None:
        """The broker took this request: an answer is owed."""
        if message_id == Ping.ID:
            return
        request = REQUESTS[message_id].decode(payload)
        owed = Owed()
        if isinstance(request, ProduceRequest):
            owed.batches = self._batches(request) if self._before == self._topics() else None
            for topic in request.topics:
                self.sent.update(bytes(entry.bundle) for entry in topic.partitions)
        elif isinstance(request, IdempotentProduceRequest):
            for named in request.topics:
                self.sent.update(bytes(one.bundle) for one in named.partitions)
        elif isinstance(request, ProduceWithBaseSeqNumRequest):
            for chosen in request.topics:
                self.sent.update(bundle.as_batch(one.bundle) for one in chosen.partitions)
        number: int = request.request_id  # type: ignore[attr-defined]
        under_way = account.owed[_ANSWERED_AS.get(message_id, message_id), number]
        under_way.append(owed)
        if len(under_way) > 1:  # answers to requests with the same number cannot be told apart
            for one in under_way:
                one.batches = None

    def close(self, account: Account, waits: Iterable[Waiter[Partition]]) -> None:
        """The connection ends, and its waits with it, unanswered; the rest of it is settled."""
        account.closed = True
        for wait in waits:
            kind = ConsumeRequest.ID if isinstance(wait, FetchWait) else AwaitEndsRequest.ID
            self.taken[kind] -= 1

    def _batches(self, request: ProduceRequest) -> list[tuple[Place, bytes]]:
        found: list[tuple[Place, bytes]] = []
        for wanted in request.topics:
            topic = self._broker.topics.get(wanted.name)
            if topic is None:
                found.append(((wanted.name, 0, 0), b""))
                continue
            topic_id = topic.view.topic_id
            found += [
                ((wanted.name, topic_id, one.partition), bytes(one.bundle)) for one in wanted.partitions
            ]
        return found

    # --- answers ---------------------------------------------------------------------------------

    def answer(self, account: Account, message_id: int, payload: bytes) -> None:
        """An answer came: it was owed, and what it says is written down."""
        found = _decoded(message_id, payload)
        if message_id == Ping.ID:
            return
        number: int = found.request_id  # type: ignore[attr-defined]
        owed = account.owed.get((message_id, number))
        assert owed, f"nobody asked for this answer: {found}"
        one = owed.pop()
        if not owed:
            del account.owed[message_id, number]
        if isinstance(found, ProduceResponse):
            self.errors["produce"] += sum(result.error != 0 for result in found.results)
            if one.batches is not None:
                self._acknowledge(one.batches, [result.error for result in found.results])
        elif isinstance(found, IdempotentProduceResponse | ProduceRecordBatchesResponse):
            results = [result for topic in found.topics for result in topic.partitions]
            self.errors[_NUMBERED[found.ID]] += sum(result.error != 0 for result in results)
            assert all(result.error == 0 or result.first == 0 for result in results), found
        elif isinstance(found, ConsumeResponse):
            flags = [entry.flag for topic in found.topics for entry in topic.partitions]
            self.errors["consume"] += sum(flag not in (0, 0xFE) for flag in flags)
            self.errors["consume"] += sum(topic.unknown for topic in found.topics)

    def _acknowledge(self, batches: list[tuple[Place, bytes]], errors: list[int]) -> None:
        assert len(batches) == len(errors), f"{len(errors)} results for {len(batches)} bundles"
        for (place, batch), error in zip(batches, errors, strict=True):
            if not error:
                self.acknowledged[place].append(batch)

    # --- the end ---------------------------------------------------------------------------------

    def settle(self) -> None:
        """All is answered: the counters say what the answers said, and the logs hold what they promised."""
        counted: Counter[str] = Counter()
        entries: Counter[str] = Counter()
        for (kind, name), count in self._metrics.errors.items():
            counted[kind] += count
            if kind != "consume":
                entries[name] += count
        assert counted == +self.errors, f"counted {counted}, answered {self.errors}"
        for name, reasons in _ENTRY_ERRORS.items():
            refused = sum(self._metrics.refused[reason] for reason in reasons)
            assert entries[name] == refused, f"{entries[name]} answers say {name}, {refused} refusals counted"
        requests: Counter[int] = Counter()
        for (message_id, _), count in self._metrics.requests.items():
            requests[message_id] += count
        assert requests == +self.taken, f"counted {requests}, taken {self.taken}"
        for topic in self._broker.topics.values():
            if topic.name == GROUPS_TOPIC:
                continue  # the broker's own
            for number, partition in topic.partitions.items():
                self._compare((topic.name, topic.view.topic_id, number), partition)

    def _compare(self, place: Place, partition: Partition) -> None:
        """What was acknowledged is stored, as it was sent, and nothing else is."""
        stored = stored_batches(partition)
        for batch in stored:
            # Those with chosen numbers are stored in another form.
            header = bundle.validate(memoryview(batch))
            assert batch in self.sent or header.sparse, f"{place}: nobody sent {batch[:200].hex()}"
        if partition.log.first_available > 1:
            return  # some of it is gone by right
        lost = Counter(self.acknowledged.get(place, [])) - Counter(stored)
        assert not lost, f"{place}: acknowledged and not stored: {next(iter(lost)).hex()[:400]}"


def _decoded(message_id: int, payload: bytes) -> Message:
    """An answer, in the lowest version in which it can be read."""
    kind = (RESPONSES | {Ping.ID: Ping})[message_id]
    lowest, highest = kind.VERSIONS
    for version in range(lowest, highest):
        try:
            return kind.decode(payload, version)
        except WireError:
            pass
    return kind.decode(payload, highest)


def stored_batches(partition: Partition) -> list[bytes]:
    """Every batch of a partition, length and all, as its file holds it."""
    log = partition.log
    found: list[bytes] = []
    number = log.first_available or 1
    while (stretch := log.read(number, 1 << 20, log.written)) is not None:
        data = stretch.file.files.disk.read_at(stretch.file.fd, stretch.length, stretch.position)
        stretch.file.release()
        at = 0
        while at < len(data):
            length, start = varint.read(data, at)
            found.append(data[at : start + length])
            at = start + length
        number = stretch.last + 1
    return found
