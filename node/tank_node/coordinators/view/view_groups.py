"""Iggy's groups, and the brokers of their members, in a broker's view of the cluster."""

from tank_node.broker.broker import Broker
from tank_node.cluster.view import ClusterView
from tank_node.coordinators.iggy.consumer_ids import born_of
from tank_node.coordinators.machine.iggy_requests import IggyKnown
from tank_protos.feature_levels import IGGY
from tank_protos.wire.names import IGGY_CONSUMER_PREFIX


class ViewGroups(IggyKnown):
    """What one broker's view shows of Iggy's groups."""

    __slots__ = ("_broker",)

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def place_of(self, group_id: str) -> tuple[str, int] | None:
        born = born_of(group_id)
        view = self._broker.link.view
        group = None if born is None else view.iggy.group_born(born)
        topic = None if group is None else view.topic_by_id(group.topic_id)
        return None if topic is None else (topic.name, len(topic.partitions))

    @property
    def is_in_force(self) -> bool:
        return self._broker.link.view.feature_level >= IGGY

    def was_deleted(self, group_id: str) -> bool:
        born = born_of(group_id) if self.is_in_force else None
        view = self._broker.link.view
        return born is not None and born <= view.index and view.iggy.group_born(born) is None

    def is_alive(self, broker: int, epoch: int) -> bool:
        view = self._broker.link.view
        known = view.brokers.get(broker)
        if epoch > view.index:
            return True  # it has registered since
        return known is not None and known.epoch == epoch and not known.fenced


def iggy_title(view: ClusterView, group_id: str) -> str:
    """What people know one of Iggy's groups or consumers by: `stream/topic/group`, or `consumer NAME`; empty
    for other groups, and for one that is gone."""
    if view.feature_level < IGGY:
        return ""
    if group_id.startswith(IGGY_CONSUMER_PREFIX):
        return f"consumer {group_id.removeprefix(IGGY_CONSUMER_PREFIX)}"
    born = born_of(group_id)
    group = None if born is None else view.iggy.group_born(born)
    topic = None if group is None else view.topic_by_id(group.topic_id)
    part = None if topic is None else topic.iggy
    stream = None if part is None else view.iggy.stream(part.stream)
    if group is None or part is None or stream is None:
        return ""
    return f"{stream.name}/{part.name}/{group.name}"
