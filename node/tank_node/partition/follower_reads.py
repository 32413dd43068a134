"""When a replica that follows may be read: by clients that prefer the broker which they have asked."""

from typing import TYPE_CHECKING

from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import PartitionView
from tank_node.log.log import LogState
from tank_node.replication.role import Role

if TYPE_CHECKING:
    from tank_node.partition.partition import Partition


def may_show(partition: "Partition", placed: PartitionView | None, link: ControllerLink) -> bool:
    """Whether a follower's messages up to its own high-water mark are those that its leader would show.

    The controllers count it as in sync and have been heard within a session timeout, the leader of the view's
    epoch is connected and has pushed in that epoch, and the log is whole. Without one of these its mark may
    stand still for as long as it likes, or be one of before a lossy election.
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
