"""What commands do to the partitions of a topic: added, placed, settled anew, removed. Pure."""

from tank_controller.commands import groups
from tank_controller.commands.elections import Elections
from tank_controller.commands.iggy.leaving import leave_stream
from tank_controller.commands.outcome import CommandOutcome
from tank_controller.commands.topic_checks import stayers
from tank_controller.state.keys import key_of
from tank_controller.state.model import NO_BROKER, PartitionState, TopicState
from tank_controller.state.placement import spread_of
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


def add_partitions(state: ClusterState, topic: TopicState, count: int, chosen: list[tuple[int, ...]]) -> None:
    """Adds partitions. chosen: the replicas of each, by a client; empty: they go to the least loaded
    brokers. Their epochs are above those of partitions that were removed.
    """
    epoch = topic.epoch_floor + 1
    if count == 0:
        return
    for replicas in chosen or _placed(state, topic, count):
        alive = {broker_id for broker_id in replicas if not state.brokers[broker_id].fenced}
        partition = PartitionState(replicas, replicas, NO_BROKER, epoch, epoch)
        partition.first_epoch = epoch if topic.epoch_floor else 0
        partition.in_sync = partition.in_order(alive)
        if len(alive) < topic.min_insync:
            # Until now no message was acknowledged without these replicas, so they have all acknowledged
            # messages.
            partition.eligible = partition.in_order(set(replicas) - alive)
        if alive:
            partition.leader = partition.in_sync[0]
        number = len(topic.partitions)
        topic.partitions.append(partition)
        state.count_in(key_of(topic.topic_id, number), partition)


def _placed(state: ClusterState, topic: TopicState, count: int) -> list[tuple[int, ...]]:
    """Chooses replicas for new partitions, on live brokers as far as there are enough."""
    spread, wanted = state.candidates(), topic.replication_factor
    leads = state.derived.preferred
    if len(spread) >= wanted:
        return spread.place(count, wanted, leads)
    seats = [
        (broker_id, state.brokers[broker_id].rack, len(state.held_by(broker_id)))
        for broker_id in stayers(state)
    ]
    alive = [seat for seat in seats if seat[0] in spread]
    others = spread_of([seat for seat in seats if seat[0] not in spread])
    rest = others.place(count, wanted - len(alive), leads)
    if not alive:
        return rest
    first = spread_of(alive).place(count, len(alive), leads)
    return [(*living, *others) for living, others in zip(first, rest, strict=True)]


def _settle(state: ClusterState, topic: TopicState) -> None:
    """Applies new settings to the partitions: fewer replicas may have to be in sync, or unclean elections may
    be allowed now.
    """
    elections = Elections(state)
    for number, partition in enumerate(topic.partitions):
        if partition.eligible or partition.leader == NO_BROKER:
            key = key_of(topic.topic_id, number)
            elections.end_eligibility(key, topic, partition)
            elections.settle(key, topic, partition)
    elections.changes.finish(pb.Delta())  # the delta contains the whole topic anyway


def change_settings(state: ClusterState, topic: TopicState, settings: dict[str, str]) -> None:
    """Gives a topic other settings, which the caller has checked."""
    # Messages that are on no disk now may stay so for a while, and no log says when all brokers have written
    # them.
    some_default = state.some_default_replicated
    unsynced = topic.acknowledges_unsynced(some_default)
    state.set_settings(topic, settings)
    topic.was_replicated |= unsynced and not topic.acknowledges_unsynced(some_default)
    _settle(state, topic)


def remove_partitions(state: ClusterState, topic: TopicState, kept: int) -> None:
    """Removes a topic's partitions from the number `kept` on, with the groups' positions in them."""
    topic.epoch_floor += 1  # it rises each time, which tells a repeated command
    for number, partition in enumerate(topic.partitions[kept:], kept):
        key = key_of(topic.topic_id, number)
        # Before it is written, a partition of the same number may be added, and change.
        state.keep_for_images(key, partition)
        state.count_out(key, partition)
        topic.epoch_floor = max(topic.epoch_floor, partition.leader_epoch, partition.partition_epoch)
    topic.partitions = topic.partitions[:kept]
    for name, topics in list(state.groups.items()):
        held = topics.get(topic.topic_id, {})
        gone = {number: held.pop(number) for number in [each for each in held if each >= kept]}
        groups.forget_positions(state, {topic.topic_id: gone})
        if not held:
            topics.pop(topic.topic_id, None)
        if not topics:
            del state.groups[name]


def remove_topic(state: ClusterState, topic: TopicState, outcome: CommandOutcome) -> None:
    """Removes a topic, with the groups' positions in it, and its place among Iggy's streams."""
    forget_topic(state, topic, outcome)
    leave_stream(state, topic, outcome)


def forget_topic(state: ClusterState, topic: TopicState, outcome: CommandOutcome) -> None:
    """Removes a topic under its present id, with the groups' positions in it."""
    for number, partition in enumerate(topic.partitions):
        state.count_out(key_of(topic.topic_id, number), partition)
    del state.topics[topic.topic_id], state.topic_ids[topic.name]
    for name, topics in list(state.groups.items()):
        groups.forget_positions(state, {topic.topic_id: topics.pop(topic.topic_id, {})})
        if not topics:
            del state.groups[name]
    outcome.delta.deleted_topics.append(topic.topic_id)
