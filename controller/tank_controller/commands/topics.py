"""Commands that create, alter and delete topics. Pure."""

from tank_controller import limits
from tank_controller.commands.assignments import assigned, check_assigned
from tank_controller.commands.iggy.derived import altered_with
from tank_controller.commands.iggy.exposing import check_exposure, expose_created
from tank_controller.commands.levels import is_internal
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.commands.topic_checks import (
    check_brokers,
    check_iggy_bound,
    check_name,
    check_partitions,
    check_settings,
    default_replication_factor,
)
from tank_controller.commands.topic_partitions import add_partitions, change_settings, remove_topic
from tank_controller.state.codec import topic_message
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


def check_create_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_topic
    check_name(state, create.name, internal=create.internal)
    if create.name in state.topic_ids:
        raise Rejected(ErrorCode.TOPIC_EXISTS, f"topic {create.name} exists already")
    if len(state.topics) >= limits.MAX_TOPICS:
        raise Rejected(ErrorCode.LIMIT_REACHED, f"there are {limits.MAX_TOPICS} topics: delete some first")
    check_partitions(state, create.partitions, 0)
    replication_factor = create.replication_factor or default_replication_factor(state)
    check_brokers(state, create.partitions, replication_factor)
    check_assigned(state, create.assignments, create.partitions, replication_factor)
    pairs = {setting.key: setting.value for setting in create.settings}
    check_settings(state, pairs, replication_factor)
    check_exposure(state, create)


def create_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a topic, with its replicas on the least loaded brokers, or where the command says."""
    create = command.create_topic
    topic = TopicState(
        topic_id=state.index,
        name=create.name,
        replication_factor=create.replication_factor or default_replication_factor(state),
        settings=dict(sorted((setting.key, setting.value) for setting in create.settings)),
        partitions=[],
    )
    state.topics[topic.topic_id] = topic
    state.topic_ids[topic.name] = topic.topic_id
    add_partitions(state, topic, create.partitions, assigned(state, create.assignments))
    expose_created(state, topic, command, outcome)
    outcome.topic_id = topic.topic_id
    outcome.delta.topics.append(topic_message(topic))


def check_alter_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    alter = command.alter_topic
    topic = state.topics.get(alter.topic_id)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, "there is no such topic")
    if alter.partitions > len(topic.partitions):
        _check_not_internal(state, topic, "its partitions say where a group is, so that their number is kept")
    _check_factor(state, topic, alter.replication_factor)
    if alter.partitions:
        check_iggy_bound(topic, alter.partitions)
        check_partitions(state, alter.partitions, len(topic.partitions))
        if added := alter.partitions - len(topic.partitions):
            check_brokers(state, added, topic.replication_factor)
            check_assigned(state, alter.assignments, added, topic.replication_factor)
    if unknown := [key for key in alter.unset if key not in topic_settings.setting_keys(state.feature_level)]:
        raise Rejected(ErrorCode.INVALID_SETTING, f"topics have no setting {unknown[0]}")
    factor = alter.replication_factor or topic.replication_factor
    settings = check_settings(state, altered_with(topic, alter)[1], factor)
    if settings.log_format is not topic.policy.log_format:
        key = topic_settings.LOG_FORMAT
        message = f"{key} is chosen when a topic is created, and can't change: create another topic"
        raise Rejected(ErrorCode.INVALID_SETTING, message)


def alter_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Changes a topic's settings, adds partitions, or raises an internal topic's replication factor."""
    alter = command.alter_topic
    topic = state.topics[alter.topic_id]
    outcome.topic_id = topic.topic_id
    part, settings = altered_with(topic, alter)
    added = max(alter.partitions - len(topic.partitions), 0)
    factor = alter.replication_factor or topic.replication_factor
    if settings == topic.settings and not added and factor == topic.replication_factor:
        return
    topic.replication_factor = factor
    topic.iggy = part
    change_settings(state, topic, settings)
    add_partitions(state, topic, added, assigned(state, alter.assignments))
    outcome.delta.topics.append(topic_message(topic))


def check_delete_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    topic = state.topics.get(command.delete_topic.topic_id)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, "there is no such topic")
    _check_not_internal(state, topic, "brokers keep their own records in it")


def delete_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Deletes a topic, with the groups' positions in it."""
    topic = state.topics[command.delete_topic.topic_id]
    outcome.topic_id = topic.topic_id
    remove_topic(state, topic, outcome)


def _check_not_internal(state: ClusterState, topic: TopicState, why: str) -> None:
    if is_internal(state, topic):
        raise Rejected(ErrorCode.INVALID_NAME, f"{topic.name} is the cluster's own topic: {why}")


def _check_factor(state: ClusterState, topic: TopicState, factor: int) -> None:
    """Raises Rejected for a new replication factor that the partitions don't have yet."""
    if factor in (0, topic.replication_factor):
        return
    has_so_many = all(len(each.replicas) >= factor and not each.moves for each in topic.partitions)
    if factor < topic.replication_factor or not is_internal(state, topic) or not has_so_many:
        message = (
            f"the replication factor of {topic.name} is {topic.replication_factor}: that of an internal "
            "topic can rise, when each partition has so many replicas"
        )
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, message)
