"""Commands that create, alter and delete topics. Pure."""

from tank_controller import limits
from tank_controller.commands import groups
from tank_controller.commands.assignments import assigned, check_assigned
from tank_controller.commands.elections import Elections
from tank_controller.commands.levels import WHAT_TO_DO, is_internal
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.state.codec import topic_message
from tank_controller.state.keys import key_of
from tank_controller.state.model import NO_BROKER, PartitionState, TopicState
from tank_controller.state.placement import spread_of
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels, topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.topic_settings import SettingError, TopicSettings
from tank_protos.wire.names import INTERNAL_TOPICS, first_topic_name_problem, topic_name_problem


def check_create_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_topic
    _check_name(state, create.name, internal=create.internal)
    if create.name in state.topic_ids:
        raise Rejected(ErrorCode.TOPIC_EXISTS, f"topic {create.name} exists already")
    if len(state.topics) >= limits.MAX_TOPICS:
        raise Rejected(ErrorCode.LIMIT_REACHED, f"there are {limits.MAX_TOPICS} topics: delete some first")
    _check_partitions(state, create.partitions, 0)
    replication_factor = create.replication_factor or _default_replication_factor(state)
    _check_brokers(state, create.partitions, replication_factor)
    check_assigned(state, create.assignments, create.partitions, replication_factor)
    pairs = {setting.key: setting.value for setting in create.settings}
    _check_settings(state, pairs, replication_factor)


def create_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a topic, with its replicas on the least loaded brokers, or where the command says."""
    create = command.create_topic
    topic = TopicState(
        topic_id=state.index,
        name=create.name,
        replication_factor=create.replication_factor or _default_replication_factor(state),
        settings=dict(sorted((setting.key, setting.value) for setting in create.settings)),
        partitions=[],
    )
    state.topics[topic.topic_id] = topic
    state.topic_ids[topic.name] = topic.topic_id
    _add_partitions(state, topic, create.partitions, assigned(state, create.assignments))
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
        _check_partitions(state, alter.partitions, len(topic.partitions))
        if added := alter.partitions - len(topic.partitions):
            _check_brokers(state, added, topic.replication_factor)
            check_assigned(state, alter.assignments, added, topic.replication_factor)
    if unknown := [key for key in alter.unset if key not in topic_settings.setting_keys(state.feature_level)]:
        raise Rejected(ErrorCode.INVALID_SETTING, f"topics have no setting {unknown[0]}")
    factor = alter.replication_factor or topic.replication_factor
    settings = _check_settings(state, _altered(topic, alter), factor)
    if settings.log_format is not topic.policy.log_format:
        key = topic_settings.LOG_FORMAT
        message = f"{key} is chosen when a topic is created, and can't change: create another topic"
        raise Rejected(ErrorCode.INVALID_SETTING, message)


def alter_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Changes a topic's settings, adds partitions, or raises an internal topic's replication factor."""
    alter = command.alter_topic
    topic = state.topics[alter.topic_id]
    outcome.topic_id = topic.topic_id
    settings = _altered(topic, alter)
    added = max(alter.partitions - len(topic.partitions), 0)
    factor = alter.replication_factor or topic.replication_factor
    if settings == topic.settings and not added and factor == topic.replication_factor:
        return
    topic.replication_factor = factor
    # Messages that are on no disk now may stay so for a while, and no log says when all brokers have written
    # them.
    some_default = state.some_default_replicated
    unsynced = topic.acknowledges_unsynced(some_default)
    state.set_settings(topic, settings)
    topic.was_replicated |= unsynced and not topic.acknowledges_unsynced(some_default)
    _settle(state, topic)
    _add_partitions(state, topic, added, assigned(state, alter.assignments))
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
    for number, partition in enumerate(topic.partitions):
        state.count_out(key_of(topic.topic_id, number), partition)
    del state.topics[topic.topic_id], state.topic_ids[topic.name]
    for name, topics in list(state.groups.items()):
        groups.forget_positions(state, {topic.topic_id: topics.pop(topic.topic_id, {})})
        if not topics:
            del state.groups[name]
    outcome.topic_id = topic.topic_id
    outcome.delta.deleted_topics.append(topic.topic_id)


def _altered(topic: TopicState, alter: pb.AlterTopic) -> dict[str, str]:
    pairs = {**topic.settings, **{setting.key: setting.value for setting in alter.set}}
    return {key: pairs[key] for key in sorted(pairs) if key not in alter.unset}


def _check_partitions(state: ClusterState, wanted: int, present: int) -> None:
    if not 1 <= wanted <= limits.MAX_PARTITIONS_PER_TOPIC:
        message = f"a topic has between 1 and {limits.MAX_PARTITIONS_PER_TOPIC} partitions"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)
    if wanted < present:
        message = f"the topic has {present} partitions already, and they can't become fewer"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)
    if state.partition_count + wanted - present > limits.MAX_PARTITIONS:
        message = f"all topics together have at most {limits.MAX_PARTITIONS} partitions: delete some first"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


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


def _check_name(state: ClusterState, name: str, *, internal: bool) -> None:
    """Judges a new topic's name by the rule of the feature level in force: entries of an earlier level were
    judged so, too. internal: whether a broker wants it for itself.
    """
    if internal and (state.feature_level < feature_levels.GROUPS or name not in INTERNAL_TOPICS):
        message = f"brokers have no topic {name} of their own at feature level {state.feature_level}"
        raise Rejected(ErrorCode.INVALID_NAME, f"{message}: {WHAT_TO_DO}")
    if problem := topic_name_problem(name):
        raise Rejected(ErrorCode.INVALID_NAME, problem)
    if state.feature_level >= feature_levels.KAFKA:
        if name in INTERNAL_TOPICS and not internal:
            message = f"brokers keep the name {name} for a topic of their own: choose another one"
            raise Rejected(ErrorCode.INVALID_NAME, message)
        return
    if problem := first_topic_name_problem(name):
        message = (
            f"{problem}; other names need feature level {feature_levels.KAFKA}, and level "
            f"{state.feature_level} is in force: {WHAT_TO_DO}"
        )
        raise Rejected(ErrorCode.INVALID_NAME, message)


def _check_settings(state: ClusterState, pairs: dict[str, str], replication_factor: int) -> TopicSettings:
    try:
        settings = topic_settings.from_pairs(pairs)
    except SettingError as error:
        raise Rejected(ErrorCode.INVALID_SETTING, str(error)) from None
    if settings.min_insync_replicas > replication_factor:
        message = (
            f"min.insync.replicas={settings.min_insync_replicas} is above the replication factor "
            f"{replication_factor}: nothing could ever be written"
        )
        raise Rejected(ErrorCode.INVALID_SETTING, message)
    if any(len(value.encode()) > topic_settings.MAX_VALUE_BYTES for value in pairs.values()):
        message = f"a setting's value has at most {topic_settings.MAX_VALUE_BYTES} bytes"
        raise Rejected(ErrorCode.INVALID_SETTING, message)
    if (problem := topic_settings.level_problem(settings, state.feature_level)) is not None:
        # Older controllers, which may be there below that level, refuse the entry, too.
        message = f"{problem}, and level {state.feature_level} is in force: {WHAT_TO_DO}"
        raise Rejected(ErrorCode.INVALID_SETTING, message)
    return settings


def _default_replication_factor(state: ClusterState) -> int:
    return min(len(_stayers(state)), limits.DEFAULT_REPLICATION_FACTOR)


def _stayers(state: ClusterState) -> list[int]:
    """The brokers that may hold new partitions now or later; a fenced one may come back."""
    return [broker.broker_id for broker in state.brokers.values() if not broker.draining]


def _check_brokers(state: ClusterState, partitions: int, replication_factor: int) -> None:
    brokers = len(_stayers(state))
    if brokers == 0:
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, "no broker has registered yet: try again")
    if replication_factor > min(brokers, limits.MAX_REPLICATION_FACTOR):
        message = f"replication factor {replication_factor} needs as many brokers, and there are {brokers}"
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    if not state.replicates:
        return  # entries of that time were accepted without this limit
    held = sum(len(keys) for keys in state.derived.held.values())
    if held + partitions * replication_factor > brokers * limits.MAX_REPLICAS_PER_BROKER:
        message = (
            f"{brokers} brokers hold at most {limits.MAX_REPLICAS_PER_BROKER} replicas each: delete topics, "
            "or add brokers"
        )
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


def _add_partitions(
    state: ClusterState, topic: TopicState, count: int, chosen: list[tuple[int, ...]]
) -> None:
    """chosen: the replicas of each, by a client; empty: they go to the least loaded brokers."""
    if count == 0:
        return
    for replicas in chosen or _placed(state, topic, count):
        alive = {broker_id for broker_id in replicas if not state.brokers[broker_id].fenced}
        partition = PartitionState(replicas, replicas, NO_BROKER, 1, 1)
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
        for broker_id in _stayers(state)
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
