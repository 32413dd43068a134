"""What each command of the controller's log does to the cluster's state. Pure.

A command is checked whole before it changes anything: a rejected one leaves the state as it was, but for its
index. Applied again it changes nothing more. The clock is the command's `now_ms`.

Checks are part of the log's format, limits included: a later version that judges an old entry otherwise makes
another state out of the same log. What it judges anew gets a new command, or a field that says so.
"""

from collections.abc import Callable

from tank_controller import groups, limits, placement
from tank_controller.cluster_state import (
    BrokerState,
    ClusterState,
    PartitionState,
    ProducerState,
    TopicState,
    broker_message,
    topic_message,
)
from tank_controller.outcome import Outcome, Rejected
from tank_protos import topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb
from tank_protos.names import MAX_PRODUCER_NAME_BYTES, topic_name_problem
from tank_protos.topic_settings import SettingError


def apply(state: ClusterState, index: int, command: pb.Command) -> Outcome:
    """Applies the log's entry `index`: each entry once, in their order; Raft's own lie between them."""
    assert index > state.index, (index, state.index)
    state.index = index
    outcome = Outcome(pb.Delta(index=index))
    try:
        _check(state, command)
    except Rejected as rejection:
        outcome.rejection = rejection
        return outcome
    _, change = _COMMANDS[command.WhichOneof("command")]
    change(state, command, outcome)
    return outcome


def check(state: ClusterState, command: pb.Command) -> Rejected | None:
    """Whether the command would be rejected now. It spares the log what is refused anyway."""
    try:
        _check(state, command)
    except Rejected as rejection:
        return rejection
    return None


def known_producer(state: ClusterState, name: str, generation: int) -> ProducerState | None:
    """The producer, when this is its name's present generation."""
    producer = state.producers.get(name)
    return producer if producer is not None and producer.generation == generation else None


def _check(state: ClusterState, command: pb.Command) -> None:
    known = _COMMANDS.get(command.WhichOneof("command"))
    if known is None:
        raise Rejected(ErrorCode.INVALID_REQUEST, "the command is none that this version knows")
    known[0](state, command)


# --- brokers ---


def _check_register_broker(state: ClusterState, command: pb.Command) -> None:
    register = command.register_broker
    if not 1 <= register.broker_id <= limits.MAX_BROKER_ID:
        raise Rejected(ErrorCode.INVALID_REQUEST, f"a broker id is between 1 and {limits.MAX_BROKER_ID}")
    if len(register.incarnation) != 16:
        raise Rejected(ErrorCode.INVALID_REQUEST, "an incarnation has 16 bytes")


def _register_broker(state: ClusterState, command: pb.Command, outcome: Outcome) -> None:
    register = command.register_broker
    before = state.brokers.get(register.broker_id)
    is_new_process = before is None or before.incarnation != register.incarnation
    broker = BrokerState(
        broker_id=register.broker_id,
        incarnation=register.incarnation,
        epoch=state.index if before is None or is_new_process else before.epoch,
        endpoints=tuple((endpoint.name, endpoint.host, endpoint.port) for endpoint in register.endpoints),
        rack=register.rack,
        disk_uuid=register.disk_uuid,
    )
    if broker == before:
        return
    state.brokers[broker.broker_id] = broker
    outcome.delta.brokers.append(broker_message(broker))
    if is_new_process:
        _end_epochs_led_by(broker.broker_id, state, outcome)


def _end_epochs_led_by(broker_id: int, state: ClusterState, outcome: Outcome) -> None:
    """A process that was started again must not go on in an epoch that the one before it led."""
    for topic in state.topics.values():
        led = [partition for partition in topic.partitions if partition.leader == broker_id]
        for partition in led:
            partition.leader_epoch += 1
            partition.partition_epoch += 1
        if led:
            outcome.delta.topics.append(topic_message(topic))


# --- topics ---


def _check_create_topic(state: ClusterState, command: pb.Command) -> None:
    create = command.create_topic
    if problem := topic_name_problem(create.name):
        raise Rejected(ErrorCode.INVALID_NAME, problem)
    if create.name in state.topic_ids:
        raise Rejected(ErrorCode.TOPIC_EXISTS, f"topic {create.name} exists already")
    if len(state.topics) >= limits.MAX_TOPICS:
        raise Rejected(ErrorCode.OVERLOADED, f"there are {limits.MAX_TOPICS} topics: delete some first")
    _check_partitions(state, create.partitions, 0)
    wanted, brokers = create.replication_factor, len(state.brokers)
    if brokers == 0:
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, "no broker has registered yet: try again")
    if wanted > min(brokers, limits.MAX_REPLICATION_FACTOR):
        message = f"replication factor {wanted} needs as many brokers, and there are {brokers}"
        raise Rejected(ErrorCode.INVALID_REPLICATION_FACTOR, message)
    pairs = {setting.key: setting.value for setting in create.settings}
    _check_settings(pairs, wanted or min(brokers, limits.DEFAULT_REPLICATION_FACTOR))


def _create_topic(state: ClusterState, command: pb.Command, outcome: Outcome) -> None:
    create = command.create_topic
    topic = TopicState(
        topic_id=state.index,
        name=create.name,
        replication_factor=create.replication_factor
        or min(len(state.brokers), limits.DEFAULT_REPLICATION_FACTOR),
        settings=dict(sorted((setting.key, setting.value) for setting in create.settings)),
        partitions=[],
    )
    state.topics[topic.topic_id] = topic
    state.topic_ids[topic.name] = topic.topic_id
    _add_partitions(state, topic, create.partitions)
    outcome.topic_id = topic.topic_id
    outcome.delta.topics.append(topic_message(topic))


def _check_alter_topic(state: ClusterState, command: pb.Command) -> None:
    alter = command.alter_topic
    topic = state.topics.get(alter.topic_id)
    if topic is None:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, "there is no such topic")
    if alter.partitions:
        _check_partitions(state, alter.partitions, len(topic.partitions))
    if unknown := [key for key in alter.unset if key not in topic_settings.setting_keys()]:
        raise Rejected(ErrorCode.INVALID_SETTING, f"there is no setting {unknown[0]}")
    _check_settings(_altered(topic, alter), topic.replication_factor)


def _alter_topic(state: ClusterState, command: pb.Command, outcome: Outcome) -> None:
    alter = command.alter_topic
    topic = state.topics[alter.topic_id]
    outcome.topic_id = topic.topic_id
    settings = _altered(topic, alter)
    added = max(alter.partitions - len(topic.partitions), 0)
    if settings == topic.settings and not added:
        return
    topic.settings = settings
    _add_partitions(state, topic, added)
    outcome.delta.topics.append(topic_message(topic))


def _check_delete_topic(state: ClusterState, command: pb.Command) -> None:
    if command.delete_topic.topic_id not in state.topics:
        raise Rejected(ErrorCode.UNKNOWN_TOPIC, "there is no such topic")


def _delete_topic(state: ClusterState, command: pb.Command, outcome: Outcome) -> None:
    topic = state.topics.pop(command.delete_topic.topic_id)
    del state.topic_ids[topic.name]
    for partition in topic.partitions:
        state.count_in(partition, -1)
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
        raise Rejected(ErrorCode.OVERLOADED, message)


def _check_settings(pairs: dict[str, str], replication_factor: int) -> None:
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


def _add_partitions(state: ClusterState, topic: TopicState, count: int) -> None:
    brokers = {
        broker_id: placement.Candidate(broker_id, broker.rack, state.held[broker_id], state.led[broker_id])
        for broker_id, broker in state.brokers.items()
    }
    for replicas in placement.place(brokers, count, topic.replication_factor):
        partition = PartitionState(
            replicas=replicas,
            in_sync=tuple(sorted(replicas)),
            leader=replicas[0],
            leader_epoch=1,
            partition_epoch=1,
        )
        topic.partitions.append(partition)
        state.count_in(partition)


# --- producers ---


def _check_init_producer(state: ClusterState, command: pb.Command) -> None:
    init = command.init_producer
    if not init.name:
        return
    if len(init.name.encode()) > MAX_PRODUCER_NAME_BYTES:
        message = f"a producer's name has at most {MAX_PRODUCER_NAME_BYTES} bytes"
        raise Rejected(ErrorCode.INVALID_NAME, message)
    producer = state.producers.get(init.name)
    if producer is not None and init.generation < producer.generation:
        message = (
            f"generation {init.generation} of this producer was ended by generation {producer.generation}"
        )
        raise Rejected(ErrorCode.STALE_PRODUCER_EPOCH, message)
    if producer is None and len(state.producers) >= limits.MAX_NAMED_PRODUCERS:
        oldest = next(iter(state.producers.values()))
        if command.now_ms - oldest.used_ms < limits.PRODUCER_NAME_KEPT_MS:
            message = (
                f"{limits.MAX_NAMED_PRODUCERS} producer names are in use: use fewer, or ids without a name"
            )
            raise Rejected(ErrorCode.OVERLOADED, message)


def _init_producer(state: ClusterState, command: pb.Command, outcome: Outcome) -> None:
    init = command.init_producer
    outcome.producer_id = state.index
    if not init.name:
        return
    producer = state.producers.pop(init.name, None)
    if producer is None:
        producer = ProducerState(init.generation, state.index, (), 0)
        if len(state.producers) >= limits.MAX_NAMED_PRODUCERS:
            forgotten = state.producers.pop(next(iter(state.producers)))
            outcome.delta.forgotten_producers.extend(forgotten.ended)
    elif init.generation > producer.generation:
        outcome.delta.ended_producers.append(producer.producer_id)
        ended = (*producer.ended, producer.producer_id)
        kept = ended[-limits.MAX_ENDED_IDS_PER_NAME :]
        outcome.delta.forgotten_producers.extend(ended[: -len(kept)])
        producer = ProducerState(init.generation, state.index, kept, producer.used_ms)
    producer.used_ms = max(producer.used_ms, command.now_ms)
    state.producers[init.name] = producer
    outcome.producer_id = producer.producer_id


_Check = Callable[[ClusterState, pb.Command], None]
_Change = Callable[[ClusterState, pb.Command, Outcome], None]

_COMMANDS: dict[str | None, tuple[_Check, _Change]] = {
    "register_broker": (_check_register_broker, _register_broker),
    "create_topic": (_check_create_topic, _create_topic),
    "alter_topic": (_check_alter_topic, _alter_topic),
    "delete_topic": (_check_delete_topic, _delete_topic),
    "init_producer": (_check_init_producer, _init_producer),
    "commit_positions": (groups.check_commit_positions, groups.commit_positions),
}
