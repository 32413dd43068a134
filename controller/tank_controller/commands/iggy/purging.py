"""Commands that take messages away from topics of Iggy's clients: all of them, or some partitions. Pure."""

from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.iggy.derived import derived, with_part
from tank_controller.commands.iggy.iggy_checks import iggy_topic
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.commands.topic_partitions import (
    add_partitions,
    change_settings,
    forget_topic,
    remove_partitions,
)
from tank_controller.state.codec import topic_message
from tank_controller.state.iggy.iggy_codec import group_message
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def check_purge_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected. A second command names an id that is gone."""
    iggy_topic(state, command.purge_topic.topic_id)


def purge_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Gives a topic another id, under its names, numbers and settings, with the same groups and brokers:
    messages and positions hang on the id, and are gone.
    """
    before, part = iggy_topic(state, command.purge_topic.topic_id)
    forget_topic(state, before, outcome)
    state.iggy.remove_topic(part)
    groups = state.iggy.take_groups(before.topic_id)
    part = replace(part, purged=(*part.purged, before.topic_id)[-limits.MAX_PURGED_IDS :])
    topic = TopicState(
        topic_id=state.index,
        name=before.name,
        replication_factor=before.replication_factor,
        settings=before.settings,
        partitions=[],
        iggy=part,
    )
    state.topics[topic.topic_id] = topic
    state.topic_ids[topic.name] = topic.topic_id
    state.iggy.put_topic(topic.topic_id, part)
    add_partitions(state, topic, len(before.partitions), [each.target for each in before.partitions])
    for group in groups:
        kept = replace(group, topic_id=topic.topic_id)
        state.iggy.put_group(kept)
        outcome.delta.iggy_groups.append(group_message(kept))
    outcome.topic_id, outcome.number = topic.topic_id, part.number
    outcome.delta.topics.append(topic_message(topic))


def check_shrink_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected when the topic has fewer partitions than are to stay, or others than its client saw.
    When so many are left already, this may be a repeat: it is done.
    """
    shrink = command.shrink_topic
    topic, _ = iggy_topic(state, shrink.topic_id)
    count = len(topic.partitions)
    if shrink.partitions > count:
        message = f"{topic.name} has {count} partitions: {shrink.partitions} can't stay"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)
    seen = shrink.seen_partitions, shrink.seen_epoch_floor
    if shrink.partitions != count and seen != (count, topic.epoch_floor):
        message = f"the partitions of {topic.name} have changed: it has {count} now"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)


def shrink_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Removes the topic's partitions of the highest numbers, with their messages."""
    shrink = command.shrink_topic
    topic, part = iggy_topic(state, shrink.topic_id)
    outcome.topic_id, outcome.number = topic.topic_id, part.number
    count = len(topic.partitions)
    if shrink.partitions == count:
        return
    remove_partitions(state, topic, shrink.partitions)
    settings = with_part(topic.settings, derived(part, count), derived(part, shrink.partitions))
    if settings != topic.settings:
        change_settings(state, topic, settings)
    outcome.delta.topics.append(topic_message(topic))
