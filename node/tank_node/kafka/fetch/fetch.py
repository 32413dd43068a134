"""Fetch (1): stored batches go out as ranges of files; without enough of them the request waits."""

from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.kafka.errors import KafkaError, outcome_of
from tank_node.kafka.fetch.bundle_converter import converter_of
from tank_node.kafka.fetch.fetch_answer import NOT_TOLD, FetchAnswer
from tank_node.kafka.fetch.fetch_context import FetchContext
from tank_node.kafka.fetch.fetch_forms import learn
from tank_node.kafka.fetch.fetch_read import FetchRead
from tank_node.kafka.fetch.fetch_sessions import NO_SESSION, sessions_of
from tank_node.kafka.fetch.partition_read import PartitionRead
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_protos.generated.kafka.fetch_request import FetchRequest

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaCall

_SESSIONS_SINCE: Final = 7
_REPLICA_STATE_SINCE: Final = 15
_DEBUGGING: Final = -2
"""The replica id of a reader that takes any replica, up to its own mark."""
_KIND: Final = "fetch"
"""The name of the request in the counts of errors."""

_Told: TypeAlias = tuple[PartitionRead, int, int]
"""A partition that an answer names, its high-water mark, and the start of its log; offsets."""


def fetch(call: "KafkaCall", body: memoryview) -> None:
    """Answers at once when there is enough, an error, or nothing to wait for; else lets the request wait."""
    request = FetchRequest.decode(body, call.version)
    learn(call, body, request, _carry_out)
    _carry_out(call, request)


def _carry_out(call: "KafkaCall", request: FetchRequest) -> None:
    replica_id = request.replica_id
    if call.version >= _REPLICA_STATE_SINCE:
        replica_id = request.replica_state.replica_id
    if replica_id >= 0:
        # Replicas of this cluster are pushed to. A stranger's fetch must not count as a copy.
        _refuse(call, request, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
        return
    session = call.session
    broker, limits = session.broker, session.limits
    context = FetchContext(sessions_of(broker), call.version, request, broker.tick.monotonic_ms)
    if context.error:
        _refuse(call, request, context.error)
        return
    max_bytes = min(max(request.max_bytes, 0), limits.kafka_fetch_bytes)
    targets = context.targets(request)
    is_debugging = replica_id == _DEBUGGING
    read = FetchRead(
        broker, converter_of(broker), call.version, targets, max_bytes, is_debugging=is_debugging
    )
    read.read()
    # More than an answer may hold would never come. But a client that waits for anything, waits.
    min_bytes = min(request.min_bytes, max(max_bytes, 1))
    wait_ms = min(request.max_wait_ms, limits.max_wait_ms)
    if not (wait_ms <= 0 or not targets or read.is_decided or min_bytes <= read.found_bytes):
        partitions = read.partitions()
        if session.may_wait(partitions, len(targets)):
            RecordsWait(call, read, context, min_bytes).begin(partitions, wait_ms)
            return
    session.metrics.consumed_now += 1
    _answer(call, read, context)


class RecordsWait(Waiter[Partition]):
    """A request that waits for records. It ends when `min_bytes` were found and appended in its partitions
    together, at an error in one of them, or at its deadline with what there is."""

    __slots__ = (
        "_began_us", "_by_partition", "_call", "_context", "_gathered", "_looking", "_min_bytes", "_read",
    )  # fmt: skip

    def __init__(self, call: "KafkaCall", read: FetchRead, context: FetchContext, min_bytes: int) -> None:
        super().__init__()
        self._call = call
        self._read = read
        self._context = context
        self._min_bytes = min_bytes
        self._gathered = read.found_bytes
        """The bytes that are found already, and those appended since, of all partitions together."""
        self._looking = False
        """True while this request reads its partitions. Reading may find damage, and then calls `lost` of
        every request that waits for the partition, this one included."""
        self._began_us = call.session.broker.tick.monotonic_us
        self._by_partition: dict[Partition, PartitionRead] = {}

    def begin(self, partitions: tuple[Partition, ...], wait_ms: int) -> None:
        """Begins the wait for these partitions, which are all that the request names."""
        for target in self._read.targets:
            partition = target.partition
            if partition is not None:
                other = self._by_partition.get(partition)
                if other is None or target.wanted.fetch_offset < other.wanted.fetch_offset:
                    self._by_partition[partition] = target
        self._read.release()
        self.entries = len(self._read.targets)
        self._call.on_close = self.close
        self._call.session.begin_wait(self, partitions, wait_ms)

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        target = self._by_partition[partition]
        if target.wanted.fetch_offset >= partition.high_water_mark:
            return
        if appended_bytes:  # 0: a new leader has not appended these batches, so that their size is not known
            room = max(target.wanted.partition_max_bytes, 1) - target.available
            counted = min(appended_bytes, max(room, 0))
            target.available += counted
            self._gathered += counted
            if self._gathered < self._min_bytes:
                return
        self._look()

    def end_known(self, partition: Partition) -> None:
        self._look()  # an offset beyond the end gets its error now

    def epoch_began(self, partition: Partition) -> None:
        self._look()

    def lost(self, partition: Partition) -> None:
        if not (self._looking or self.done):
            self._look()

    def expired(self) -> None:
        self._looking = True
        self._read.read()
        self._finish()

    def close(self) -> None:
        """Ends the wait: the client is gone."""
        self._call.session.end_wait(self)

    def _look(self) -> None:
        read = self._read
        self._looking = True
        read.read()
        self._looking = False
        if read.is_decided or read.found_bytes >= self._min_bytes:
            self._finish()
        else:
            self._gathered = read.found_bytes
            read.release()

    def _finish(self) -> None:
        session = self._call.session
        session.end_wait(self)
        waited_us = session.broker.tick.monotonic_us - self._began_us
        session.metrics.wait_latency.add(waited_us / 1_000_000)
        _answer(self._call, self._read, self._context)


def _answer(call: "KafkaCall", read: FetchRead, context: FetchContext) -> None:
    """Sends what was read. In a session that goes on: only partitions with records, an error, or a changed
    mark or start."""
    if context.is_overtaken:
        read.release()
        _send(call, [], KafkaError.INVALID_FETCH_SESSION_EPOCH, NO_SESSION, committed=False)
        return
    if context.session is None:
        read.hide_unknown_ends()
    session_id = context.open_for(read.targets, call.session.broker.tick.monotonic_ms)
    if session_id:
        call.session.fetch_session_id = session_id
    told: list[_Told] = []
    for target in read.targets:
        mark, start = _ends(target)
        if not context.leaves_out(target, mark, start):
            told.append((target, mark, start))
            context.told(target, mark, start)
    _send(call, told, KafkaError.NONE, session_id, committed=context.committed)


def _ends(target: PartitionRead) -> tuple[int, int]:
    """The high-water mark and the log's start as offsets, if the answer may show them."""
    partition = target.partition
    if partition is None or target.error not in (KafkaError.NONE, KafkaError.OFFSET_OUT_OF_RANGE):
        return NOT_TOLD, NOT_TOLD
    return partition.high_water_mark, max(partition.log.first_available, 1) - 1


def _refuse(call: "KafkaCall", request: FetchRequest, error: KafkaError) -> None:
    """Answers with an error for the whole request, or for each partition where the version has no such
    place."""
    told: list[_Told] = []
    if call.version < _SESSIONS_SINCE:
        for topic in request.topics:
            for wanted in topic.partitions:
                target = PartitionRead(topic.topic, topic.topic_id, wanted, None)
                target.error = error
                told.append((target, NOT_TOLD, NOT_TOLD))
    _send(call, told, error, NO_SESSION, committed=False)


def _send(
    call: "KafkaCall", told: list[_Told], error: KafkaError, session_id: int, *, committed: bool
) -> None:
    """Writes and sends the answer. `told`: the partitions to name, with mark and start; neighbours of one
    topic are named together."""
    groups: list[list[_Told]] = []
    for one in told:
        target = one[0]
        before = groups[-1][0][0] if groups else None
        if before is None or before.topic != target.topic or before.topic_id != target.topic_id:
            groups.append([])
        groups[-1].append(one)
    made = FetchAnswer(call.session, call.version, error, session_id, len(groups), committed=committed)
    sent_bytes = 0
    errors = [error] if error else []
    for group in groups:
        made.topic(group[0][0].topic, group[0][0].topic_id, len(group))
        for target, mark, start in group:
            sent_bytes += target.length
            if target.error:
                errors.append(target.error)
            made.partition(target, mark, start)
        made.end_topic()
    metrics = call.session.metrics
    metrics.consumed_bytes += sent_bytes
    for each in errors:
        metrics.errors[_KIND, outcome_of(each)] += 1
    call.answer_pieces(made.finish(), outcome_of(errors[0] if errors else KafkaError.NONE))
