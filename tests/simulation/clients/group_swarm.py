"""The consumer groups of a random story: how many there are, of whom, and how restless they are.

All is drawn by a chance of their own. So a story without groups is what it was before there were any, and the
other parts of one with groups are drawn as without them.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from tank_node.coordinators.machine.group_hash import partition_of
from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.books.group_ages import GROUP_AGES, STATIC
from tests.simulation.books.group_books import GroupBook, GroupBooks
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.clients.clients import Target
from tests.simulation.clients.group_assignors import COOPERATIVE, EAGER
from tests.simulation.clients.group_members import GroupMember
from tests.simulation.clients.group_questions import Traits
from tests.simulation.clients.sharing_members import SharingMember
from tests.simulation.ingredients import Wanted
from tests.simulation.world.world import MS, World

FACTOR = 3
SHARING = 0.4
"""How many of the groups are such whose coordinator shares the partitions out."""
LEAST_SESSION_MS = 500
SESSIONS_MS = (1000, 2000, 4000)
REBALANCES_MS = (1000, 3000)
HEARTBEAT_MS = 100
"""After how long a member of a group whose coordinator shares the partitions out is to say that it lives."""
PAUSES_US = (100 * MS, 200 * MS)
SETTLES_US = 60 * 1000 * MS
"""After the last fault: in so long each partition has one reader. Members that are gone without a word are
waited for by a session and a rebalance, and may lead a generation or two."""


class GroupSwarm:
    """Of one story."""

    def __init__(self, seed: int) -> None:
        chance = self._chance = Random(f"groups of {seed}")
        sharing = Random(f"sharing groups of {seed}")
        self.settings = GroupSettings(
            min_session_ms=LEAST_SESSION_MS,
            initial_delay_ms=chance.choice((0, 300, 1000)),
            offsets_retention_ms=chance.choice((3000, 7 * 86_400_000)),
            topic_partitions=chance.choice((1, 1, 2)),
            consumer_session_ms=sharing.choice(SESSIONS_MS),
            consumer_heartbeat_ms=HEARTBEAT_MS,
        )
        self.sweep_ms = chance.choice((1000, 600_000))
        """Between two looks at all offsets."""
        self.members: dict[str, list[GroupMember]] = {}
        """By group."""
        self._names = [f"group-{n}" for n in range(chance.choice((1, 1, 2)))]
        self._sharing = {name for name in self._names if sharing.random() < SHARING}
        """The groups whose coordinator shares the partitions out."""

    def topic(self) -> Wanted:
        """The internal topic, of segments so small that it is compacted: brokers would make it with large
        ones."""
        chance = self._chance
        settings = {
            "flush": chance.choice(("disk", "disk", "replicated")),
            "log.format": "kafka",
            "log.cleanup.policy": "cleanup",
            "log.cleaner.min.cleanable.ratio": "0.1",
            "log.segment.bytes": str(chance.choice((600, 3000, 1 << 20))),
        }
        return Wanted(GROUPS_TOPIC, self.settings.topic_partitions, FACTOR, settings)

    def members_of(
        self, world: World, books: MessageBooks, groups: GroupBooks, target: Target, topics: Sequence[Wanted]
    ) -> Iterator[GroupMember]:
        """The members of the groups that a partition of the internal topic holds. topics: what they read."""
        places = tuple((each.name, number) for each in topics for number in range(each.partitions))

        def names() -> dict[int, str]:
            return {each.topic_id: each.name for each in topics}

        for name in self._names:
            if partition_of(name, self.settings.topic_partitions) == target.partition:
                book = groups.of(target.key, name)

                def one(pause_us: int, traits: Traits, book: GroupBook = book) -> GroupMember:
                    if traits.group_id in self._sharing:
                        return SharingMember(world, books, target, pause_us, traits, book, names)
                    return GroupMember(world, books, target, pause_us, traits, book)

                self.members[name] = list(self._members(one, name, places))
                yield from self.members[name]

    def _members(
        self, one: Callable[[int, Traits], GroupMember], name: str, places: tuple[TopicPartition, ...]
    ) -> Iterator[GroupMember]:
        """one: makes a member of its pause and traits."""
        chance = self._chance
        pause_us = chance.choice(PAUSES_US)
        unrest = chance.choice((0.0, 0.01, 0.03))
        protocols = chance.choice((EAGER, EAGER[::-1], COOPERATIVE))
        for number in range(chance.choice((1, 2, 3, 4))):
            is_static = chance.random() < 0.4
            traits = Traits(
                name,
                places,
                chance.choice(STATIC if is_static else GROUP_AGES),
                protocols,
                f"i{number}" if is_static else None,
                chance.choice(SESSIONS_MS),
                chance.choice(REBALANCES_MS),
            )
            twins = [one(pause_us, traits) for _ in range(2 if is_static else 1)]
            for each in twins:
                each.unrest = unrest
            if is_static:
                first, second = twins
                first.twin, second.twin = second, first
                second.active = False
            yield from twins

    # --- the end ---

    def come_to_rest(self) -> None:
        """No faults, and no unrest, from now on."""
        for member in self._all():
            member.unrest = 0.0
            member.peace_since = member.world.now

    def _all(self) -> list[GroupMember]:
        return [member for members in self.members.values() for member in members]

    @property
    def complaint(self) -> str:
        """Which group does not share its partitions among its members, each to one of them; empty: all do."""
        for name, members in self.members.items():
            there = [member for member in members if member.active]
            numbers = {member.place.generation for member in there}
            if len(numbers) != 1 or not all(member.is_member for member in there):
                return f"the members of {name} are in the generations {sorted(numbers)}"
            read = sorted(place for member in there for place in member.place.positions)
            if read != sorted(there[0].traits.places):
                return f"the members of {name} read {read}"
        return ""
