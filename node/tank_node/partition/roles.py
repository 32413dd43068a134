"""Giving the replicas of this node their roles, leader or follower, by the cluster's view."""

import logging

from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import NO_LEADER, PartitionView, TopicView
from tank_node.limits import Limits
from tank_node.log.log import LogState
from tank_node.log.recovery.mend import mend
from tank_node.partition.leader import PartitionLeader, Pushers
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_node.segment.errors import StorageError

logger = logging.getLogger(__name__)


class Roles:
    """Gives partitions their roles; a part of `broker.Broker`."""

    def __init__(self, link: ControllerLink, limits: Limits) -> None:
        self.pushers = Pushers()
        """The pushes to followers. In a cluster the composition root sets `peers.Replicator` before the
        broker opens."""
        self.registered = False
        """Whether this process's registration is committed and in the view. Before that it neither leads nor
        follows."""
        self._link = link
        self._limits = limits

    def assign(
        self, partition: Partition, topic: TopicView, placed: PartitionView, *, flush_disk: bool
    ) -> None:
        """Gives a partition the role in the view. If the partition knows a higher leader epoch from a push,
        the view is out of date and changes nothing."""
        led = partition.role is Role.LEADER
        epoch = partition.leader_epoch
        self._assign(partition, topic, placed, flush_disk=flush_disk)
        if led and partition.role is Role.LEADER and partition.leader_epoch != epoch:
            for waiter in tuple(partition.waiters):
                if not waiter.done:
                    waiter.epoch_began(partition)

    def _assign(
        self, partition: Partition, topic: TopicView, placed: PartitionView, *, flush_disk: bool
    ) -> None:
        own = self._link.view.broker_id
        if self.registered and placed.leader_epoch < partition.leader_epoch:
            return
        if not self.registered or placed.leader != own:
            partition.flush_disk = flush_disk
            led = self.registered and placed.leader != NO_LEADER
            partition.become(Role.FOLLOWER if led else Role.NONE, placed.leader_epoch)
            return
        min_in_sync = topic.settings.min_insync(topic.replication_factor)
        replicas = tuple(dict.fromkeys((*placed.replicas, *placed.in_sync)))
        if replicas == (own,):
            self._lead_alone(partition, placed, flush_disk=flush_disk)
            partition.set_in_sync(len(placed.in_sync), min_in_sync)
            return
        partition.flush_disk = flush_disk
        leadership = partition.leadership
        if not isinstance(leadership, PartitionLeader) or leadership.leader_epoch != placed.leader_epoch:
            if not self._may_lead(partition, placed):
                return
            leadership = PartitionLeader(
                partition,
                topic.topic_id,
                placed.leader_epoch,
                own,
                pushers=self.pushers,
                lag_ms=self._limits.replica_lag_ms,
            )
            partition.become(Role.LEADER, placed.leader_epoch, leadership)
        leadership.view(placed, replicas, min_in_sync)

    def _lead_alone(self, partition: Partition, placed: PartitionView, *, flush_disk: bool) -> None:
        """Makes this only replica the leader: all messages that it has (flush=disk: on its disk) are
        committed."""
        if partition.role is not Role.LEADER or partition.leadership is not None:
            partition.become(Role.LEADER, placed.leader_epoch)
            partition.advance(partition.log.synced)
            partition.acks.answer(partition.high_water_mark)
        partition.leader_epoch = placed.leader_epoch
        partition.stands_alone = not self.pushers.are_needed
        partition.set_flush_disk(flush_disk)

    def _may_lead(self, partition: Partition, placed: PartitionView) -> bool:
        log, health = partition.log, partition.log.health
        # Once per epoch: messages lost later in that epoch, other replicas may have.
        makes_do = (
            health.is_impaired
            and placed.lossy_epoch == placed.leader_epoch
            and partition.led_epoch < placed.leader_epoch
        )
        if makes_do:
            self._lead_damaged(partition, placed)
        goes_on = partition.role is Role.LEADER and partition.leader_epoch == placed.leader_epoch
        reason, epochs = "", log.segments.epochs
        if health.state is not LogState.ACTIVE or health.is_impaired:
            reason = health.reason or "it is being filled anew"
        elif not (goes_on or makes_do) and epochs and epochs[-1][0] >= placed.leader_epoch:
            # An earlier process of this broker gave out numbers in this epoch: it must not give them out
            # again.
            reason = f"its log has epoch {epochs[-1][0]} already"
        if not reason:
            return True
        logger.error(
            "%s/%d cannot lead in epoch %d: %s",
            partition.topic_name,
            partition.number,
            placed.leader_epoch,
            reason,
        )
        partition.become(Role.NONE, placed.leader_epoch)
        self.pushers.report(partition)
        return False

    def _lead_damaged(self, partition: Partition, placed: PartitionView) -> None:
        """Mends a damaged replica that a lossy election chose as the leader: its good batches stay."""
        name, number, log = partition.topic_name, partition.number, partition.log
        try:
            if log.state is LogState.DAMAGED:
                mend(log, partition.tick.now_ms, placed.leader_epoch)
        except StorageError as error:
            logger.error("%s/%d is damaged and cannot be mended: %s", name, number, error)
            return
        partition.high_water_mark = min(partition.high_water_mark, log.high_water_mark)
        log.end_refill()
        logger.error(
            "%s/%d leads after a lossy election with the good messages of its damaged log, up to %d",
            name,
            number,
            log.written,
        )

    def failed(self, partition: Partition) -> None:
        """Handles a replica whose log takes no more writes: it steps down and is reported to the controllers.
        The only replica of a partition keeps its role, because no other could lead."""
        if partition.log.state in (LogState.ACTIVE, LogState.CLOSED):
            return
        if partition.follower is not None:
            partition.follower.failed()
        if partition.role is Role.LEADER:
            if partition.leadership is None:
                return
            partition.become(Role.NONE, partition.leader_epoch)
        self.pushers.report(partition)
