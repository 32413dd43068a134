"""Replicas in the data folder whose partitions or topics the cluster has removed, while this broker was there,
or away.
"""

from collections.abc import Iterable

from tank_node.cluster.view import TopicView
from tank_node.store.data_folder import DataFolder


def removed_replicas(folder: DataFolder, topic: TopicView) -> list[int]:
    """The numbers of the topic's replicas in the folder, whether they can be opened or not, whose partitions
    were removed. Where a new partition has the number, an earlier one's log has lower leader epochs."""
    found = []
    for number in folder.partitions_of(topic.topic_id):
        if number >= len(topic.partitions):
            found.append(number)
            continue
        log = folder.logs.get((topic.topic_id, number))
        if log is not None and log.epochs and log.epochs[0][0] < topic.partitions[number].first_epoch:
            found.append(number)
    return found


def delete_purged(folder: DataFolder, topics: Iterable[TopicView]) -> None:
    """Deletes the data of topics under earlier ids, from before they were purged."""
    for topic in topics:
        for topic_id in topic.iggy.purged if topic.iggy is not None else ():
            folder.delete_topic(topic_id)
