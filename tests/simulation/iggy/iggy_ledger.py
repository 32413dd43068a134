"""The books of Iggy's clients: what became of their messages, by the books of all messages; and the books of
their offsets and of who polls what."""

from collections.abc import Callable, Sequence

from tank_node.broker.broker import Broker
from tank_node.coordinators.groups import Groups
from tank_node.coordinators.iggy.consumer_ids import born_of
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.coordinators.machine.iggy_requests import BrokerSaid, IggyAnswer
from tank_protos.wire.names import GROUPS_TOPIC
from tests.simulation.books.committed import Committed, Key
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.metadata_books import MetadataBooks
from tests.simulation.iggy.iggy_holders import IggyHolders
from tests.simulation.iggy.iggy_marks import IggyMarks
from tests.simulation.world.brokers import BrokerMachine
from tests.simulation.world.world import World, must


class IggyLedger:
    """Of one story."""

    def __init__(self, world: World, books: MessageBooks, metadata: MetadataBooks) -> None:
        self.world = world
        self.books = books
        self.metadata = metadata
        self.marks = IggyMarks(books)
        self.holders = IggyHolders(world)

    def watch(self, brokers: dict[int, BrokerMachine]) -> None:
        """Hears of what happens in this story, from its beginning on."""
        self.metadata.on_removed = self._removed
        self.metadata.on_fenced = lambda broker_id: self.holders.excuse(brokers[broker_id].name)
        self.books.on_iggy_batch = self.marks.committed
        for machine in brokers.values():
            machine.on_look = self.holders.look
            machine.new_groups = self._groups

    def _groups(
        self, broker: Broker, settings: GroupSettings, new_member_id: Callable[[str], str]
    ) -> "BookedGroups":
        return BookedGroups(broker, settings, new_member_id, self)

    def _removed(self, key: Key, floor: int) -> None:
        """A partition is removed from its topic. The next one of its number is another one, whose books begin
        with its first leader: leaders of before, which have yet to hear of it, aren't judged."""
        self.world.say("books", "%s is removed: epochs of the next one are above %s", key, floor)
        self.books.of(key).lossy(floor + 1)
        self.marks.floors[key] = floor
        self.holders.resized()

    # --- messages ---

    def acknowledged(self, topic_id: int, partition: int | None, values: Sequence[bytes]) -> Key | None:
        """A client is told that all of these are stored, in this partition of the topic or in any (None).
        Returns where they are; None: where they are is not known any more."""
        found = [
            (key, books)
            for key, books in self.books.partitions.items()
            if key[0] == topic_id and values[0] in books.payloads
        ]
        if not found:
            is_lost = any(values[0] in books.before for books in self._of_topic(topic_id))
            must(is_lost, "%s is acknowledged before it is committed in topic %s", values[0], topic_id)
            return None
        must(len(found) == 1, "%s is stored in %s", values[0], tuple(key for key, _ in found))
        ((key, books),) = found
        must(partition in (None, key[1]), "%s is stored in %s, and was sent to %s", values[0], key, partition)
        (first, *again) = books.payloads[values[0]]
        must(not again, "%s is stored twice in %s", values[0], key)
        for at, value in enumerate(values):
            self.books.acknowledged(key, value, first + at)
        return key

    def refused(self, topic_id: int, values: Sequence[bytes]) -> None:
        """A client is told that none of these is stored in the topic."""
        for key in [key for key in self.books.partitions if key[0] == topic_id]:
            self.books.refused(key, values)

    def _of_topic(self, topic_id: int) -> list[Committed]:
        return [books for key, books in self.books.partitions.items() if key[0] == topic_id]

    def newest_epoch(self, key: Key) -> int:
        """The newest leader epoch of a partition, by the controllers' log."""
        reign = self.metadata.reigns.get(key)
        return 0 if reign is None else reign.leader_epoch

    def check_once(self) -> None:
        """At the end: no message is in two topics, though one may be the other, emptied."""
        places: dict[bytes, Key] = {}
        for key, books in self.books.partitions.items():
            for value in books.acknowledged:
                if value.startswith(b"iggy-"):
                    before = places.setdefault(value, key)
                    must(before == key, "%s is in %s and in %s", value, before, key)


class BookedGroups(Groups):
    """A broker's groups; the books hear of coordinators that were replaced, and answer still."""

    def __init__(
        self,
        broker: Broker,
        settings: GroupSettings,
        new_member_id: Callable[[str], str],
        ledger: IggyLedger,
    ) -> None:
        super().__init__(broker, settings, new_member_id)
        self._served = broker
        self._ledger = ledger

    def take_iggys(self, group_id: str, said: BrokerSaid, done: Callable[[IggyAnswer], None]) -> None:
        """As the real one."""

        def told(answer: IggyAnswer) -> None:
            if not answer.error and self._is_replaced(group_id):
                born = born_of(group_id)
                assert born is not None
                self._ledger.holders.excuse_group(f"b{said.broker}", born)
            done(answer)

        super().take_iggys(group_id, said, told)

    def _is_replaced(self, group_id: str) -> bool:
        """Whether another broker coordinates the group by now."""
        topic, number = self._served.topics.get(GROUPS_TOPIC), self.partition_of(group_id)
        partition = None if topic is None or number is None else topic.partitions.get(number)
        if topic is None or number is None or partition is None:
            return True
        return partition.leader_epoch < self._ledger.newest_epoch((topic.view.topic_id, number))
