"""A snapshot of the state at one entry, written in pieces while later entries change the state. Pure."""

from collections.abc import Iterator
from itertools import chain, islice

from tank_controller import limits
from tank_controller.state.codec import (
    SnapshotContents,
    broker_message,
    describe_topic,
    positions,
    producer_message,
)
from tank_controller.state.iggy.iggy_codec import group_message, stream_message
from tank_controller.state.iggy.users_codec import user_message
from tank_controller.state.topics_image import TopicsImage
from tank_protos import feature_levels
from tank_protos.generated import control_pb2 as pb


class SnapshotImage:
    """The state at one moment: small parts are copied, topics and partitions are in a `TopicsImage`."""

    def __init__(self, stored: SnapshotContents) -> None:
        self._index = stored.index
        self._replicates = stored.replicates
        self._feature_level = stored.feature_level
        self._peer_key = stored.peer_key
        self._lossy_elections = stored.lossy_elections
        self._demands_secret = stored.demands_secret
        self._brokers = [broker_message(stored.brokers[broker_id]) for broker_id in sorted(stored.brokers)]
        self.topics = TopicsImage(stored.topics, stored.index)
        self._producers = dict(stored.producers)
        self._groups = {
            name: {topic_id: dict(partitions) for topic_id, partitions in topics.items()}
            for name, topics in stored.groups.items()
        }
        self._streams = [stream for _, stream in sorted(stored.iggy.streams.items())]
        self._iggy_groups = list(stored.iggy.all_groups())
        self._users = [user for _, user in sorted(stored.users.by_number.items())]

    def pieces(self, items: int) -> Iterator[bytes]:
        """The snapshot's bytes, in pieces of about `items` partitions, positions or producers.

        The same state gives the same bytes, joined: everything is written in one order. Large topics and
        groups are written in several parts, which protobuf reads as one message.
        """
        level = self._feature_level
        form = feature_levels.formats(level).snapshot
        head = pb.Snapshot(format=form, index=self._index, brokers=self._brokers)
        tail = pb.Snapshot(
            replicates=self._replicates,
            peer_key=self._peer_key,
            lossy_elections=self._lossy_elections,
            demands_secret=self._demands_secret,
            feature_level=level,
        )
        parts = chain(
            [(len(self._brokers), _bytes(head))],
            self._topic_parts(),
            self._producer_parts(),
            self._position_parts(),
            self._iggy_parts(),
            self._user_parts(),
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
        """The topics as (number of partitions, bytes); the next two methods do the same for producers and
        positions.
        """
        for topic in self.topics.topics:
            end = 0
            while True:  # once for a topic without partitions, too
                start, part = end, pb.Snapshot()
                message = part.topics.add(topic_id=topic.topic_id)
                if start == 0:
                    describe_topic(message, topic)
                end = self.topics.write(message, topic, start, limits.SNAPSHOT_PART)
                yield end - start, _bytes(part)
                if end == topic.count:
                    break
        self.topics.written()

    def _producer_parts(self) -> Iterator[tuple[int, bytes]]:
        for name, producer in self._producers.items():
            yield 1, _bytes(pb.Snapshot(producers=[producer_message(name, producer)]))

    def _position_parts(self) -> Iterator[tuple[int, bytes]]:
        for name, topics in self._groups.items():
            rest = positions(topics)
            while some := list(islice(rest, limits.SNAPSHOT_PART)):
                yield len(some), _bytes(pb.Snapshot(groups=[pb.Group(name=name, positions=some)]))

    def _iggy_parts(self) -> Iterator[tuple[int, bytes]]:
        """Streams, and the groups of Iggy's clients, as (their number, bytes)."""
        streams = iter(self._streams)
        while some := list(islice(streams, limits.SNAPSHOT_PART)):
            yield len(some), _bytes(pb.Snapshot(streams=map(stream_message, some)))
        groups = iter(self._iggy_groups)
        while others := list(islice(groups, limits.SNAPSHOT_PART)):
            yield len(others), _bytes(pb.Snapshot(iggy_groups=map(group_message, others)))

    def _user_parts(self) -> Iterator[tuple[int, bytes]]:
        """Users one by one, which may have 64 KiB each, as (their number, bytes)."""
        for user in self._users:
            yield 1, _bytes(pb.Snapshot(users=[user_message(user)]))


def _bytes(part: pb.Snapshot) -> bytes:
    return part.SerializeToString(deterministic=True)
