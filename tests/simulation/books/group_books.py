"""The guarantees about consumer groups, checked against the committed records of the internal topic.

The books read each record when a leader's mark passes it. So they know, outside of all processes, which
generations, members, assignments and offsets are stored, and in which order; and compare with that what
members are told. A lossy election of a group's partition begins the book of the group again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tank_node.coordinators.machine.group_requests import CommittedOffset, TopicPartition
from tank_node.coordinators.machine.topics import Place
from tank_node.coordinators.records import group_records
from tank_node.coordinators.records.consumer_records import ConsumerRecord
from tank_node.coordinators.records.group_records import GroupRecord, OffsetRecord
from tank_protos.generated.kafka import GroupMetadataValue, JoinGroupResponse
from tank_protos.wire.names import is_iggys_group
from tests.simulation.books.committed import Committed, Key
from tests.simulation.books.message_books import MessageBooks
from tests.simulation.books.shared_out import SharedOut
from tests.simulation.books.stored_batches import Batch, messages
from tests.simulation.world.world import MS, World, must

_Era = tuple[int, int]
"""Lossy elections, and deletions of the group, so far."""


@dataclass(slots=True)
class Stored:
    """What the log says of a group, in the log's order."""

    image: GroupMetadataValue | None = None
    """The last one."""
    leaders: dict[int, str] = field(default_factory=dict)
    """By generation. A static member is named by its instance."""
    protocols: dict[int, str | None] = field(default_factory=dict)
    assigned: dict[int, dict[str, bytes]] = field(default_factory=dict)
    """By generation and member: what was stored first."""
    instances: dict[str, str] = field(default_factory=dict)
    """By the ids of static members."""
    ids: dict[str, list[str]] = field(default_factory=dict)
    """By instance: the ids of its processes, one after another."""
    offsets: dict[TopicPartition, list[CommittedOffset | None]] = field(default_factory=dict)
    """All that were ever committed; None: deleted."""

    def person(self, member_id: str) -> str:
        """The member, whichever of its processes has this id."""
        return self.instances.get(member_id, member_id)

    def index_of(self, place: TopicPartition, text: str) -> int:
        """Where the commit with this text stands among those of its partition; -1: it isn't stored."""
        history = self.offsets.get(place, ())
        for at in range(len(history) - 1, -1, -1):
            offset = history[at]
            if offset is not None and offset.metadata == text:
                return at
        return -1


@dataclass(slots=True)
class Told:
    """What members of a group were told."""

    generations: dict[int, int] = field(default_factory=dict)
    """By the coordinator's leader epoch: the greatest generation."""
    fenced: dict[str, int] = field(default_factory=dict)
    """Ids of processes whose successors were told that they are members, and by which epoch."""
    kept: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """By epoch: the last commit that was acknowledged, by its index in `Stored.offsets`."""

    def generation(self, epoch: int) -> int:
        """The greatest one that this epoch's coordinator, or one before it, has told."""
        return max((number for told, number in self.generations.items() if told <= epoch), default=0)

    def copy(self) -> "Told":
        """As it is now."""
        kept = {place: dict(by_epoch) for place, by_epoch in self.kept.items()}
        return Told(dict(self.generations), dict(self.fenced), kept)


@dataclass(slots=True, frozen=True)
class Before:
    """What a book said when a member sent a request."""

    at: int
    era: _Era
    through: int
    """The last leader epoch whose coordinator had read its groups, as far as members knew."""
    told: Told


class GroupBook:
    """Of one group."""

    def __init__(self, world: World, group_id: str, partition: Committed) -> None:
        self.world = world
        self.group_id = group_id
        self.stored = Stored()
        self.sharing = SharedOut(group_id)
        """What there is of a group whose coordinator shares the partitions out."""
        self.longest_wait_ms = 0
        """The longest time that the group waits for a member to join again."""
        self._names = 0
        self.given_up: set[str] = set()
        """The texts of commits whose members do not know what became of them: they may be stored late."""
        self._told = Told()
        self._through = 0
        self._lived: dict[str, int] = {}
        """By member id: when the last request was sent that was answered without an error."""
        self._partition = partition
        self._deletions = 0
        self._generation = partition.generation
        """Of the partition's books."""

    @property
    def _era(self) -> _Era:
        return self._partition.generation, self._deletions

    def new_name(self, instance_id: str | None) -> str:
        """That of another process of the group."""
        self._names += 1
        return "-".join((self.group_id, *((instance_id,) if instance_id else ()), str(self._names)))

    def before(self) -> Before:
        """A member sends a request; give this back with the answer."""
        self._follow()
        return Before(self.world.now, self._era, self._through, self._told.copy())

    def _follow(self) -> None:
        if self._generation != self._partition.generation:
            self._generation = self._partition.generation
            self._begin_again()

    def _begin_again(self) -> None:
        self.stored, self._told, self._lived, self._through = Stored(), Told(), {}, 0
        self.sharing = SharedOut(self.group_id, read_by=self.sharing.read_by)

    def _counts(self, before: Before, epoch: int) -> bool:
        """Whether an answer says something about what is stored now. What a coordinator has read while bytes
        of its disk were others isn't judged."""
        self._follow()
        books = self._partition
        is_judged = not books.waits and not books.changed and epoch >= max(books.lossy_epoch, 1)
        return is_judged and before.era == self._era

    def heard(self, before: Before, epoch: int, member_id: str, generation: int) -> None:
        """A heartbeat was answered without an error: by a coordinator that reads its groups, too, which knows
        no member yet."""
        if epoch <= before.through:
            self.lived(before, epoch, member_id, generation)

    # --- the log ---

    def store_image(self, image: GroupMetadataValue | None) -> None:
        """The mark has passed a record of the group; None: the group is deleted."""
        self._follow()
        if image is None:
            self._deletions += 1
            self._begin_again()
            return
        stored, number = self.stored, image.generation
        last = 0 if stored.image is None else stored.image.generation
        stored.image = image
        if self._partition.changed:
            return  # a coordinator may have read other bytes than it had written
        must(number >= last, "the generation of group %s goes back from %s to %s",
             self.group_id, last, number)  # fmt: skip
        instances = [each.group_instance_id for each in image.members if each.group_instance_id is not None]
        must(len(instances) == len(set(instances)), "an instance of group %s has two members: %s",
             self.group_id, tuple(instances))  # fmt: skip
        for member in image.members:
            if member.group_instance_id is not None:
                stored.instances[member.member_id] = member.group_instance_id
                ids = stored.ids.setdefault(member.group_instance_id, [])
                if member.member_id not in ids:
                    ids.append(member.member_id)
        if not image.members:
            return
        leader = stored.person(image.leader or "")
        first = stored.leaders.setdefault(number, leader)
        must(first == leader, "generation %s of group %s is led by %s and by %s",
             number, self.group_id, first, leader)  # fmt: skip
        protocol = stored.protocols.setdefault(number, image.protocol)
        must(protocol == image.protocol, "generation %s of group %s has the protocols %s and %s",
             number, self.group_id, protocol, image.protocol)  # fmt: skip
        if image.current_state_timestamp >= 0:
            given = {stored.person(each.member_id): bytes(each.assignment) for each in image.members}
            stored.assigned.setdefault(number, given)

    def store_share(self, record: ConsumerRecord) -> None:
        """The mark has passed a record of a group whose coordinator shares the partitions out."""
        self._follow()
        was_gone = self.sharing.image.is_gone
        self.sharing.store(record, is_judged=not self._partition.changed)
        # A log that is read anew may begin with records of members: that of the group, behind them, is newer.
        if self.sharing.image.is_gone and not was_gone:
            self._deletions += 1
            self._begin_again()

    def batch_stored(self) -> None:
        """All records of a batch are stored."""
        if not self._partition.changed:
            self.sharing.check_holders()

    def store_offset(self, place: TopicPartition, offset: CommittedOffset | None) -> None:
        """The mark has passed a record of an offset; None: it is deleted."""
        self._follow()
        history = self.stored.offsets.setdefault(place, [])
        last = history[-1] if history else None
        if offset is None:
            self._check_may_go(place)
        elif last is not None and offset.metadata not in self.given_up and not self._partition.changed:
            must(
                offset.offset >= last.offset,
                "group %s commits %s of %s behind %s",
                self.group_id,
                offset.offset,
                place,
                last.offset,
            )
        history.append(offset)

    def _check_may_go(self, place: TopicPartition) -> None:
        """Whether an offset may be deleted for its age: its group has no member that lives. A coordinator
        that could not store that the group is empty may have dismissed those that are silent."""
        image = self.stored.image
        for member in () if image is None or self._partition.changed else image.members:
            lived = self._lived.get(member.member_id)
            silent_ms = -1 if lived is None else (self.world.now - lived) // MS
            must(
                lived is None or silent_ms >= member.session_timeout,
                "the offset of %s expired in group %s, whose member %s was served %s ms ago",
                place,
                self.group_id,
                member.member_id,
                silent_ms,
            )

    # --- what members are told ---

    def joined(self, before: Before, epoch: int, member_id: str, answer: JoinGroupResponse) -> None:
        """A member is told of its generation. member_id: what it said."""
        if not self._counts(before, epoch):
            return
        stored, number = self.stored, answer.generation_id
        leader = stored.leaders.get(number)
        must(leader is not None, "%s of group %s is told of generation %s, which is not stored",
             answer.member_id, self.group_id, number)  # fmt: skip
        named = stored.person(answer.leader)
        # A static member's process that could not be stored is one that another process may be told of.
        is_one = named == leader or answer.leader.rpartition("-")[0] == leader
        must(is_one, "generation %s of group %s is led by %s and by %s",
             number, self.group_id, leader, named)  # fmt: skip
        protocol = stored.protocols[number]
        must(protocol == answer.protocol_name, "generation %s of group %s has the protocols %s and %s",
             number, self.group_id, protocol, answer.protocol_name)  # fmt: skip
        must(not answer.members or answer.leader == answer.member_id,
             "%s of group %s gets all members, and %s leads",
             answer.member_id, self.group_id, answer.leader)  # fmt: skip
        self._check_present(before, epoch, member_id, number)
        self._lived[answer.member_id] = before.at
        self._through = max(self._through, epoch)
        self._told.generations[epoch] = max(self._told.generations.get(epoch, 0), number)
        ids = stored.ids.get(stored.instances.get(answer.member_id, ""), [])
        for former in ids[: ids.index(answer.member_id)] if answer.member_id in ids else ():
            self._told.fenced.setdefault(former, epoch)

    def synced(self, before: Before, epoch: int, member_id: str, generation: int, given: bytes) -> None:
        """A member is told its assignment."""
        if not self._counts(before, epoch):
            return
        assigned = self.stored.assigned.get(generation)
        if assigned is None:
            must(False, "%s of group %s is told an assignment of generation %s, which is not stored",
                 member_id, self.group_id, generation)  # fmt: skip
            return
        own = assigned.get(self.stored.person(member_id), b"")
        must(given == own, "%s of group %s is told the assignment %s, stored is %s",
             member_id, self.group_id, given, own)  # fmt: skip
        self.lived(before, epoch, member_id, generation)

    def lived(self, before: Before, epoch: int, member_id: str, generation: int) -> None:
        """A member is told that it is one, in this generation."""
        if self._counts(before, epoch):
            self._check_present(before, epoch, member_id, generation)
            self._through = max(self._through, epoch)
            self._lived[member_id] = before.at

    def shared(
        self,
        before: Before,
        epoch: int,
        member_id: str,
        member_epoch: int,
        given: dict[Place, TopicPartition] | None,
    ) -> None:
        """A member hears from the coordinator that shares the partitions out, see `SharedOut.told`."""
        if self._counts(before, epoch):
            self._through = max(self._through, epoch)
            self.sharing.told(epoch, member_id, member_epoch, given)

    def left(self, member_id: str) -> None:
        """A member says that it leaves."""
        self._lived.pop(member_id, None)

    def _check_present(self, before: Before, epoch: int, member_id: str, generation: int) -> None:
        """No generation from before, and no process that was replaced, by what a coordinator of this epoch,
        or of an earlier one, had told before the request."""
        known = before.told.generation(epoch)
        must(generation >= known, "%s of group %s is in generation %s, after %s was told",
             member_id, self.group_id, generation, known)  # fmt: skip
        fenced = before.told.fenced.get(member_id)
        must(fenced is None or fenced > epoch, "%s of group %s goes on, and another process is in its place",
             member_id, self.group_id)  # fmt: skip

    def kept(
        self, before: Before, epoch: int, member_id: str, generation: int, texts: Mapping[TopicPartition, str]
    ) -> None:
        """A member is told that its commits are stored. Their texts say which they are."""
        if not texts or not self._counts(before, epoch):
            return
        known = max(before.told.generations.values(), default=0)
        must(generation >= known, "a commit of generation %s of group %s is taken, after %s was told",
             generation, self.group_id, known)  # fmt: skip
        self.sharing.kept(epoch, member_id, generation)
        self.lived(before, epoch, member_id, generation)
        for place, text in texts.items():
            at = self.stored.index_of(place, text)
            must(at >= 0, "commit %s of %s is acknowledged to group %s, and is not stored",
                 text, place, self.group_id)  # fmt: skip
            by_epoch = self._told.kept.setdefault(place, {})
            by_epoch[epoch] = max(by_epoch.get(epoch, -1), at)

    def fetched(self, before: Before, epoch: int, found: Mapping[TopicPartition, str | None]) -> None:
        """A client is shown committed offsets, by their texts; None: there is none."""
        if not self._counts(before, epoch):
            return
        self._through = max(self._through, epoch)
        for place, text in found.items():
            by_epoch = before.told.kept.get(place, {})
            least = max((at for told, at in by_epoch.items() if told <= epoch), default=-1)
            history = self.stored.offsets.get(place, [])
            if text is None:
                is_gone = least < 0 or None in history[least:]
                must(is_gone, "group %s is shown no commit of %s, and one is kept",
                     self.group_id, place)  # fmt: skip
                continue
            at = self.stored.index_of(place, text)
            must(at >= 0, "group %s is shown commit %s of %s, which is not stored",
                 self.group_id, text, place)  # fmt: skip
            must(at >= least, "group %s is shown commit %s of %s, after %s was acknowledged",
                 self.group_id, text, place, least)  # fmt: skip


class GroupBooks:
    """Of all groups of a story."""

    def __init__(self, books: MessageBooks) -> None:
        self._books = books
        self._groups: dict[Key, dict[str, GroupBook]] = {}
        self._ids = 0
        books.on_group_batch = self.committed

    def of(self, key: Key, group_id: str) -> GroupBook:
        """That of one group. key: the partition in which it is kept."""
        groups = self._groups.setdefault(key, {})
        if group_id not in groups:
            groups[group_id] = GroupBook(self._books.world, group_id, self._books.of(key))
        return groups[group_id]

    def new_member_id(self, client_id: str) -> str:
        """One that no member has had."""
        self._ids += 1
        return f"{client_id}-{self._ids}"

    def committed(self, key: Key, batch: Batch) -> None:
        """A batch of the internal topic is committed."""
        sharing: dict[str, GroupBook] = {}
        for message in messages(batch.content, batch.data):
            read = group_records.read(message.key, message.value or None)
            if isinstance(read, OffsetRecord):
                if is_iggys_group(read.group_id):
                    continue  # these go back when a client says so: `iggy.iggy_marks`
                self.of(key, read.group_id).store_offset((read.topic, read.partition), read.offset)
            elif isinstance(read, GroupRecord):
                self.of(key, read.group_id).store_image(read.value)
            elif isinstance(read, ConsumerRecord):
                book = sharing[read.group_id] = self.of(key, read.group_id)
                book.store_share(read)
        for book in sharing.values():
            book.batch_stored()
