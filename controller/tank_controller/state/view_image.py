"""What brokers need of the state as it was at one entry, in pieces, while later ones change it. Pure."""

from collections.abc import Iterator

from tank_controller import limits
from tank_controller.state.codec import Stored, broker_message, describe_topic
from tank_controller.state.topics_image import TopicsImage
from tank_protos.generated import control_pb2 as pb

_PRODUCER_BYTES = 10
"""Of an id, at most."""


class ViewImage:
    """Of one moment, for brokers that know nothing of it."""

    def __init__(self, stored: Stored) -> None:
        self.topics = TopicsImage(stored.topics, stored.index)
        self._index = stored.index
        self._feature_level = stored.feature_level
        self._brokers = [broker_message(broker) for broker in stored.brokers.values()]
        self._ended = [producer.ended for producer in stored.producers.values() if producer.ended]
        self._part = pb.ViewUpdate()

    def updates(self, items: int, part_bytes: int) -> Iterator[pb.ViewUpdate | None]:
        """The messages of about so many bytes each, in order; all but the last say that more follow. None
        whenever some `items` partitions were written: a turn for others. A topic is never in two messages.
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
        """Writes into the part: how many partitions, and, at the end of each item, its bytes."""
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
        for ended in self._ended:
            self._part.delta.ended_producers.extend(ended)
            yield 1, len(ended) * _PRODUCER_BYTES
