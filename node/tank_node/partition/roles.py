"""Which replicas of this node lead and which follow, from what the cluster's view says."""

import logging

from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import NO_LEADER, PartitionView, TopicView
from tank_node.limits import Limits
from tank_node.log.errors import StorageError
from tank_node.log.log import LogState
from tank_node.partition.leader import Leadership, Pushers
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role

logger = logging.getLogger(__name__)


class Roles:
    """Gives partitions their roles. The broker's."""

    def __init__(self, link: ControllerLink, limits: Limits) -> None:
        self.pushers = Pushers()
        """Of a node with peers: its `replicator`, set by the composition root before the broker opens."""
        self.registered = False
        """Whether this process's registration is committed and in the view: before that it takes no orders
        and leads nothing."""
        self._link = link
        self._limits = limits

    def assign(
        self, partition: Partition, topic: TopicView, placed: PartitionView, *, flush_disk: bool
    ) -> None:
        """The role that the view gives to this replica. An epoch that a leader has pushed, and the view does
        not know yet, is believed: older orders change nothing."""
        own = self._link.view.broker_id
        if self.registered and placed.leader_epoch < partition.leader_epoch:
            return
        if not self.registered or placed.leader != own:
            partition.flush_disk = flush_disk
            led = self.registered and placed.leader != NO_LEADER
            partition.follow(Role.FOLLOWER if led else Role.NONE, placed.leader_epoch)
            return
        min_in_sync = topic.settings.min_insync(topic.replication_factor)
        replicas = tuple(dict.fromkeys((*placed.replicas, *placed.in_sync)))
        if replicas == (own,):
            self._lead_alone(partition, placed, flush_disk=flush_disk)
            partition.set_in_sync(len(placed.in_sync), min_in_sync)
            return
        partition.flush_disk = flush_disk
        leadership = partition.leadership
        if not isinstance(leadership, Leadership) or leadership.leader_epoch != placed.leader_epoch:
            if not self._may_lead(partition, placed):
                return
            leadership = Leadership(
                partition,
                topic.topic_id,
                placed.leader_epoch,
                own,
                pushers=self.pushers,
                lag_ms=self._limits.replica_lag_ms,
            )
            partition.lead(placed.leader_epoch, leadership)
            self.pushers.lead(leadership)
        leadership.view(placed, replicas, min_in_sync)

    def _lead_alone(self, partition: Partition, placed: PartitionView, *, flush_disk: bool) -> None:
        """There are no followers, so what this node has (flush=disk: on its disk) is committed."""
        if partition.role is not Role.LEADER or partition.leadership is not None:
            partition.lead(placed.leader_epoch, None)
            partition.advance(partition.log.synced)
            partition.acks.answer(partition.high_water_mark)
        partition.leader_epoch = placed.leader_epoch
        partition.stands_alone = not self.pushers.are_needed
        partition.set_flush_disk(flush_disk)

    def _may_lead(self, partition: Partition, placed: PartitionView) -> bool:
        log = partition.log
        # What is lost later in that epoch, others may have: it is not given up a second time.
        makes_do = (
            log.is_impaired
            and placed.lossy_epoch == placed.leader_epoch
            and partition.led_epoch < placed.leader_epoch
        )
        if makes_do:
            self._make_do(partition, placed)
        goes_on = partition.role is Role.LEADER and partition.leader_epoch == placed.leader_epoch
        reason = ""
        if log.state is not LogState.ACTIVE or log.is_impaired:
            reason = log.reason or "it is being filled anew"
        elif not (goes_on or makes_do) and log.epochs and log.epochs[-1][0] >= placed.leader_epoch:
            # It would give numbers a second time that an earlier process has given in this very epoch.
            reason = f"its log has epoch {log.epochs[-1][0]} already"
        if not reason:
            return True
        logger.error(
            "%s/%d cannot lead in epoch %d: %s",
            partition.topic_name,
            partition.number,
            placed.leader_epoch,
            reason,
        )
        partition.follow(Role.NONE, placed.leader_epoch)
        self.pushers.report(partition)
        return False

    def _make_do(self, partition: Partition, placed: PartitionView) -> None:
        """A lossy election chose this replica, damaged as it is: what is good of it stays."""
        name, number, log = partition.topic_name, partition.number, partition.log
        try:
            if log.state is LogState.DAMAGED:
                log.mend(partition.tick.now_ms, placed.leader_epoch)
        except StorageError as error:
            logger.error("%s/%d cannot be mended: %s", name, number, error)
            return
        partition.high_water_mark = min(partition.high_water_mark, log.high_water_mark)
        log.refilling, log.changed = False, True
        logger.error("%s/%d leads with what is left of it, up to %d", name, number, log.written)

    def failed(self, partition: Partition) -> None:
        """After an error: a replica that takes no more writes steps down and is reported, where there are
        others. One that is alone stays what it is: nobody else could be."""
        if partition.log.state in (LogState.ACTIVE, LogState.CLOSED):
            return
        if partition.follower is not None:
            partition.follower.failed()
        if partition.role is Role.LEADER:
            if partition.leadership is None:
                return
            partition.follow(Role.NONE, partition.leader_epoch)
        self.pushers.report(partition)
