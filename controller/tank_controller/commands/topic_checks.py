"""The checks that commands about topics share. Pure."""

from tank_controller import limits
from tank_controller.commands.levels import WHAT_TO_DO
from tank_controller.commands.outcome import Rejected
from tank_controller.state.model import TopicState
from tank_controller.state.state import ClusterState
from tank_protos import feature_levels, topic_settings
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import SettingError, TopicSettings
from tank_protos.wire.names import INTERNAL_TOPICS, first_topic_name_problem, topic_name_problem


def check_partitions(state: ClusterState, wanted: int, present: int) -> None:
    """Raises Rejected for a new number of partitions. present: how many there are."""
    if not 1 <= wanted <= limits.MAX_PARTITIONS_PER_TOPIC:
        message = f"a topic has between 1 and {limits.MAX_PARTITIONS_PER_TOPIC} partitions"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)
    if wanted < present:
        message = f"the topic has {present} partitions already, and they can't become fewer"
        raise Rejected(ErrorCode.INVALID_PARTITIONS, message)
    check_room(state, wanted - present)


def check_room(state: ClusterState, added: int) -> None:
    """Raises Rejected when the state has no room for so many more partitions."""
    if state.partition_count + added > limits.MAX_PARTITIONS:
        message = f"all topics together have at most {limits.MAX_PARTITIONS} partitions: delete some first"
        raise Rejected(ErrorCode.LIMIT_REACHED, message)


def check_iggy_bound(topic: TopicState, wanted: int) -> None:
    """Raises Rejected when a topic of Iggy's would get more partitions than Iggy allows."""
    if topic.iggy is None or topic.iggy.exposed or wanted <= limits.MAX_IGGY_PARTITIONS:
        return
    message = f"a topic of Iggy's has at most {limits.MAX_IGGY_PARTITIONS} partitions"
    raise Rejected(ErrorCode.INVALID_PARTITIONS, message)


def check_name(state: ClusterState, name: str, *, internal: bool) -> None:
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


def check_settings(state: ClusterState, pairs: dict[str, str], replication_factor: int) -> TopicSettings:
    """The settings of these pairs. Raises Rejected."""
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


def default_replication_factor(state: ClusterState) -> int:
    """The replication factor of a topic for which none was chosen."""
    return min(len(stayers(state)), limits.DEFAULT_REPLICATION_FACTOR)


def stayers(state: ClusterState) -> list[int]:
    """The brokers that may hold new partitions now or later; a fenced one may come back."""
    return [broker.broker_id for broker in state.brokers.values() if not broker.draining]


def check_brokers(state: ClusterState, partitions: int, replication_factor: int) -> None:
    """Raises Rejected when there are too few brokers for so many more partitions."""
    brokers = len(stayers(state))
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
