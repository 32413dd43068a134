"""Who leads a partition: from the in-sync set, then from the eligible replicas; else nobody. Pure.

Lossy and unclean elections are never made here on their own, but for two cases that are said at `settle`.
"""

from tank_controller.state.changes import PartitionChanges
from tank_controller.state.model import NOBODY, PartitionState, TopicState
from tank_controller.state.state import ClusterState


class Elections:
    """Changes in-sync sets and leaders of partitions, for one command."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.changes = PartitionChanges(state)

    def leave(
        self, key: int, topic: TopicState, partition: PartitionState, broker_id: int, *, impaired: bool
    ) -> None:
        """Takes a replica out of the in-sync set; it stays eligible when too few are left without it.

        `impaired`: it may have lost something that it had. That stays true of an eligible replica until it is
        in sync again, whatever later registrations of its broker say.
        """
        if broker_id in partition.in_sync:
            self.changes.touch(key, partition)
            partition.in_sync = tuple([each for each in partition.in_sync if each != broker_id])
            if len(partition.in_sync) < topic.min_insync:
                partition.eligible = partition.in_order({*partition.eligible, broker_id})
        if impaired and broker_id in partition.eligible and broker_id not in partition.impaired:
            self.changes.touch(key, partition)
            partition.impaired = partition.in_order({*partition.impaired, broker_id})

    def set_in_sync(self, key: int, topic: TopicState, partition: PartitionState, members: set[int]) -> None:
        """The leader's wish: whoever leaves stays eligible when too few are left, as with `leave`."""
        if members == set(partition.in_sync):
            return
        self.changes.touch(key, partition)
        eligible = {*partition.eligible, *partition.in_sync} - members
        partition.in_sync = partition.in_order(members)
        partition.eligible = partition.in_order(eligible)
        partition.impaired = partition.in_order(eligible & set(partition.impaired))
        self.end_eligibility(key, topic, partition)

    def end_eligibility(self, key: int, topic: TopicState, partition: PartitionState) -> None:
        """With enough in sync, messages are acknowledged without the eligible ones: they are so no more."""
        if partition.eligible and len(partition.in_sync) >= topic.min_insync:
            self.changes.touch(key, partition)
            partition.eligible = partition.impaired = ()

    def settle(
        self, key: int, topic: TopicState, partition: PartitionState, *, returned: int = 0, failed: int = 0
    ) -> None:
        """Sees to it that an in-sync replica leads, or nobody.

        Two elections that may lose messages happen here: where the topic allows unclean ones (`failed` is no
        candidate then: it has just said that it can't go on); and where the only replica has `returned`
        impaired: there is no other whose end could be asked for.
        """
        if partition.leader in partition.in_sync and partition.leader != NOBODY:
            return
        if best := self.best(partition.in_sync):
            self.lead(key, partition, best)
        elif best := self._intact(partition):
            self.changes.touch(key, partition)
            rest = {each for each in partition.eligible if each != best}
            partition.in_sync = (best,)
            partition.eligible = partition.in_order(rest)
            self.lead(key, partition, best)
            self.end_eligibility(key, topic, partition)
        elif partition.replicas == (returned,) and returned in partition.eligible:
            self.lead_lossy(key, partition, returned)
        elif topic.policy.unclean_leader_election and (best := self.any_alive(partition, failed)):
            self.lead_lossy(key, partition, best)
        else:
            self.lead(key, partition, NOBODY)

    def lead(self, key: int, partition: PartitionState, leader: int) -> None:
        """Another leader, in a new epoch."""
        if leader != partition.leader:
            self.changes.touch(key, partition)
            partition.leader = leader
            partition.leader_epoch += 1

    def lead_lossy(self, key: int, partition: PartitionState, leader: int) -> None:
        """A leader that may not have all that was acknowledged: what it has is what counts from here on."""
        self.changes.touch(key, partition)
        partition.in_sync = (leader,)
        partition.eligible = partition.impaired = ()
        partition.leader = leader
        partition.leader_epoch += 1
        partition.lossy_elections += 1
        self._state.lossy_elections += 1
        partition.lossy_epoch = partition.leader_epoch

    def best(self, members: tuple[int, ...]) -> int:
        """The one to lead of in-sync replicas: the preferred, but rather one whose broker doesn't leave, has
        room, and has its clock right. A wrong clock is worse than a broker that drains, better than one
        without room, which takes no messages, and that is better than one that stops."""
        brokers = self._state.brokers
        for broker_id in members:
            if not brokers[broker_id].steps_aside:
                return broker_id

        def worse(broker_id: int) -> tuple[bool, bool, bool]:
            broker = brokers[broker_id]
            return broker.shutting_down, broker.no_room, broker.clock_off

        return min(members, key=worse, default=NOBODY)

    def _intact(self, partition: PartitionState) -> int:
        """The one to lead of the eligible replicas that have all they had."""
        alive = (each for each in partition.eligible if not self._state.brokers[each].fenced)
        return self.best(tuple(each for each in alive if each not in partition.impaired))

    def any_alive(self, partition: PartitionState, failed: int = 0) -> int:
        """For an unclean election: a replica whose broker lives, one that may be behind only if there is no
        eligible one, one that is impaired last. 0: none."""
        alive = [
            each
            for each in partition.replicas
            if each != failed and not self._state.brokers[each].fenced and each not in partition.impaired
        ]
        eligible = tuple(each for each in alive if each in partition.eligible)
        if best := self.best(eligible) or self.best(tuple(alive)):
            return best
        impaired = (each for each in partition.impaired if each != failed)
        return self.best(tuple(each for each in impaired if not self._state.brokers[each].fenced))
