"""Replicas in the data folder whose partitions or topics the cluster has removed, while this broker was
there, or away.
"""

from collections.abc import Iterable

from tank_node.cluster.view import PartitionView, TopicView
from tank_node.log.log import PartitionLog
from tank_node.store.data_folder import DataFolder


def beyond(folder: DataFolder, topic: TopicView) -> list[int]:
    """The numbers of the topic's replicas in the folder, whether they can be opened or not, that the topic
    has no partitions of any more."""
    count = len(topic.partitions)
    return [number for number in folder.partitions_of(topic.topic_id) if number >= count]


def is_of_earlier(log: PartitionLog, placed: PartitionView) -> bool:
    """Whether the log is of an earlier partition of this number: its leader epochs are below those of the
    present one."""
    return bool(log.epochs) and log.epochs[0][0] < placed.first_epoch


def delete_purged(folder: DataFolder, topics: Iterable[TopicView]) -> None:
    """Deletes the data of topics under earlier ids, from before they were purged."""
    for topic in topics:
        for topic_id in topic.iggy.purged if topic.iggy is not None else ():
            folder.delete_topic(topic_id)
