"""The names of Iggy's clients in the view: streams, their topics and groups, by number and by name."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from tank_node.cluster.iggy.parts import (
    IggyGroupView,
    IggyTopicView,
    StreamView,
    iggy_group_view,
    stream_view,
)
from tank_protos.generated import control_pb2 as pb

Topic = TypeVar("Topic")
"""The view's topics, which this module need not know."""


@dataclass(slots=True)
class IggyView(Generic[Topic]):
    """Answers what an identifier of Iggy's means. A stream that is being deleted is in no answer. Keep
    numbers and `born`, not objects: a change puts others in their place.
    """

    _by_id: Mapping[int, Topic] = field(repr=False, compare=False)
    """The view's topics by id."""
    version: int = field(default=0, compare=False)
    """Rises with every change of a stream, of a topic's Iggy part, and of a group."""
    _streams: dict[int, StreamView] = field(default_factory=dict)
    _stream_numbers: dict[str, int] = field(default_factory=dict)
    _topics: dict[int, dict[int, int]] = field(default_factory=dict)
    """Topic ids by stream and number; no stream of it is empty, nor is one of the next."""
    _topic_numbers: dict[int, dict[str, int]] = field(default_factory=dict)
    _groups: dict[int, dict[int, IggyGroupView]] = field(default_factory=dict)
    """By topic id and number; no topic of it is empty, nor is one of the next."""
    _group_numbers: dict[int, dict[str, int]] = field(default_factory=dict)
    _groups_born: dict[int, IggyGroupView] = field(default_factory=dict)

    # --- questions ---

    def streams(self) -> list[StreamView]:
        """All streams, by number."""
        return [stream for _, stream in sorted(self._streams.items()) if not stream.going]

    def stream(self, number: int) -> StreamView | None:
        """The stream of this number."""
        stream = self._streams.get(number)
        return None if stream is None or stream.going else stream

    def stream_by_name(self, name: str) -> StreamView | None:
        """The stream of this name."""
        number = self._stream_numbers.get(name)
        return None if number is None else self.stream(number)

    def topics(self, stream: int) -> list[Topic]:
        """The topics of a stream, by number."""
        if self.stream(stream) is None:
            return []
        return [self._by_id[topic_id] for _, topic_id in sorted(self._topics.get(stream, {}).items())]

    def topic_count(self, stream: int) -> int:
        """The number of topics of a stream."""
        return 0 if self.stream(stream) is None else len(self._topics.get(stream, ()))

    def topic(self, stream: int, number: int) -> Topic | None:
        """The topic of this number in a stream."""
        topics = self._topics.get(stream)
        topic_id = None if topics is None or self.stream(stream) is None else topics.get(number)
        return None if topic_id is None else self._by_id[topic_id]

    def topic_by_name(self, stream: int, name: str) -> Topic | None:
        """The topic of this name in a stream."""
        numbers = self._topic_numbers.get(stream)
        number = None if numbers is None else numbers.get(name)
        return None if number is None else self.topic(stream, number)

    def groups(self, topic_id: int) -> list[IggyGroupView]:
        """The groups of a topic, by number."""
        return [group for _, group in sorted(self._groups.get(topic_id, {}).items())]

    def group(self, topic_id: int, number: int) -> IggyGroupView | None:
        """The group of this number of a topic."""
        groups = self._groups.get(topic_id)
        return None if groups is None else groups.get(number)

    def group_by_name(self, topic_id: int, name: str) -> IggyGroupView | None:
        """The group of this name of a topic."""
        numbers = self._group_numbers.get(topic_id)
        number = None if numbers is None else numbers.get(name)
        return None if number is None else self._groups[topic_id][number]

    def group_born(self, born: int) -> IggyGroupView | None:
        """The group that was created by this log entry; None when it is gone."""
        return self._groups_born.get(born)

    # --- changes, by the view ---

    def apply(self, delta: pb.Delta) -> None:
        """Takes the changes of streams and groups, of which there is one at least. Those of topics were taken
        before."""
        self.version += 1
        for gone in delta.deleted_iggy_groups:
            self._remove_group(self._groups.get(gone.topic_id, {}).get(gone.number))
        for number in delta.deleted_streams:
            self._remove_stream(number)
        for stream in delta.streams:
            self._put_stream(stream_view(stream))
        for group in delta.iggy_groups:
            self._put_group(iggy_group_view(group))

    def replace(
        self,
        streams: Iterable[StreamView],
        topics: Iterable[tuple[int, IggyTopicView]],
        groups: Iterable[IggyGroupView],
    ) -> None:
        """Takes these in the place of all. topics: (topic id, Iggy part) of each that has one."""
        self.version += 1
        for known in (
            self._streams, self._stream_numbers, self._topics, self._topic_numbers,
            self._groups, self._group_numbers, self._groups_born,
        ):  # fmt: skip
            known.clear()
        for stream in streams:
            self._put_stream(stream)
        for topic_id, part in topics:
            self._put_topic(topic_id, part)
        for group in groups:
            self._put_group(group)

    def topic_changed(self, topic_id: int, before: IggyTopicView | None, now: IggyTopicView | None) -> None:
        """A topic got another Iggy part, got one, or lost it, perhaps with the topic itself: its groups go
        then.
        """
        if before == now:
            return
        self.version += 1
        if before is not None:
            numbers, names = self._topics[before.stream], self._topic_numbers[before.stream]
            del numbers[before.number], names[before.name]
            if not numbers:
                del self._topics[before.stream], self._topic_numbers[before.stream]
        if now is not None:
            self._put_topic(topic_id, now)
        else:
            for group in self.groups(topic_id):
                self._remove_group(group)

    def _put_stream(self, stream: StreamView) -> None:
        self._remove_stream(stream.number)
        self._streams[stream.number] = stream
        self._stream_numbers[stream.name] = stream.number

    def _remove_stream(self, number: int) -> None:
        if (stream := self._streams.pop(number, None)) is not None:
            del self._stream_numbers[stream.name]

    def _put_topic(self, topic_id: int, part: IggyTopicView) -> None:
        self._topics.setdefault(part.stream, {})[part.number] = topic_id
        self._topic_numbers.setdefault(part.stream, {})[part.name] = part.number

    def _put_group(self, group: IggyGroupView) -> None:
        self._groups.setdefault(group.topic_id, {})[group.number] = group
        self._group_numbers.setdefault(group.topic_id, {})[group.name] = group.number
        self._groups_born[group.born] = group

    def _remove_group(self, group: IggyGroupView | None) -> None:
        if group is None:
            return
        numbers, names = self._groups[group.topic_id], self._group_numbers[group.topic_id]
        del numbers[group.number], names[group.name], self._groups_born[group.born]
        if not numbers:
            del self._groups[group.topic_id], self._group_numbers[group.topic_id]
