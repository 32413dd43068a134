"""The part of the state that brokers need, at one entry, written in pieces while later entries change the
state. Pure.
"""

from collections.abc import Iterator

from tank_controller import limits
from tank_controller.state.codec import SnapshotContents, broker_message, describe_topic
from tank_controller.state.iggy.iggy_codec import group_message, stream_message
from tank_controller.state.iggy.users_codec import user_message
from tank_controller.state.topics_image import TopicsImage
from tank_protos.generated import control_pb2 as pb

_PRODUCER_BYTES = 10
"""The greatest encoded size of an id."""


class ViewImage:
    """The state at one moment, for brokers whose views are empty."""

    def __init__(self, stored: SnapshotContents) -> None:
        self.topics = TopicsImage(stored.topics, stored.index)
        self._index = stored.index
        self._feature_level = stored.feature_level
        self._brokers = [broker_message(broker) for broker in stored.brokers.values()]
        self._ended = [producer.ended for producer in stored.producers.values() if producer.ended]
        self._streams = [stream for _, stream in sorted(stored.iggy.streams.items())]
        self._iggy_groups = list(stored.iggy.all_groups())
        self._users = [user for _, user in sorted(stored.users.by_number.items())]
        self._part = pb.ViewUpdate()

    def updates(self, items: int, part_bytes: int) -> Iterator[pb.ViewUpdate | None]:
        """The messages, in order, of about `part_bytes` bytes each; all but the last say that more follow.
        None follows about every `items` written partitions, so that the caller can pause. A topic is never in
        two messages.
        """
        self._begin_part()
        self._part.delta.brokers.extend(self._brokers)
        written = size = 0
        for more, grown in self._fill():
            written += more
            size += grown
            if grown and size >= part_bytes:
                self._part.more = True
                yield self._part
                self._begin_part()
                size = 0
            if written >= items:
                yield None
                written = 0
        yield self._part

    def _begin_part(self) -> None:
        delta = pb.Delta(index=self._index, feature_level=self._feature_level)
        self._part = pb.ViewUpdate(delta=delta, whole=True)

    def _fill(self) -> Iterator[tuple[int, int]]:
        """Writes into the part; yields (number of partitions, bytes), with the bytes at the end of each item
        and 0 before.
        """
        for topic in self.topics.topics:
            message = self._part.delta.topics.add()
            describe_topic(message, topic)
            end = 0
            while end < topic.count:
                start = end
                end = self.topics.write(message, topic, start, limits.SNAPSHOT_PART)
                yield end - start, 0
            yield 0, message.ByteSize()
        self.topics.written()
        for stream in self._streams:
            said = stream_message(stream)
            self._part.delta.streams.append(said)
            yield 1, said.ByteSize()
        for group in self._iggy_groups:
            named = group_message(group)
            self._part.delta.iggy_groups.append(named)
            yield 1, named.ByteSize()
        for user in self._users:
            shown = user_message(user)
            self._part.delta.users.append(shown)
            yield 1, shown.ByteSize()
        for ended in self._ended:
            self._part.delta.ended_producers.extend(ended)
            yield 1, len(ended) * _PRODUCER_BYTES
