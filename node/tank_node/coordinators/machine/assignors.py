"""How the coordinator shares partitions among the members of a group of the consumer protocol. Pure, and the
same whatever the order of members and topics.

- `uniform`: every member has as many as any other, or one more; as few as possible change hands.
- `range`: of each topic every member has a stretch of consecutive partitions, and members with the same
  topics have the same stretch of each: of topics of the same size, partitions with the same number stay
  together.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tank_node.coordinators.machine.topics import NOWHERE, Place, Places, TopicId


@dataclass(slots=True, frozen=True)
class Subscriber:
    """What an assignor knows of a member."""

    name: str
    """By which members are ordered: its instance id, or its own id."""
    topics: frozenset[TopicId]
    """What it reads: of these topics all are there."""
    target: Places
    """What it was to have before."""
    held: Places = NOWHERE
    """What it has: of what it was to have it keeps this rather than the rest."""


Assignor = Callable[[Mapping[str, Subscriber], Mapping[TopicId, int]], dict[str, Places]]
"""Takes the members by their ids, and the topics with their numbers of partitions; returns each member's
partitions. Every partition of a topic that a member reads has one owner, who reads the topic."""


def uniform(members: Mapping[str, Subscriber], partitions: Mapping[TopicId, int]) -> dict[str, Places]:
    """See above. Where members read different topics, no partition can go to another member that reads its
    topic without making the greater of the two shares greater, or leaving them alike."""
    if not members:
        return {}
    subscriptions = {member.topics for member in members.values()}
    if len(subscriptions) == 1:
        return _shared_alike(members, _places(next(iter(subscriptions)), partitions))
    return _Balance(members, partitions).result()


def _places(topics: Iterable[TopicId], partitions: Mapping[TopicId, int]) -> list[Place]:
    return [(topic, number) for topic in sorted(topics) for number in range(partitions.get(topic, 0))]


def _shared_alike(members: Mapping[str, Subscriber], places: list[Place]) -> dict[str, Places]:
    """All members read the same topics. Those who have more than the least share keep it: so the fewest
    partitions move."""
    there = set(places)
    least, more = divmod(len(places), len(members))
    order = sorted(members, key=lambda each: (-len(members[each].target), members[each].name, each))
    found: dict[str, list[Place]] = {}
    for member_id in order:
        member = members[member_id]
        has = [*sorted(member.target & there & member.held), *sorted(member.target & there - member.held)]
        share = least
        if more and len(has) > least:
            share += 1
            more -= 1
        found[member_id] = has[:share]
        there.difference_update(found[member_id])
    wanting = deque(member_id for member_id in order if len(found[member_id]) < least)
    free = deque(place for place in places if place in there)
    while wanting:
        member_id = wanting.popleft()
        found[member_id].append(free.popleft())
        if len(found[member_id]) < least:
            wanting.append(member_id)
    for member_id in order:
        if not free:
            break
        if len(found[member_id]) == least:
            found[member_id].append(free.popleft())
    return {member_id: frozenset(has) for member_id, has in found.items()}


class _Balance:
    """Members that read different topics: each partition goes to the member that has least of those who may
    have it, and moves while that makes shares more alike."""

    def __init__(self, members: Mapping[str, Subscriber], partitions: Mapping[TopicId, int]) -> None:
        self._members = members
        self._shares = dict.fromkeys(members, 0)
        self._owners: dict[Place, str] = {}
        self._readers: dict[TopicId, list[tuple[int, str, str]]] = {}
        """By topic: (share, name, id) of its readers; a heap. A share that isn't the member's means nothing
        but that it has another one."""
        for member_id, member in members.items():
            for topic in member.topics:
                self._readers.setdefault(topic, []).append((0, member.name, member_id))
        self._places = _places(self._readers, partitions)
        there = set(self._places)
        for member_id in sorted(members, key=lambda each: (members[each].name, each)):
            for place in members[member_id].target & there:
                if place not in self._owners and place[0] in members[member_id].topics:
                    self._owners[place] = member_id
                    self._shares[member_id] += 1
        for topic, readers in self._readers.items():
            self._readers[topic] = [(self._shares[each], name, each) for _, name, each in readers]
            heapq.heapify(self._readers[topic])

    def result(self) -> dict[str, Places]:
        """The members' partitions."""
        free = [place for place in self._places if place not in self._owners]
        free.sort(key=lambda place: (len(self._readers[place[0]]), place))
        for place in free:
            self._give(place, self._poorest(place[0]))
        # Each move makes the sum of the squares of all shares smaller: there is an end.
        while sum(self._improve(place) for place in self._places):
            pass
        found: dict[str, list[Place]] = {member_id: [] for member_id in self._members}
        for place, member_id in self._owners.items():
            found[member_id].append(place)
        return {member_id: frozenset(has) for member_id, has in found.items()}

    def _poorest(self, topic: TopicId) -> str:
        """The reader of a topic that has least."""
        readers = self._readers[topic]
        while True:
            share, _, member_id = readers[0]
            now = self._shares[member_id]
            if share == now:
                return member_id
            heapq.heapreplace(readers, (now, self._members[member_id].name, member_id))

    def _give(self, place: Place, member_id: str) -> None:
        self._owners[place] = member_id
        self._shares[member_id] += 1

    def _improve(self, place: Place) -> bool:
        owner = self._owners[place]
        poorest = self._poorest(place[0])
        if self._shares[owner] - self._shares[poorest] < 2:
            return False
        self._shares[owner] -= 1
        for topic in self._members[owner].topics:
            heapq.heappush(self._readers[topic], (self._shares[owner], self._members[owner].name, owner))
        self._give(place, poorest)
        return True


def by_range(members: Mapping[str, Subscriber], partitions: Mapping[TopicId, int]) -> dict[str, Places]:
    """See above. Members stay in the order of what they had, so that stretches shift and don't jump."""

    def order(member_id: str) -> tuple[float, str, str]:
        member = members[member_id]
        had = [number / partitions[topic] for topic, number in member.target if partitions.get(topic)]
        return (min(had, default=1.0), member.name, member_id)

    readers: dict[TopicId, list[str]] = {}
    for member_id in sorted(members, key=order):
        for topic in members[member_id].topics:
            readers.setdefault(topic, []).append(member_id)
    found: dict[str, list[Place]] = {member_id: [] for member_id in members}
    for topic, sharing in readers.items():
        least, more = divmod(partitions.get(topic, 0), len(sharing))
        at = 0
        for index, member_id in enumerate(sharing):
            size = least + (index < more)
            found[member_id] += [(topic, number) for number in range(at, at + size)]
            at += size
    return {member_id: frozenset(has) for member_id, has in found.items()}


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": by_range}
"""By the names that clients and operators know."""
