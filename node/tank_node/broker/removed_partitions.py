"""Replicas in the data folder whose partitions or topics the cluster has removed, while this broker was
there, or away.
"""

from collections.abc import Iterable
from enum import Enum

from tank_node.cluster.view import PartitionView, TopicView
from tank_node.log.log import PartitionLog
from tank_node.store.data_folder import DataFolder


class RemovalReason(Enum):
    """Why a broker deletes a replica, in the words of its log."""

    REMOVED = "was removed"
    MOVED = "was moved to other brokers"


def beyond(folder: DataFolder, topic: TopicView, *known: Iterable[int]) -> list[int]:
    """The numbers of the topic's replicas, in the folder or `known` to the broker, whose partitions the
    cluster has removed. One that a leader has pushed later epochs to is of a partition made anew, which the
    view doesn't have yet."""
    count = len(topic.partitions)
    if not topic.epoch_floor:
        return []
    numbers = sorted({*folder.partitions_of(topic.topic_id)}.union(*known))
    logs = [(number, folder.logs.get((topic.topic_id, number))) for number in numbers if number >= count]
    return [number for number, log in logs if log is None or _last_epoch(log) <= topic.epoch_floor]


def is_of_earlier(log: PartitionLog, placed: PartitionView) -> bool:
    """Whether the log is of an earlier partition of this number: its leader epochs are below those of the
    present one. The last one says so: the first may be unknown, as 0."""
    return bool(log.epochs) and _last_epoch(log) < placed.first_epoch


def delete_purged(folder: DataFolder, topics: Iterable[TopicView]) -> None:
    """Deletes the data of topics under earlier ids, from before they were purged."""
    purged = {each for topic in topics if topic.iggy is not None for each in topic.iggy.purged}
    for topic_id in sorted(purged & folder.topic_ids()) if purged else ():
        folder.delete_topic(topic_id)


def _last_epoch(log: PartitionLog) -> int:
    return log.epochs[-1][0] if log.epochs else 0
