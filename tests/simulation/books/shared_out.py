"""The guarantees about groups whose coordinator shares the partitions out (KIP-848), checked against the
committed records of the internal topic: epochs don't go back, a partition has one holder, and members hear of
nothing that is not stored."""

from collections import defaultdict
from dataclasses import dataclass, field

from tank_node.coordinators.machine.group_requests import TopicPartition
from tank_node.coordinators.machine.topics import Place, Places
from tank_node.coordinators.records.consumer_member import MemberStanding
from tank_node.coordinators.records.consumer_records import ConsumerImage, ConsumerRecord, KeyKind
from tests.simulation.world.world import must


@dataclass(slots=True)
class SharedOut:
    """How the partitions of one group are shared out."""

    group_id: str
    image: ConsumerImage = field(default_factory=ConsumerImage)
    """What the log says now."""
    read_by: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)
    """What each member reads, as far as it knows, by its id."""
    _stood: dict[str, set[tuple[int, Places]]] = field(default_factory=lambda: defaultdict(set))
    """By member: all epochs and assignments that were ever stored."""
    _told: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    """By member and leader epoch of the coordinator: the greatest member epoch."""
    _last_leader_epoch: int = 0
    """That of the newest coordinator that has told a member its partitions."""

    # --- the log ---

    def store(self, record: ConsumerRecord, *, is_judged: bool) -> None:
        """The mark has passed a record. is_judged: the bytes of the disk are those that were written."""
        kind, member_id = record.key
        value = record.value
        if kind is KeyKind.GROUP and isinstance(value, int) and is_judged:
            must(value >= self.image.epoch, "the epoch of group %s goes back from %s to %s",
                 self.group_id, self.image.epoch, value)  # fmt: skip
        if isinstance(value, MemberStanding):
            self._stood[member_id].add((value.epoch, value.assigned))
        self.image.take(record.key, value)

    def check_holders(self) -> None:
        """A batch of records is through: each partition has one holder."""
        holders: dict[Place, str] = {}
        for member_id, standing in self.image.standings.items():
            for place in standing.held:
                other = holders.setdefault(place, member_id)
                must(other == member_id, "partition %s of group %s is %s's, and %s's",
                     place[1], self.group_id, other, member_id)  # fmt: skip

    # --- what members are told ---

    def told(
        self, epoch: int, member_id: str, member_epoch: int, given: dict[Place, TopicPartition] | None
    ) -> None:
        """A member is told of its epoch, by a coordinator of this leader epoch. given: what it is to have, by
        the coordinator's names; None: as before."""
        self._check_epoch(epoch, member_id, member_epoch, "is told of")
        stood = self._stood.get(member_id, set())
        if given is None:
            is_stored = any(number == member_epoch for number, _ in stood)
        else:
            is_stored = (member_epoch, frozenset(given)) in stood
        shown = () if given is None else tuple(given.values())
        must(is_stored, "%s of group %s is told of epoch %s and the partitions %s, which is not stored",
             member_id, self.group_id, member_epoch, shown)  # fmt: skip
        by_epoch = self._told[member_id]
        by_epoch[epoch] = max(by_epoch.get(epoch, 0), member_epoch)
        is_member = member_id in self.image.standings  # else its session ended before this answer came
        if given is not None and is_member and epoch >= self._last_leader_epoch:
            self._last_leader_epoch = epoch
            self._check_alone(member_id, frozenset(given.values()))

    def _check_alone(self, member_id: str, given: frozenset[TopicPartition]) -> None:
        """No other one that is a member, by the log, reads what this one is given."""
        for other, places in self.read_by.items():
            twice = given & places
            is_other = other != member_id and other in self.image.standings
            must(not (twice and is_other), "%s of group %s is given %s, which %s reads",
                 member_id, self.group_id, tuple(twice), other)  # fmt: skip

    def kept(self, epoch: int, member_id: str, member_epoch: int) -> None:
        """A member's commit in this epoch is acknowledged."""
        self._check_epoch(epoch, member_id, member_epoch, "commits in")

    def _check_epoch(self, epoch: int, member_id: str, member_epoch: int, what: str) -> None:
        told = self._told.get(member_id, {})
        known = max((number for by, number in told.items() if by <= epoch), default=0)
        must(member_epoch >= known, "%s of group %s %s epoch %s, after it was told of %s",
             member_id, self.group_id, what, member_epoch, known)  # fmt: skip
