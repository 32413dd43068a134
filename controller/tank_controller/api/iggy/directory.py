"""The names of Iggy's clients as the leading controller tells them, and looking them up. Pure."""

from collections.abc import Iterable, Sequence

from tank_controller.api.errors import refused
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


class IggyDirectory:
    """All streams, topics and groups at one moment. A look-up raises ApiError for a name that isn't there."""

    def __init__(self, parts: Sequence[pb.IggyNamesAnswer]) -> None:
        self.parts = parts
        self.streams = [each for part in parts for each in part.streams]
        self._by_name = {each.name: each for each in self.streams}
        self._names = {each.number: each.name for each in self.streams}
        self._topics: dict[int, list[pb.IggyTopicSummary]] = {}
        for part in parts:
            for topic in part.topics:
                self._topics.setdefault(topic.topic.iggy.stream, []).append(topic)

    def stream(self, name: str) -> pb.IggyStream:
        """The stream of this name."""
        found = self._by_name.get(name)
        if found is None:
            raise refused(ErrorCode.UNKNOWN_STREAM, f"there is no stream {name}")
        return found

    def topics_of(self, stream: pb.IggyStream) -> list[pb.IggyTopicSummary]:
        """The topics of a stream, by number."""
        return sorted(self._topics.get(stream.number, ()), key=lambda each: each.topic.iggy.number)

    def topic(self, stream: str, name: str) -> pb.IggyTopicSummary:
        """The topic of this name in the stream of that name."""
        for each in self._topics.get(self.stream(stream).number, ()):
            if each.topic.iggy.name == name:
                return each
        raise refused(ErrorCode.UNKNOWN_TOPIC, f"stream {stream} has no topic {name}")

    def groups_of(self, topic: pb.IggyTopicSummary) -> list[pb.IggyGroup]:
        """The groups of a topic, by number."""
        groups = (each for part in self.parts for each in part.groups)
        found = (each for each in groups if each.topic_id == topic.topic.topic_id)
        return sorted(found, key=lambda each: each.number)

    def group(self, topic: pb.IggyTopicSummary, name: str) -> pb.IggyGroup:
        """The group of this name of a topic."""
        for each in self.groups_of(topic):
            if each.name == name:
                return each
        raise refused(ErrorCode.UNKNOWN_GROUP, f"topic {topic.topic.iggy.name} has no group {name}")

    def exposed(self) -> list[pb.IggyTopicSummary]:
        """The exposed topics, by their ids."""
        return sorted(
            (each for each in self._all() if each.topic.iggy.exposed), key=lambda each: each.topic.topic_id
        )

    def in_cluster(self, name: str) -> pb.IggyTopicSummary:
        """The topic that clients of other protocols know by this name."""
        for each in self._all():
            if each.topic.name == name:
                return each
        raise refused(ErrorCode.UNKNOWN_TOPIC, f"Iggy's clients see no topic {name}")

    def stream_name(self, topic: pb.IggyTopicSummary) -> str:
        """The name of the topic's stream."""
        return self._names[topic.topic.iggy.stream]

    def _all(self) -> Iterable[pb.IggyTopicSummary]:
        return (each for topics in self._topics.values() for each in topics)
