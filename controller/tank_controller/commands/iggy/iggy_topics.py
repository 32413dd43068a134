"""Commands that create and alter topics of Iggy's clients. Pure."""

from dataclasses import replace

from tank_controller import limits
from tank_controller.commands.iggy.derived import check_options, check_values, derived, with_part
from tank_controller.commands.iggy.iggy_checks import (
    check_number,
    check_option_room,
    check_topic_name,
    iggy_topic,
    is_made_by,
    living_stream,
    number_for,
)
from tank_controller.commands.outcome import CommandOutcome, Rejected
from tank_controller.commands.topic_checks import (
    check_brokers,
    check_room,
    check_settings,
    default_replication_factor,
)
from tank_controller.commands.topic_partitions import add_partitions, change_settings
from tank_controller.state.codec import topic_message
from tank_controller.state.iggy.iggy_codec import maker_of, options
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.stream_state import StreamState
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import INTERNAL_TOPICS, topic_name_problem


def check_create_iggy_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    create = command.create_iggy_topic
    stream = living_stream(state, create.stream, create.born)
    if _made_before(state, create) is not None:
        return
    check_topic_name(state, stream, create.name)
    check_number(_chosen(create), state.iggy.topics.get(stream.number, ()), "topic")
    if len(state.topics) >= limits.MAX_TOPICS:
        raise Rejected(ErrorCode.LIMIT_REACHED, f"there are {limits.MAX_TOPICS} topics: delete some first")
    if create.partitions > limits.MAX_IGGY_PARTITIONS:
        message = f"a topic of Iggy's has at most {limits.MAX_IGGY_PARTITIONS} partitions"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)
    check_room(state, create.partitions)
    factor = create.replication_factor or default_replication_factor(state)
    check_brokers(state, create.partitions, factor)
    check_values(create.values)
    part = _part(state, command)
    check_option_room(state, None, part)
    check_settings(state, _settings(create, part), factor)


def create_iggy_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Creates a topic in a stream, with its replicas on the least loaded brokers."""
    create = command.create_iggy_topic
    if (present := _made_before(state, create)) is not None:
        outcome.topic_id, outcome.number = present
        return
    part = _part(state, command)
    topic = TopicState(
        topic_id=state.index,
        name=cluster_name(state, state.iggy.streams[create.stream], create.name, state.index),
        replication_factor=create.replication_factor or default_replication_factor(state),
        settings=_settings(create, part),
        partitions=[],
        iggy=part,
    )
    state.topics[topic.topic_id] = topic
    state.topic_ids[topic.name] = topic.topic_id
    state.iggy.put_topic(topic.topic_id, part)
    add_partitions(state, topic, create.partitions, [])
    outcome.topic_id, outcome.number = topic.topic_id, part.number
    outcome.delta.topics.append(topic_message(topic))


def cluster_name(state: ClusterState, stream: StreamState, name: str, topic_id: int) -> str:
    """The name by which clients of other protocols know a new topic: stream and name where that is a legal
    name, and free.
    """
    wanted = f"{stream.name}.{name}"
    if topic_name_problem(wanted) is None and wanted not in INTERNAL_TOPICS | state.topic_ids.keys():
        return wanted
    wanted = numbered = f"iggy-{topic_id:x}"
    again = 0
    while wanted in state.topic_ids:  # somebody gave that name to a topic of another protocol
        again += 1
        wanted = f"{numbered}-{again}"
    return wanted


def check_alter_iggy_topic(state: ClusterState, command: pb.Command) -> None:
    """Raises Rejected."""
    alter = command.alter_iggy_topic
    topic, part = iggy_topic(state, alter.topic_id)
    if alter.HasField("name") and alter.name != part.name:
        check_topic_name(state, state.iggy.streams[part.stream], alter.name)
    check_options(alter.options.options)
    after, settings = _altered(topic, part, alter)
    check_option_room(state, part, after)
    check_settings(state, settings, topic.replication_factor)


def alter_iggy_topic(state: ClusterState, command: pb.Command, outcome: CommandOutcome) -> None:
    """Changes a topic's name in its stream, and what follows from what its client says of it."""
    alter = command.alter_iggy_topic
    topic, before = iggy_topic(state, alter.topic_id)
    outcome.topic_id, outcome.number = topic.topic_id, before.number
    part, settings = _altered(topic, before, alter)
    if part == before and settings == topic.settings:
        return
    state.iggy.remove_topic(before)
    state.iggy.put_topic(topic.topic_id, part)
    topic.iggy = part
    if settings != topic.settings:
        change_settings(state, topic, settings)
    outcome.delta.topics.append(topic_message(topic))


def _altered(topic: TopicState, part: IggyPart, alter: pb.AlterIggyTopic) -> tuple[IggyPart, dict[str, str]]:
    after = replace(
        part,
        name=alter.name if alter.HasField("name") else part.name,
        expiry_us=alter.expiry_us if alter.HasField("expiry_us") else part.expiry_us,
        compression=alter.compression if alter.HasField("compression") else part.compression,
        options=options(alter.options.options) if alter.HasField("options") else part.options,
    )
    if alter.HasField("max_bytes"):
        after = replace(after, max_bytes=alter.max_bytes, per_partition=alter.per_partition)
    count = len(topic.partitions)
    return after, with_part(topic.settings, derived(part, count), derived(after, count))


def _part(state: ClusterState, command: pb.Command) -> IggyPart:
    create = command.create_iggy_topic
    values = create.values
    return IggyPart(
        create.stream,
        number_for(_chosen(create), state.iggy.topics.get(create.stream, ())),
        create.name,
        values.expiry_us,
        values.max_bytes,
        values.compression,
        options(values.options),
        values.per_partition,
        created_ms=command.now_ms,
        born=state.index,
        maker=maker_of(create),
    )


def _made_before(state: ClusterState, create: pb.CreateIggyTopic) -> tuple[int, int] | None:
    """The topic that this very command has created, if it is a repeat: its present id, and its number."""
    number = state.iggy.topic_numbers.get(create.stream, {}).get(create.name)
    if number is None:
        return None
    topic_id = state.iggy.topics[create.stream][number]
    part = state.topics[topic_id].iggy
    return (topic_id, number) if part is not None and is_made_by(part.maker, create) else None


def _settings(create: pb.CreateIggyTopic, part: IggyPart) -> dict[str, str]:
    given = {setting.key: setting.value for setting in create.settings}
    return dict(sorted({**given, **derived(part, create.partitions)}.items()))


def _chosen(create: pb.CreateIggyTopic) -> int | None:
    return create.number if create.HasField("number") else None
