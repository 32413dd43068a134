"""When clients may read from a follower: those that prefer the broker they are connected to."""

from typing import TYPE_CHECKING

from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import PartitionView
from tank_node.log.log import LogState
from tank_node.replication.role import Role

if TYPE_CHECKING:
    from tank_node.partition.partition import Partition


def may_show(partition: "Partition", placed: PartitionView | None, link: ControllerLink) -> bool:
    """Whether a follower's messages up to its high-water mark are those that its leader would show now.

    All must hold: the follower is in sync in a current view, the view's leader is connected and has pushed in
    its epoch, and the log is whole. Otherwise the mark may be out of date, or from before a lossy election.
    """
    follower = partition.follower
    if partition.role is not Role.FOLLOWER or follower is None or placed is None or not link.connected:
        return False
    return (
        link.view.broker_id in placed.in_sync
        and placed.leader_epoch == partition.leader_epoch
        and partition.log.state is LogState.ACTIVE
        and not partition.log.is_impaired
        and follower.agrees_with(placed.leader, placed.leader_epoch)
    )
