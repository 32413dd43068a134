"""Topics and partitions of a cluster view, in the form that tests compare."""

from collections.abc import Collection

from tank_node.cluster.view import ClusterView, TopicView, WholeState


def show(view: ClusterView, *topics: TopicView, without: Collection[int] = ()) -> None:
    """The view has these topics beside those that it has, and none of these ids; its index stays. Of ended
    producers it knows none."""
    whole = WholeState(view)
    whole.index, whole.feature_level, whole.brokers = view.index, view.feature_level, view.brokers
    new = {topic.topic_id for topic in topics}.union(without)
    whole.topics = [topic for topic in view.topics() if topic.topic_id not in new]
    whole.topics += topics
    whole.streams = view.iggy.streams()
    whole.users = view.users.all()
    whole.iggy_groups = [group for topic in whole.topics for group in view.iggy.groups(topic.topic_id)]
    view.replace(whole)
