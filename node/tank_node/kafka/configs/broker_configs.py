"""The configuration of brokers under Kafka's names, for DescribeConfigs: read-only."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from tank_node.coordinators.groups import groups_of
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.kafka.configs.replication_factors import default_replication_factor
from tank_node.kafka.configs.topic_configs import ConfigSource, ConfigType, shown
from tank_node.kafka.settings import KafkaSettings
from tank_protos.topic_settings import TopicSettings

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaSession

_MINUTE_MS: Final = 60_000
_TRANSACTION_MAX_TIMEOUT_MS: Final = 900_000
"""Kafka's default: no transaction may be open for longer."""
_DEFAULTS: Final = KafkaSettings()
_GROUP_DEFAULTS: Final = GroupSettings()


@dataclass(slots=True, frozen=True)
class BrokerConfig:
    """A config of a broker, with Kafka's value."""

    name: str
    value: str
    type: ConfigType
    about: str
    source: ConfigSource = ConfigSource.DEFAULT


def shared_configs(session: "KafkaSession") -> list[BrokerConfig]:
    """Returns the configs that are the same for all brokers of a cluster, sorted by name: above all the
    defaults of topics."""
    broker = session.broker
    factor = default_replication_factor(broker.link.view)
    found = [
        BrokerConfig(
            each.config.broker_name, each.default, each.config.type, each.config.about, each.default_source
        )
        for each in shown(TopicSettings(), factor, broker.default_flush)
        if each.config.broker_name
    ]
    settings = session.settings
    found += [
        BrokerConfig(
            "auto.create.topics.enable",
            str(settings.auto_create).lower(),
            ConfigType.BOOLEAN,
            "Whether a topic is created when a client asks for its metadata.",
            _source(is_default=settings.auto_create == _DEFAULTS.auto_create),
        ),
        BrokerConfig(
            "default.replication.factor",
            str(factor),
            ConfigType.INT,
            "The replicas of a topic that is created without a number of them.",
        ),
        BrokerConfig("delete.topic.enable", "true", ConfigType.BOOLEAN, "Whether clients may delete topics."),
        BrokerConfig(
            "num.partitions",
            str(settings.default_partitions),
            ConfigType.INT,
            "The partitions of a topic that is created without a number of them.",
            _source(is_default=settings.default_partitions == _DEFAULTS.default_partitions),
        ),
        BrokerConfig(
            "transaction.max.timeout.ms",
            str(_TRANSACTION_MAX_TIMEOUT_MS),
            ConfigType.INT,
            "The longest timeout of a transaction.",
        ),
    ]
    found += _of_groups(session)
    return sorted(found, key=lambda config: config.name)


_Shown: TypeAlias = tuple[str, int | str, int | str, str]
"""A config's name, its value and its default, and what it is about."""


def _of_consumer_groups(settings: GroupSettings) -> tuple[_Shown, ...]:
    """Of groups whose broker assigns the partitions."""
    return (
        (
            "group.consumer.assignors",
            ",".join(settings.consumer_assignors),
            ",".join(_GROUP_DEFAULTS.consumer_assignors),
            "The assignors that members may ask for where the broker assigns the partitions.",
        ),
        (
            "group.consumer.heartbeat.interval.ms",
            settings.consumer_heartbeat_ms,
            _GROUP_DEFAULTS.consumer_heartbeat_ms,
            "After how long a member sends its next heartbeat where the broker assigns the partitions.",
        ),
        (
            "group.consumer.max.size",
            settings.consumer_max_size,
            _GROUP_DEFAULTS.consumer_max_size,
            "The most members of a group where the broker assigns the partitions.",
        ),
        (
            "group.consumer.migration.policy",
            settings.consumer_migration,
            _GROUP_DEFAULTS.consumer_migration,
            "Whether groups with members change between the two protocols.",
        ),
        (
            "group.consumer.session.timeout.ms",
            settings.consumer_session_ms,
            _GROUP_DEFAULTS.consumer_session_ms,
            "How long a member may be silent where the broker assigns the partitions.",
        ),
    )


def _of_groups(session: "KafkaSession") -> list[BrokerConfig]:
    settings = groups_of(session.broker).settings
    shown = (
        *_of_consumer_groups(settings),
        (
            "group.initial.rebalance.delay.ms",
            settings.initial_delay_ms,
            _GROUP_DEFAULTS.initial_delay_ms,
            "How long a group without members waits for others when the first one joins.",
        ),
        (
            "group.max.session.timeout.ms",
            settings.max_session_ms,
            _GROUP_DEFAULTS.max_session_ms,
            "The longest session that a member of a group may ask for.",
        ),
        (
            "group.max.size",
            settings.max_size,
            _GROUP_DEFAULTS.max_size,
            "The most members of a group.",
        ),
        (
            "group.min.session.timeout.ms",
            settings.min_session_ms,
            _GROUP_DEFAULTS.min_session_ms,
            "The shortest session that a member of a group may ask for.",
        ),
        (
            "offset.metadata.max.bytes",
            settings.offset_metadata_length,
            _GROUP_DEFAULTS.offset_metadata_length,
            "The longest note beside a committed offset.",
        ),
        (
            "offsets.retention.minutes",
            settings.offsets_retention_ms // _MINUTE_MS,
            _GROUP_DEFAULTS.offsets_retention_ms // _MINUTE_MS,
            "How long the unused committed offsets of a group are kept.",
        ),
        (
            "offsets.topic.num.partitions",
            settings.topic_partitions,
            _GROUP_DEFAULTS.topic_partitions,
            "The partitions of the topic with the groups and their offsets, when it is created.",
        ),
    )
    return [
        BrokerConfig(name, str(value), _type_of(value), about, _source(is_default=value == default))
        for name, value, default, about in shown
    ]


def _type_of(value: object) -> ConfigType:
    return ConfigType.INT if isinstance(value, int) else ConfigType.STRING


def own_configs(session: "KafkaSession") -> list[BrokerConfig]:
    """Returns all configs of this broker, sorted by name."""
    broker = session.broker
    view = broker.link.view
    own = view.brokers.get(view.broker_id)
    address = None if own is None else own.kafka_address(outside=session.is_outside)
    listeners = "" if address is None else f"PLAINTEXT://{_host(address[0])}:{address[1]}"
    of_broker = ConfigSource.BROKER
    found = shared_configs(session)
    found += [
        BrokerConfig(
            "advertised.listeners",
            listeners,
            ConfigType.STRING,
            "The address at which the client reaches this broker.",
            of_broker,
        ),
        BrokerConfig("broker.id", str(view.broker_id), ConfigType.INT, "This broker's id.", of_broker),
        BrokerConfig(
            "broker.rack",
            "" if own is None else own.rack,
            ConfigType.STRING,
            "The rack, or zone, in which this broker is.",
            of_broker,
        ),
        BrokerConfig(
            "log.dirs", broker.data_folder.path, ConfigType.STRING, "This broker's data folder.", of_broker
        ),
        BrokerConfig("node.id", str(view.broker_id), ConfigType.INT, "This broker's id.", of_broker),
    ]
    return sorted(found, key=lambda config: config.name)


def _source(*, is_default: bool) -> ConfigSource:
    return ConfigSource.DEFAULT if is_default else ConfigSource.BROKER


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host
