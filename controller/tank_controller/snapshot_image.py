"""The state as it was at one entry, while later ones change it: what a snapshot is written of. Pure.

Making the bytes of a million partitions takes seconds. They are made in pieces, between which commands are
applied: an image holds what is small at once, and reads a partition when its turn comes. A partition that a
command is about to change before that is kept as it was (`keep`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice

from tank_controller import limits
from tank_controller.partition_keys import key_of
from tank_controller.state_messages import (
    SNAPSHOT_FORMAT,
    Stored,
    add_partition,
    broker_message,
    positions,
    producer_message,
)
from tank_controller.state_parts import PartitionState
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class _Topic:
    """A topic as it was. Its list of partitions only grows."""

    topic_id: int
    name: str
    replication_factor: int
    settings: dict[str, str]
    was_replicated: bool
    partitions: list[PartitionState]
    count: int


class SnapshotImage:
    """Of one moment. Reads states that are replaced and never changed, and partitions that are kept."""

    def __init__(self, stored: Stored) -> None:
        self._index = stored.index
        self._feature_level = stored.feature_level
        self._peer_key = stored.peer_key
        self._lossy_elections = stored.lossy_elections
        self._brokers = [broker_message(stored.brokers[broker_id]) for broker_id in sorted(stored.brokers)]
        self._topics = [
            _Topic(
                topic.topic_id,
                topic.name,
                topic.replication_factor,
                topic.settings,
                topic.was_replicated,
                topic.partitions,
                len(topic.partitions),
            )
            for _, topic in sorted(stored.topics.items())
        ]
        self._producers = dict(stored.producers)
        self._groups = {
            name: {topic_id: dict(partitions) for topic_id, partitions in topics.items()}
            for name, topics in stored.groups.items()
        }
        self._before: dict[int, PartitionState] = {}
        """By key: partitions that were changed since, as they were."""
        self._next = 0
        """What is written already is below this key."""
        self._end = key_of(stored.index + 1, 0)
        """Topics of this key and above came later."""

    def keep(self, key: int, partition: PartitionState) -> None:
        """The partition is about to change."""
        if self._next <= key < self._end and key not in self._before:
            self._before[key] = partition.copy()

    def pieces(self, items: int) -> Iterator[bytes]:
        """The snapshot's bytes, so many partitions, or positions, or a part's more at a time.

        The same state gives the same bytes, joined: everything is written in one order, and messages back to
        back are one message. So large topics and groups come in parts that begin at the same places.
        """
        head = pb.Snapshot(format=SNAPSHOT_FORMAT, index=self._index, brokers=self._brokers)
        tail = pb.Snapshot(
            feature_level=self._feature_level,
            peer_key=self._peer_key,
            lossy_elections=self._lossy_elections,
        )
        parts = chain(
            [(len(self._brokers), _bytes(head))],
            self._topic_parts(),
            self._producer_parts(),
            self._position_parts(),
            [(0, _bytes(tail))],
        )
        piece: list[bytes] = []
        size = 0
        for more, part in parts:
            piece.append(part)
            size += more
            if size >= items:
                yield b"".join(piece)
                piece.clear()
                size = 0
        yield b"".join(piece)

    def _topic_parts(self) -> Iterator[tuple[int, bytes]]:
        """With how many partitions each has, as the next two have producers and positions."""
        for topic in self._topics:
            for start in range(0, topic.count, limits.SNAPSHOT_PART):
                part = pb.Snapshot()
                message = part.topics.add(topic_id=topic.topic_id)
                if start == 0:
                    message.name = topic.name
                    message.replication_factor = topic.replication_factor
                    message.was_replicated = topic.was_replicated
                    for key, value in topic.settings.items():
                        message.settings.add(key=key, value=value)
                end = min(start + limits.SNAPSHOT_PART, topic.count)
                for number in range(start, end):
                    before = self._before.pop(key_of(topic.topic_id, number), None)
                    add_partition(message, number, before or topic.partitions[number])
                self._next = key_of(topic.topic_id, end)
                yield end - start, _bytes(part)
        self._next = self._end

    def _producer_parts(self) -> Iterator[tuple[int, bytes]]:
        for name, producer in self._producers.items():
            yield 1, _bytes(pb.Snapshot(producers=[producer_message(name, producer)]))

    def _position_parts(self) -> Iterator[tuple[int, bytes]]:
        for name, topics in self._groups.items():
            rest = positions(topics)
            while some := list(islice(rest, limits.SNAPSHOT_PART)):
                yield len(some), _bytes(pb.Snapshot(groups=[pb.Group(name=name, positions=some)]))


def _bytes(part: pb.Snapshot) -> bytes:
    return part.SerializeToString(deterministic=True)
