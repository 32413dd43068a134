"""Elections of partition leaders: from the in-sync set, then from the eligible replicas. Pure.

Lossy and unclean elections need a command of their own, except for the two cases named at `settle`.
"""

from tank_controller.commands.changes import PartitionChanges
from tank_controller.state.model import NO_BROKER, PartitionState, TopicState
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

        `impaired`: the replica may have lost messages. An eligible replica stays impaired until it is in sync
        again, whatever later registrations of its broker say.
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
        """Sets the leader's in-sync set. A replica that leaves may stay eligible, as in `leave`."""
        if members == set(partition.in_sync):
            return
        self.changes.touch(key, partition)
        eligible = {*partition.eligible, *partition.in_sync} - members
        partition.in_sync = partition.in_order(members)
        partition.eligible = partition.in_order(eligible)
        partition.impaired = partition.in_order(eligible & set(partition.impaired))
        self.end_eligibility(key, topic, partition)

    def end_eligibility(self, key: int, topic: TopicState, partition: PartitionState) -> None:
        """Ends eligibility where enough replicas are in sync to acknowledge messages."""
        if partition.eligible and len(partition.in_sync) >= topic.min_insync:
            self.changes.touch(key, partition)
            partition.eligible = partition.impaired = ()

    def settle(
        self, key: int, topic: TopicState, partition: PartitionState, *, returned: int = 0, failed: int = 0
    ) -> None:
        """Makes an in-sync replica the leader, else an eligible one that has lost nothing; without either the
        partition has no leader.

        Two elections that may lose messages happen here: where the topic allows unclean ones (`failed`, a
        replica that has just reported that it can't go on, is no candidate); and where the only replica has
        `returned` impaired, and no other replica exists that could be queried.
        """
        if partition.leader in partition.in_sync and partition.leader != NO_BROKER:
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
            self.lead(key, partition, NO_BROKER)

    def lead(self, key: int, partition: PartitionState, leader: int) -> None:
        """Makes a replica the leader, in a new leader epoch."""
        if leader != partition.leader:
            self.changes.touch(key, partition)
            partition.leader = leader
            partition.leader_epoch += 1

    def lead_lossy(self, key: int, partition: PartitionState, leader: int) -> None:
        """A leader that may lack acknowledged messages: its log is the partition's log from now on."""
        self.changes.touch(key, partition)
        partition.in_sync = (leader,)
        partition.eligible = partition.impaired = ()
        partition.leader = leader
        partition.leader_epoch += 1
        partition.lossy_elections += 1
        self._state.lossy_elections += 1
        partition.lossy_epoch = partition.leader_epoch

    def best(self, members: tuple[int, ...]) -> int:
        """The replica to lead out of an in-sync set: the preferred one, unless its broker drains, has a wrong
        clock, has no room, or stops; in this order, the last being the worst.
        """
        brokers = self._state.brokers
        for broker_id in members:
            if not brokers[broker_id].steps_aside:
                return broker_id

        def worse(broker_id: int) -> tuple[bool, bool, bool]:
            broker = brokers[broker_id]
            return broker.shutting_down, broker.no_room, broker.clock_off

        return min(members, key=worse, default=NO_BROKER)

    def _intact(self, partition: PartitionState) -> int:
        """The replica to lead among the eligible ones that have lost nothing; 0 without one."""
        alive = (each for each in partition.eligible if not self._state.brokers[each].fenced)
        return self.best(tuple(each for each in alive if each not in partition.impaired))

    def any_alive(self, partition: PartitionState, failed: int = 0) -> int:
        """The leader for an unclean election: a live eligible replica, else any live replica; impaired ones
        come last. 0 where none lives.
        """
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
