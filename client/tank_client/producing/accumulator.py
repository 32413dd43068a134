"""The messages that a producer holds, gathered into bundles by topic and partition; pure. `partition_queue`
has the later life of a bundle.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from tank_client import errors
from tank_client.producing.partition_queue import (
    MESSAGE_OVERHEAD_BYTES,
    Delivery,
    PartitionQueue,
    PendingBundle,
    RecordHeaders,
)
from tank_client.producing.topic_format import TopicFormat, check_message
from tank_protos.bundle import MAX_KEY_BYTES
from tank_protos.bundle.cut import fill

MAX_BUNDLE_MESSAGES = 16_384
"""A bundle is full at `batch_bytes` or at this many messages, so that a bundle of tiny messages is decoded
quickly, too.
"""


def as_bytes(content: object) -> bytes:
    """Returns a copy, as bytes, of a key or value of another type. Raises InvalidArgument for a value that is
    not a buffer.
    """
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise errors.InvalidArgument(
        f"keys and values are bytes, not {type(content).__name__}: encode them first"
    )


class InputColumns(NamedTuple):
    """Messages as columns of the same length; `keys` None: no message has a key; `headers` None: no message
    has headers."""

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None
    timestamps_ms: Sequence[int]
    headers: Sequence[RecordHeaders] | None = None
    has_null: bool = False
    """Whether a value is None."""

    def part(self, start: int, stop: int) -> "InputColumns":
        """A slice of them."""
        keys = None if self.keys is None else self.keys[start:stop]
        headers = None if self.headers is None else self.headers[start:stop]
        return InputColumns(
            self.values[start:stop], keys, self.timestamps_ms[start:stop], headers, self.has_null
        )

    def pick(self, places: Sequence[int]) -> "InputColumns":
        """The messages at these indexes."""
        values, keys, stamps, headers, has_null = self
        return InputColumns(
            [values[at] for at in places],
            None if keys is None else [keys[at] for at in places],
            [stamps[at] for at in places],
            None if headers is None else [headers[at] for at in places],
            has_null,
        )

    def fill(self, start: int, most: int, room: int) -> tuple[int, int]:
        """How many messages from `start` on fit, as `tank_protos.bundle.cut.fill` says; headers count,
        too."""
        values, keys, _, headers, has_null = self
        if headers is None and not has_null:
            return fill(cast(Sequence[bytes], values), keys, start, most, room)
        size, end = 0, min(start + most, len(values))
        while start < end:
            size += len(values[start] or b"") + (len(keys[start] or b"") if keys is not None else 0)
            if headers is not None:
                size += headers_bytes(headers[start])
            start += 1
            if size >= room:
                break
        return start, size


def headers_bytes(headers: RecordHeaders) -> int:
    """The size of headers, as the producer's memory counts it."""
    return sum(len(name) + len(value or b"") + MESSAGE_OVERHEAD_BYTES for name, value in headers)


@dataclass(slots=True, eq=False)
class TopicQueues:
    """A topic's queues. `partitions` is None when the broker does not give their number."""

    partitions: int | None
    learned_ms: float
    format: TopicFormat = TopicFormat.BUNDLES
    stale: bool = False
    """Whether the number of partitions must be asked for again."""
    by_partition: dict[int, PartitionQueue] = field(default_factory=dict)
    sticky: int = -1
    """The partition that messages without a key go to at present; -1: the next one is drawn at random."""
    taking: PendingBundle | None = None
    """The open bundle of that partition, once it has taken a message without a key: the next such message is
    added to it at once.
    """


class Accumulator:
    """All queues of a producer: messages in, bundles out. Invariant: `held_bytes` is the memory of all
    bundles held."""

    __slots__ = (
        "_batch_bytes",
        "_hash",
        "_idempotent",
        "_max_in_flight",
        "_new_delivery",
        "_now_ms",
        "_order",
        "_random",
        "active",
        "full",
        "held_bytes",
        "news",
        "topics",
        "unfinished",
    )

    def __init__(
        self,
        *,
        batch_bytes: int,
        max_in_flight: int,
        new_delivery: Callable[[], Delivery],
        key_hash: Callable[[bytes], int],
        random: Callable[[], float],
        now_ms: Callable[[], float],
    ) -> None:
        self._batch_bytes = batch_bytes
        self._max_in_flight = max_in_flight
        self._new_delivery = new_delivery
        self._hash = key_hash
        self._random = random
        self._now_ms = now_ms
        self._order = 0
        self._idempotent = False
        self.topics: dict[str, TopicQueues] = {}
        # The queues that hold a message, in the order in which they got their first.
        self.active: dict[PartitionQueue, None] = {}
        self.held_bytes = 0
        # Whether a bundle was opened or sealed since the engine was last woken.
        self.news = False
        # The number of bundles sealed since the program's send last let the engine run.
        self.full = 0
        # By `order`, rising: bundles that are neither stored nor given up.
        self.unfinished: dict[int, PendingBundle] = {}

    @property
    def next_order(self) -> int:
        """The order of the next bundle that will be opened; earlier bundles have lower ones."""
        return self._order

    def set_idempotent(self, idempotent: bool) -> None:
        """Sets whether the broker recognizes repeats. Called before the first message."""
        self._idempotent = idempotent

    def place(self, topic: str, key: bytes | None, partition: int | None) -> PartitionQueue:
        """The queue of a message: that of the named partition, of the key's partition, or of the present
        partition for messages without a key.
        """
        queues = self.topics[topic]
        if partition is None:
            partitions = _known(queues)
            if key or (key is not None and queues.format is TopicFormat.RECORDS):
                partition = self._hash(key) % partitions
            else:
                if queues.sticky < 0:
                    queues.sticky = int(self._random() * partitions)
                partition = queues.sticky
        queue = queues.by_partition.get(partition)
        return queue if queue is not None else self._new_queue(topic, queues, partition)

    def runs(
        self, topic: str, batch: InputColumns, partition: int | None
    ) -> Iterable[tuple[int | None, InputColumns]]:
        """Splits messages by their partition, each run in order: the named partition, the partitions of the
        keys, or None for messages without key. Raises the errors of `check_message`.
        """
        queues = self.topics[topic]
        self._check(topic, queues.format, batch)
        # An empty key is one only where the stored format tells it from none.
        has_empty_keys = queues.format is TopicFormat.RECORDS
        if partition is not None or batch.keys is None or not (has_empty_keys or any(batch.keys)):
            return [(partition, batch)]
        partitions, key_hash = _known(queues), self._hash
        places: dict[int | None, list[int]] = {}
        for at, key in enumerate(batch.keys):
            has_key = key is not None if has_empty_keys else bool(key)
            place = key_hash(key) % partitions if has_key and key is not None else None
            if place in places:
                places[place].append(at)
            else:
                places[place] = [at]
        return [(place, batch.pick(chosen)) for place, chosen in places.items()]

    @staticmethod
    def _check(topic: str, stored: TopicFormat, batch: InputColumns) -> None:
        if stored is not TopicFormat.RECORDS:
            longest = max(map(len, filter(None, batch.keys or ())), default=0)
            has_headers = batch.headers is not None and any(batch.headers)
            check_message(
                topic, stored, has_headers=has_headers, has_null=batch.has_null, longest_key=longest
            )

    def _new_queue(self, topic: str, queues: TopicQueues, partition: int) -> PartitionQueue:
        if not 0 <= partition < (65536 if queues.partitions is None else queues.partitions):
            raise errors.UnknownPartition(topic, partition)
        in_flight = self._max_in_flight if self._idempotent else 1
        queue = queues.by_partition[partition] = PartitionQueue(topic, partition, self._idempotent, in_flight)
        return queue

    def add(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        partition: int | None,
        timestamp_ms: int,
        headers: RecordHeaders = (),
    ) -> PendingBundle:
        """Adds one message; returns its bundle, which is sealed when it is full. Raises the errors of
        `check_message`."""
        size = 0 if value is None else len(value)
        queues = self.topics[topic]
        if key is not None:
            if type(key) is not bytes:
                key = as_bytes(key)
            if not key and queues.format is not TopicFormat.RECORDS:
                key = None  # bundles hold no empty key
            else:
                size += len(key)
        if headers or value is None:
            check_message(
                topic, queues.format, has_headers=bool(headers), has_null=value is None, longest_key=0
            )
            size += headers_bytes(headers)
        bundle = queues.taking
        if bundle is None or key is not None or partition is not None:
            bundle = self._bundle_for(topic, key, partition)
        values = bundle.values
        if headers:
            bundle.headers[len(values)] = headers
        if key is not None:
            if bundle.keys is None:
                bundle.keys = [None] * len(values)
            bundle.keys.append(key)
        elif bundle.keys is not None:
            bundle.keys.append(None)
        values.append(value)
        bundle.timestamps.append(timestamp_ms)
        self.held_bytes += size + MESSAGE_OVERHEAD_BYTES
        bundle.size_bytes = size = bundle.size_bytes + size
        if size >= self._batch_bytes or len(values) >= MAX_BUNDLE_MESSAGES:
            self.seal(self.topics[topic].by_partition[bundle.partition])
        return bundle

    def _bundle_for(self, topic: str, key: bytes | None, partition: int | None) -> PendingBundle:
        """The open bundle that takes such a message."""
        if key is not None and len(key) > MAX_KEY_BYTES:
            stored = self.topics[topic].format
            check_message(topic, stored, has_headers=False, has_null=False, longest_key=len(key))
        queue = self.place(topic, key, partition)
        bundle = queue.open or self._open(queue)
        if key is None and partition is None:
            self.topics[topic].taking = bundle
        return bundle

    def extend(
        self, queue: PartitionQueue, run: InputColumns, at: int, free_bytes: int
    ) -> tuple[int, PendingBundle]:
        """Adds messages of the run, from index `at` on: as many as its open bundle takes, or `free_bytes`, at
        least one. Returns the index behind them, and the bundle.
        """
        bundle = queue.open or self._open(queue)
        room = min(self._batch_bytes - bundle.size_bytes, free_bytes)
        before = len(bundle.values)
        stop, size = run.fill(at, MAX_BUNDLE_MESSAGES - before, room)
        values, keys, timestamps_ms, headers, _ = run if stop - at == len(run.values) else run.part(at, stop)
        if headers is not None:
            bundle.headers.update((before + place, found) for place, found in enumerate(headers) if found)
        if keys is not None and bundle.keys is None:
            bundle.keys = [None] * before
        if bundle.keys is not None:
            bundle.keys += keys if keys is not None else [None] * len(values)
        bundle.values += values
        bundle.timestamps += timestamps_ms
        bundle.size_bytes += size
        self.held_bytes += size + len(values) * MESSAGE_OVERHEAD_BYTES
        if bundle.size_bytes >= self._batch_bytes or len(bundle.values) >= MAX_BUNDLE_MESSAGES:
            self.seal(queue)
        return stop, bundle

    def _open(self, queue: PartitionQueue) -> PendingBundle:
        bundle = queue.open = PendingBundle(
            queue.topic, queue.partition, self._new_delivery(), self._now_ms(), self._order
        )
        topic = self.topics.get(queue.topic)
        bundle.as_records = topic is not None and topic.format is TopicFormat.RECORDS
        self.unfinished[self._order] = bundle
        self._order += 1
        self.active[queue] = None
        self.news = True
        return bundle

    def seal(self, queue: PartitionQueue) -> None:
        """Closes the queue's open bundle, to be sent; messages without key go to another partition from now
        on.
        """
        queue.seal()
        self.news = True
        self.full += 1
        queues = self.topics.get(queue.topic)
        if queues is not None and queues.sticky == queue.partition:
            queues.sticky, queues.taking = -1, None

    def seal_due(self, opened_before_ms: float) -> None:
        """Seals bundles that have lingered long enough."""
        for queue in self.active:
            if queue.open is not None and queue.open.opened_ms <= opened_before_ms:
                self.seal(queue)

    def release(self, bundle: PendingBundle) -> None:
        """Takes a finished bundle out, and frees its memory."""
        self.held_bytes -= bundle.memory_bytes
        del self.unfinished[bundle.order]

    @property
    def trouble(self) -> errors.TankError | None:
        """The last failure of a bundle that is not stored yet; None when there is none."""
        return next((b.last_error for b in self.unfinished.values() if b.last_error is not None), None)

    def tidy(self) -> None:
        """Forgets empty queues."""
        for queue in [queue for queue in self.active if queue.idle]:
            del self.active[queue]


def _known(queues: TopicQueues) -> int:
    """Returns the number of the topic's partitions. Raises FeatureMissing where the broker does not give
    it."""
    if queues.partitions is None:
        raise errors.FeatureMissing("listing a topic's partitions", 0, "name the partition of each message")
    return queues.partitions
