"""All that a producer holds: messages gathered into bundles, by topic and partition; pure. See
`partition_queue` for what becomes of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tank_client import errors
from tank_client.producing.partition_queue import MESSAGE_OVERHEAD_BYTES, Delivery, Lane, PendingBundle
from tank_protos.bundle.cut import fill

MAX_BUNDLE_MESSAGES = 16_384
"""A bundle is full by its bytes or by this, so that one of tiny messages is decoded quickly, too."""


def as_bytes(content: object) -> bytes:
    """A key or value that is not bytes yet, as a copy. InvalidArgument for what is no buffer."""
    if isinstance(content, bytes | bytearray | memoryview):
        return bytes(content)
    raise errors.InvalidArgument(
        f"keys and values are bytes, not {type(content).__name__}: encode them first"
    )


class Columns(NamedTuple):
    """Messages as columns of the same length; `keys` None: none has one."""

    values: Sequence[bytes]
    keys: Sequence[bytes | None] | None
    timestamps_ms: Sequence[int]

    def part(self, start: int, stop: int) -> "Columns":
        """A slice of them."""
        keys = None if self.keys is None else self.keys[start:stop]
        return Columns(self.values[start:stop], keys, self.timestamps_ms[start:stop])

    def pick(self, places: Sequence[int]) -> "Columns":
        """Those at these places."""
        values, keys, stamps = self
        return Columns(
            [values[at] for at in places],
            None if keys is None else [keys[at] for at in places],
            [stamps[at] for at in places],
        )


@dataclass(slots=True, eq=False)
class TopicLanes:
    """A topic's lanes. `partitions` None: the broker does not tell how many there are."""

    partitions: int | None
    learned_ms: float
    stale: bool = False
    """The number is to be asked for again."""
    lanes: dict[int, Lane] = field(default_factory=dict)
    sticky: int = -1
    """Where messages without a key go for now; -1: to be drawn."""
    taking: PendingBundle | None = None
    """The open bundle there, once it has taken a message without a key: the next one is added at once."""


class Lanes:
    """All lanes of a producer: messages in, bundles out. Invariant: `held_bytes` is the memory of all
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
        self.topics: dict[str, TopicLanes] = {}
        # Lanes that hold something, in the order they began to.
        self.active: dict[Lane, None] = {}
        self.held_bytes = 0
        # A bundle was opened or sealed since the engine was told: there is something to wait for, or to send.
        self.news = False
        # Bundles sealed since a face let the engine run.
        self.full = 0
        # By `order`, rising: what is neither stored nor given up.
        self.unfinished: dict[int, PendingBundle] = {}

    @property
    def next_order(self) -> int:
        """The order of the next bundle that will be opened; those before it are lower."""
        return self._order

    def set_idempotent(self, idempotent: bool) -> None:
        """Before the first message: whether the broker recognizes repeats."""
        self._idempotent = idempotent

    def place(self, topic: str, key: bytes | None, partition: int | None) -> Lane:
        """The lane of a message: the partition named, the key's, or where messages without key go for now."""
        lanes = self.topics[topic]
        if partition is None:
            partitions = _known(lanes)
            if key:
                partition = self._hash(key) % partitions
            else:
                if lanes.sticky < 0:
                    lanes.sticky = int(self._random() * partitions)
                partition = lanes.sticky
        lane = lanes.lanes.get(partition)
        return lane if lane is not None else self._new_lane(topic, lanes, partition)

    def runs(self, topic: str, batch: Columns, partition: int | None) -> Iterable[tuple[int | None, Columns]]:
        """The messages by where they go, each run in their order: the partition that was named, the keys', or
        None for those without key."""
        if partition is not None or batch.keys is None or not any(batch.keys):
            return [(partition, batch)]
        partitions, key_hash = _known(self.topics[topic]), self._hash
        places: dict[int | None, list[int]] = {}
        for at, key in enumerate(batch.keys):
            place = key_hash(key) % partitions if key else None
            if place in places:
                places[place].append(at)
            else:
                places[place] = [at]
        return [(place, batch.pick(chosen)) for place, chosen in places.items()]

    def _new_lane(self, topic: str, lanes: TopicLanes, partition: int) -> Lane:
        if not 0 <= partition < (65536 if lanes.partitions is None else lanes.partitions):
            raise errors.UnknownPartition(topic, partition)
        in_flight = self._max_in_flight if self._idempotent else 1
        lane = lanes.lanes[partition] = Lane(topic, partition, self._idempotent, in_flight)
        return lane

    def add(
        self, topic: str, value: bytes, key: bytes | None, partition: int | None, timestamp_ms: int
    ) -> PendingBundle:
        """Adds one message; its bundle, which is sealed when it is full."""
        size = len(value)
        if key:
            if type(key) is not bytes:
                key = as_bytes(key)
            size += len(key)
        bundle = self.topics[topic].taking
        if bundle is None or key or partition is not None:
            bundle = self._bundle_for(topic, key, partition)
        values = bundle.values
        if key:
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
            self.seal(self.topics[topic].lanes[bundle.partition])
        return bundle

    def _bundle_for(self, topic: str, key: bytes | None, partition: int | None) -> PendingBundle:
        """The open bundle that takes such a message."""
        if key and len(key) > 255:
            raise errors.InvalidArgument(f"topic {topic!r}: a key of {len(key)} bytes; 255 at most")
        lane = self.place(topic, key, partition)
        bundle = lane.open or self._open(lane)
        if not key and partition is None:
            self.topics[topic].taking = bundle
        return bundle

    def extend(self, lane: Lane, run: Columns, at: int, free_bytes: int) -> tuple[int, PendingBundle]:
        """Adds messages of the run, from index `at` on: as many as its open bundle takes, or `free_bytes`, at
        least one. The index behind them, and the bundle."""
        bundle = lane.open or self._open(lane)
        room = min(self._batch_bytes - bundle.size_bytes, free_bytes)
        before = len(bundle.values)
        stop, size = fill(run.values, run.keys, at, MAX_BUNDLE_MESSAGES - before, room)
        values, keys, timestamps_ms = run if stop - at == len(run.values) else run.part(at, stop)
        if keys is not None and bundle.keys is None:
            bundle.keys = [None] * before
        if bundle.keys is not None:
            bundle.keys += keys if keys is not None else [None] * len(values)
        bundle.values += values
        bundle.timestamps += timestamps_ms
        bundle.size_bytes += size
        self.held_bytes += size + len(values) * MESSAGE_OVERHEAD_BYTES
        if bundle.size_bytes >= self._batch_bytes or len(bundle.values) >= MAX_BUNDLE_MESSAGES:
            self.seal(lane)
        return stop, bundle

    def _open(self, lane: Lane) -> PendingBundle:
        bundle = lane.open = PendingBundle(
            lane.topic, lane.partition, self._new_delivery(), self._now_ms(), self._order
        )
        self.unfinished[self._order] = bundle
        self._order += 1
        self.active[lane] = None
        self.news = True
        return bundle

    def seal(self, lane: Lane) -> None:
        """The lane's open bundle is to be sent; keyless messages go elsewhere now."""
        lane.seal()
        self.news = True
        self.full += 1
        lanes = self.topics.get(lane.topic)
        if lanes is not None and lanes.sticky == lane.partition:
            lanes.sticky, lanes.taking = -1, None

    def seal_due(self, opened_before_ms: float) -> None:
        """Seals what has lingered long enough."""
        for lane in self.active:
            if lane.open is not None and lane.open.opened_ms <= opened_before_ms:
                self.seal(lane)

    def release(self, bundle: PendingBundle) -> None:
        """The bundle is finished: its memory is free."""
        self.held_bytes -= bundle.memory_bytes
        del self.unfinished[bundle.order]

    @property
    def trouble(self) -> errors.TankError | None:
        """What keeps a bundle from being stored: its last failure; None: nothing that is known."""
        return next((b.last_error for b in self.unfinished.values() if b.last_error is not None), None)

    def tidy(self) -> None:
        """Forgets about lanes that hold nothing."""
        for lane in [lane for lane in self.active if lane.idle]:
            del self.active[lane]


def _known(lanes: TopicLanes) -> int:
    """How many partitions the topic has. FeatureMissing where the broker does not tell."""
    if lanes.partitions is None:
        raise errors.FeatureMissing("telling a topic's partitions", 0, "name the partition of each message")
    return lanes.partitions
