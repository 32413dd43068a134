"""The topics in a broker's view of the cluster, as the machines of groups see them."""

from tank_node.broker.broker import Broker
from tank_node.broker.topic_ids import topic_by_uuid, topic_uuid
from tank_node.cluster.view import ChangeKind, TopicChange, TopicView
from tank_node.coordinators.machine.topic_pattern import TopicPattern
from tank_node.coordinators.machine.topics import InvalidPattern, TopicId, Topics, TopicShape
from tank_protos.wire.names import INTERNAL_TOPICS

_PATTERNS = 1_000
"""The most patterns whose matches are kept; the one that was asked for longest ago is forgotten first."""


class _Matches:
    """A pattern, and the topics that match it."""

    def __init__(self, text: str) -> None:
        self.pattern = TopicPattern(text)
        self.names: set[str] = set()
        self.shown: frozenset[str] | None = None

    def look_at(self, name: str) -> None:
        """Takes a topic up, if it matches. Raises InvalidPattern."""
        if name not in INTERNAL_TOPICS and self.pattern.matches(name):
            self.names.add(name)
            self.shown = None

    def drop(self, name: str) -> None:
        """The topic is gone."""
        if name in self.names:
            self.names.remove(name)
            self.shown = None


class ViewTopics(Topics):
    """The view's topics, and the matches of the patterns that members have."""

    __slots__ = ("_broker", "_counts", "_matches", "_version")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._version = 0
        self._counts = {topic.name: _count(topic) for topic in broker.link.view.topics()}
        """By topic: its id, the number of its partitions and the epoch with which the last one began, as far
        as changes were noted."""
        self._matches: dict[str, _Matches] = {}

    def note(self, change: TopicChange) -> bool:
        """The view has changed; returns whether partitions are gone: others may have their numbers."""
        topic = change.topic
        before = self._counts.get(topic.name, (0, 0, 0))
        topic_id, count, began = before
        now = _count(topic)
        is_fewer = change.kind is ChangeKind.DELETED or (
            topic_id == topic.topic_id and (now[1] < count or now[2] > began)
        )
        if change.kind is ChangeKind.DELETED:
            if topic_id != topic.topic_id:
                return is_fewer  # there is another one of this name already
            self._counts.pop(topic.name)
            for matches in self._matches.values():
                matches.drop(topic.name)
        elif before == now:
            return is_fewer
        else:
            is_new = topic.name not in self._counts
            self._counts[topic.name] = now
            if is_new:
                self._match(topic.name)
        self._version += 1
        return is_fewer

    def _match(self, name: str) -> None:
        for text, matches in list(self._matches.items()):
            try:
                matches.look_at(name)
            except InvalidPattern:  # by now it costs too much: its members keep what they have
                line = f"the pattern {text[:100]!r} of a group costs too much: new topics don't match it"
                self._broker.refusals.say("topic_pattern", line, self._broker.tick.monotonic_ms)

    @property
    def version(self) -> int:
        return self._version

    def named(self, name: str) -> TopicShape | None:
        topic = self._broker.link.view.topic(name)
        return None if topic is None else self._shape(topic)

    def of_id(self, topic_id: TopicId) -> TopicShape | None:
        topic = topic_by_uuid(self._broker.link.view, topic_id)
        return None if topic is None else self._shape(topic)

    def _shape(self, topic: TopicView) -> TopicShape:
        topic_id = topic_uuid(self._broker.link.view.cluster_id, topic.topic_id)
        return TopicShape(topic_id, topic.name, len(topic.partitions))

    def matching(self, pattern: str) -> frozenset[str]:
        found = self._matches.pop(pattern, None)
        if found is None:
            found = _Matches(pattern)
            for name in self._counts:
                found.look_at(name)
            while len(self._matches) >= _PATTERNS:
                del self._matches[next(iter(self._matches))]
        self._matches[pattern] = found
        if found.shown is None:
            found.shown = frozenset(found.names)
        return found.shown


def _count(topic: TopicView) -> tuple[int, int, int]:
    began = topic.partitions[-1].first_epoch if topic.partitions else 0  # the highest: epochs only rise
    return topic.topic_id, len(topic.partitions), began
