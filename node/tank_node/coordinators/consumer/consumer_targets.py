"""What the members of a group of the consumer protocol are to have."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tank_node.coordinators.consumer.consumer_members import ConsumerMembers
from tank_node.coordinators.machine.assignors import ASSIGNORS, Subscriber
from tank_node.coordinators.machine.topics import NOWHERE, InvalidPattern, Places, TopicId, Topics, TopicShape
from tank_node.coordinators.records.consumer_member import ConsumerMember


class Targets:
    """The targets, the epoch for which they were made, and the topics that they were made of."""

    def __init__(self, assignors: Sequence[str], topics: Topics) -> None:
        """assignors: the names of those that members may ask for; the first one is used where most ask for
        none."""
        self.epoch = 0
        self.shapes: dict[str, TopicShape] = {}
        """The topics that members read, by name."""
        self.by_member: dict[str, Places] = {}
        self._assignors = assignors
        self._topics = topics
        self._seen = -1
        """The version of the topics at the last look; -1: there was none."""

    def of(self, member_id: str) -> Places:
        """What a member is to have."""
        return self.by_member.get(member_id, NOWHERE)

    def look(self, members: Iterable[ConsumerMember], *, anew: bool) -> bool:
        """Looks which topics are read, if there is something new. anew: whether members have changed. Returns
        whether it are others than before, or others in their number of partitions."""
        version = self._topics.version
        if version == self._seen and not anew:
            return False
        self._seen = version
        found: dict[str, TopicShape] = {}
        for said in {(member.said.topics, member.said.regex) for member in members}:
            for name in self._names(*said):
                shape = self._topics.named(name)
                if shape is not None:
                    found[name] = shape
        if found == self.shapes:
            return False
        self.shapes = found
        return True

    def _names(self, topics: frozenset[str], regex: str) -> frozenset[str]:
        if not regex:
            return topics
        try:
            return topics | self._topics.matching(regex)
        except InvalidPattern:  # it was valid when the member said it: it costs too much by now
            return topics

    def names(self, members: Iterable[ConsumerMember]) -> frozenset[str]:
        """The names of the topics that members read."""
        found: set[str] = set()
        for said in {(member.said.topics, member.said.regex) for member in members}:
            found |= self._names(*said)
        return frozenset(found)

    def assignor(self, members: Iterable[ConsumerMember]) -> str:
        """The assignor that most members ask for; among equals the one that comes first in the settings."""
        votes = Counter(member.said.assignor for member in members)
        return max(self._assignors, key=lambda name: votes[name])

    def make(self, epoch: int, members: ConsumerMembers) -> list[str]:
        """Makes the targets for this epoch. Returns the ids of the members whose targets have changed."""
        self.epoch = epoch
        ids: dict[tuple[frozenset[str], str], frozenset[TopicId]] = {}
        subscribers = {}
        for member in members:
            said = member.said
            key = (said.topics, said.regex)
            topics = ids.get(key)
            if topics is None:
                names = self._names(*key) & self.shapes.keys()
                topics = ids[key] = frozenset(self.shapes[name].topic_id for name in names)
            name = said.instance_id or member.member_id
            subscribers[member.member_id] = Subscriber(
                name, topics, self.of(member.member_id), member.standing.assigned
            )
        partitions = {shape.topic_id: shape.partitions for shape in self.shapes.values()}
        assign = ASSIGNORS[self.assignor(members)]
        return self._take(assign(subscribers, partitions))

    def _take(self, made: Mapping[str, Places]) -> list[str]:
        changed = [
            member_id
            for member_id, places in made.items()
            if member_id not in self.by_member or self.by_member[member_id] != places
        ]
        for member_id in changed:
            self.by_member[member_id] = made[member_id]
        return changed

    def forget(self, member_id: str) -> None:
        """A member is gone."""
        self.by_member.pop(member_id, None)

    def move(self, old_id: str, new_id: str) -> None:
        """A static member has another id."""
        self.by_member[new_id] = self.by_member.pop(old_id, NOWHERE)
