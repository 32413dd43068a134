"""The guarantees of the replicated state machine: one history, the same everywhere, in which no reader goes
back.

The log orders all commands, so linearizability is a matter of indexes: a command has a higher index than all
commands that were answered before it was sent, and a read sees all of those.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from tank_controller.commands.outcome import CommandOutcome
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb
from tests.simulation.books.iggy_books import check_numbers
from tests.simulation.world.world import World, must

PartitionKey = tuple[int, int]
"""(topic id, partition)"""


@dataclass(slots=True)
class Reign:
    """Of one partition: what the controller said of it last, and who led in which epoch."""

    partition_epoch: int = -1
    leader_epoch: int = 0
    leader: int = 0
    led: dict[int, int] = field(default_factory=dict)
    """By leader epoch."""


class MetadataBooks:
    """The books of one story."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.entries: dict[int, tuple[bytes, bytes, int]] = {}
        """By index: the command, the delta that it made, the error that it was refused with."""
        self.last_index = 0
        self.snapshots: dict[int, bytes] = {}
        self.reigns: dict[PartitionKey, Reign] = {}
        self.settled = 0
        """The greatest index that anybody was told of."""
        self.refusals: Counter[str] = Counter()
        self.on_lossy: Callable[[ClusterState, PartitionKey, int], None] = lambda state, key, epoch: None
        """Told of an election that may have lost acknowledged messages, and of its leader epoch."""
        self.on_in_sync: Callable[[ClusterState, PartitionKey, tuple[int, ...]], None] = (
            lambda state, key, members: None
        )
        """Told of every in-sync set that comes into the log."""
        self.on_fenced: Callable[[int], None] = lambda broker_id: None
        """Told of a broker that is fenced, with every change of brokers."""
        self.on_removed: Callable[[PartitionKey, int], None] = lambda key, floor: None
        """Told of a partition that was removed from its topic, and of the floor of the leader epochs of all
        that get its number later."""
        self._lossy: dict[PartitionKey, int] = {}
        self._partitions: dict[int, int] = {}
        """By topic id: how many the topic has."""

    # --- the state machine ---

    def applied(
        self, who: str, state: ClusterState, index: int, data: bytes, outcome: CommandOutcome
    ) -> None:
        """A controller has applied an entry."""
        error = int(outcome.rejection.error) if outcome.rejection is not None else 0
        made = data, outcome.delta.SerializeToString(deterministic=True), error
        known = self.entries.setdefault(index, made)
        must(known == made, "%s makes something else out of entry %s than others did", who, index)
        if index > self.last_index:
            self.last_index = index
            if outcome.rejection is not None:
                self.refusals[outcome.rejection.error.name] += 1
            self._check_delta(state, outcome.delta)

    def snapshot_made(self, who: str, index: int, data: bytes) -> None:
        """The state after an entry is the same bytes at everybody, however it came about."""
        must(
            self.snapshots.setdefault(index, data) == data, "%s has another state after entry %s", who, index
        )

    def _check_delta(self, state: ClusterState, delta: pb.Delta) -> None:
        check_numbers(state, delta)
        for topic in delta.topics:
            self._count_partitions(state, topic.topic_id, len(topic.partitions))
            for partition in topic.partitions:
                self._check_partition(state, topic.topic_id, partition)
        for changed in delta.changed:
            for partition in changed.partitions:
                self._check_partition(state, changed.topic_id, partition)
        if delta.brokers:
            self._check_fenced(state)

    def _count_partitions(self, state: ClusterState, topic_id: int, count: int) -> None:
        """A topic has so many partitions now. The next one of a number that was removed is another one."""
        before = self._partitions.get(topic_id, 0)
        self._partitions[topic_id] = count
        for number in range(count, before):
            self._lossy.pop((topic_id, number), None)
            self.on_removed((topic_id, number), state.topics[topic_id].epoch_floor)

    def _check_fenced(self, state: ClusterState) -> None:
        """Who is fenced leads nothing, and counts nowhere."""
        fenced = {broker_id for broker_id, broker in state.brokers.items() if broker.fenced}
        for broker_id in sorted(fenced):
            self.on_fenced(broker_id)
        for topic in state.topics.values() if fenced else ():
            for number, partition in enumerate(topic.partitions):
                where = f"{topic.topic_id}/{number} at entry {state.index}"
                must(
                    partition.leader not in fenced,
                    "broker %s is fenced and leads %s",
                    partition.leader,
                    where,
                )
                must(not fenced & set(partition.in_sync), "a fenced broker is in sync in %s", where)

    def _check_partition(self, state: ClusterState, topic_id: int, partition: pb.Partition) -> None:
        key = topic_id, partition.partition
        reign = self.reigns.setdefault(key, Reign())
        if partition.lossy_elections > self._lossy.get(key, 0):
            self._lossy[key] = partition.lossy_elections
            self.on_lossy(state, key, partition.lossy_epoch)
        self.on_in_sync(state, key, tuple(partition.in_sync))
        where = f"{topic_id}/{partition.partition} at entry {state.index}"
        must(partition.partition_epoch >= reign.partition_epoch, "the partition epoch of %s goes back", where)
        must(partition.leader_epoch >= reign.leader_epoch, "the leader epoch of %s goes back", where)
        changed = partition.leader != reign.leader or partition.leader_epoch != reign.leader_epoch
        if changed:
            must(
                partition.partition_epoch > reign.partition_epoch,
                "the leader of %s changed, and its partition epoch didn't",
                where,
            )
            must(
                partition.leader == 0 or partition.leader_epoch > reign.leader_epoch,
                "%s has a new leader in an old epoch",
                where,
            )
        reign.partition_epoch = partition.partition_epoch
        reign.leader_epoch, reign.leader = partition.leader_epoch, partition.leader
        if partition.leader:
            first = reign.led.setdefault(partition.leader_epoch, partition.leader)
            must(first == partition.leader, "%s has two leaders in epoch %s", where, partition.leader_epoch)
            must(partition.leader in partition.in_sync, "the leader of %s is not in sync", where)
        must(len(set(partition.in_sync)) == len(partition.in_sync), "%s counts a replica twice", where)
        must(set(partition.in_sync) <= set(partition.replicas), "%s has a stranger in sync", where)

    # --- those who ask ---

    def begins(self) -> int:
        """Somebody asks; give this back with the answer."""
        return self.settled

    def told_of_write(self, since: int, index: int, command: bytes) -> None:
        """Somebody is told that its command was applied as this entry."""
        entry = self.entries.get(index)
        must(
            entry is not None and entry[0] == command,
            "entry %s, which was acknowledged, is another one",
            index,
        )
        must(
            index > since,
            "a command was applied as entry %s, before entry %s that came before it",
            index,
            since,
        )
        self.settled = max(self.settled, index)

    def told_of_read(self, since: int, seen: int) -> None:
        """Somebody was shown the state after entry `seen`."""
        must(seen >= since, "a read saw entry %s, after another had seen entry %s", seen, since)
        self.settled = max(self.settled, seen)
