"""The settings of topics under Kafka's names: one table, for reading what clients send and for showing what
topics have.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tank_node.cluster.view import TopicView
from tank_node.kafka.configs.config_values import (
    UNLIMITED,
    as_it_is,
    int_from,
    long_from,
    read_bound_ms,
    read_cleanup,
    read_compression,
    read_flag,
    read_interval_messages,
    read_interval_ms,
    read_keeping_bytes,
    read_keeping_ms,
    read_ms,
    read_ratio,
    show_cleanup,
    show_interval_messages,
    show_interval_ms,
    show_keeping_bytes,
    show_keeping_ms,
    show_ms,
)
from tank_protos import topic_settings
from tank_protos.topic_settings import (
    FlushPolicy,
    SettingError,
    TopicSettings,
)

_FLUSH: Final = "flush"
"""The key of the setting whose default the broker's configuration has."""


class ConfigType(IntEnum):
    """What a config's value is, as DescribeConfigs numbers it."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    LONG = 5
    DOUBLE = 6
    LIST = 7


class ConfigSource(IntEnum):
    """Where a config's value comes from, as DescribeConfigs numbers it."""

    TOPIC = 1
    BROKER = 4
    """The broker's configuration."""
    DEFAULT = 5


class InvalidConfig(ValueError):
    """A config that can't be taken. The message is a sentence for the client."""


@dataclass(slots=True, frozen=True)
class TopicConfig:
    """A row: a setting of topics as Kafka's clients know it."""

    name: str
    broker_name: str
    """The name that Kafka has for the default of all topics of a broker; empty: Kafka has no such config."""
    type: ConfigType
    about: str
    """A sentence for the client."""
    read: Callable[[str], str]
    """Takes Kafka's value, and returns the setting's. Raises ValueError with what to write."""
    setting: str = ""
    """The key of our setting; empty: the config is taken, has no effect and is not stored."""
    show: Callable[[str], str] = str
    """Takes the setting's value as `TopicSettings.describe` gives it, and returns Kafka's."""
    default: str = ""
    """Kafka's value of a config without a setting."""
    is_read_only: bool = False
    """Whether it is chosen when a topic is created, and stays."""


@dataclass(slots=True, frozen=True)
class ShownConfig:
    """A config of a topic, with Kafka's values."""

    config: TopicConfig
    value: str
    default: str
    """The value that it would have if it were not set for the topic."""
    default_source: ConfigSource
    source: ConfigSource
    """TOPIC, or that of the default."""


def setting_of(name: str, value: str) -> tuple[str, str] | None:
    """Returns the key and value of the setting that this config means. None for a config without effect.
    Raises InvalidConfig for an unknown name, or a value that can't be taken."""
    config = config_named(name)
    try:
        meant = config.read(value.strip())
        if config.setting:
            topic_settings.from_pairs({config.setting: meant})
    except SettingError as error:
        raise InvalidConfig(f"{name}={_shown(value)}: {error.advice}") from None
    except ValueError as error:
        raise InvalidConfig(f"{name}={_shown(value)}: {error}") from None
    return (config.setting, meant) if config.setting else None


def config_named(name: str) -> TopicConfig:
    """Returns the row of this name. Raises InvalidConfig when there is none."""
    config = _BY_NAME.get(name)
    if config is None:
        raise InvalidConfig(f"topics have no config {_shown(name)}")
    return config


def shown(
    settings: TopicSettings, replication_factor: int, default_flush: FlushPolicy = FlushPolicy.DISK
) -> list[ShownConfig]:
    """Returns all configs of a topic with these settings. default_flush: of topics without a setting for
    it."""
    defaults = _values(TopicSettings(), replication_factor, default_flush)
    values = _values(settings, replication_factor, default_flush)
    found = []
    for config in CONFIGS:
        is_brokers = config.setting == _FLUSH and default_flush is not FlushPolicy.DISK
        default_source = ConfigSource.BROKER if is_brokers else ConfigSource.DEFAULT
        if not config.setting:
            found.append(ShownConfig(config, config.default, config.default, default_source, default_source))
            continue
        source = ConfigSource.TOPIC if config.setting in settings.explicit else default_source
        value, default = config.show(values[config.setting]), config.show(defaults[config.setting])
        found.append(ShownConfig(config, value, default, default_source, source))
    return found


def value_of(topic: TopicView, name: str) -> str:
    """Returns a topic's value of this config, or the default. Raises InvalidConfig for an unknown name."""
    config = config_named(name)
    return next(
        each.value for each in shown(topic.settings, topic.replication_factor) if each.config is config
    )


def _values(settings: TopicSettings, replication_factor: int, default_flush: FlushPolicy) -> dict[str, str]:
    return {key: value for key, value, _ in settings.describe(default_flush, replication_factor)}


def _shown(text: str) -> str:
    """A text that a client sent, short and printable."""
    return "".join(c if c.isprintable() else "?" for c in text[:60])


# --- the table -----------------------------------------------------------------------------------

_BOOLEAN, _STRING, _INT, _LONG = ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.INT, ConfigType.LONG
_WITHOUT_EFFECT: Final = "Accepted for the sake of Kafka's clients; it has no effect here."

CONFIGS: Final = (
    TopicConfig(
        "cleanup.policy",
        "log.cleanup.policy",
        ConfigType.LIST,
        "delete drops old records by age and size; compact keeps the newest record of each key.",
        read_cleanup,
        "log.cleanup.policy",
        show_cleanup,
    ),
    TopicConfig(
        "compression.type",
        "compression.type",
        _STRING,
        "Batches are stored as producers compressed them: producer is the only value.",
        read_compression,
        default="producer",
    ),
    TopicConfig(
        "delete.retention.ms",
        "log.cleaner.delete.retention.ms",
        _LONG,
        "How long compaction keeps a tombstone, a record without a value, so that readers see it.",
        long_from(0),
        "delete.retention.ms",
    ),
    TopicConfig(
        "file.delete.delay.ms",
        "log.segment.delete.delay.ms",
        _LONG,
        _WITHOUT_EFFECT,
        long_from(0),
        default="60000",
    ),
    TopicConfig(
        "flush.messages",
        "log.flush.interval.messages",
        _LONG,
        "Under flush=replicated: the leader and its followers sync to disk after so many records.",
        read_interval_messages,
        "flush.messages",
        show_interval_messages,
    ),
    TopicConfig(
        "flush.ms",
        "log.flush.interval.ms",
        _LONG,
        "Under flush=replicated: the longest time between two syncs to disk; unset, the broker's.",
        read_interval_ms,
        "flush.secs",
        show_interval_ms,
    ),
    TopicConfig(
        "index.interval.bytes",
        "log.index.interval.bytes",
        _INT,
        _WITHOUT_EFFECT,
        int_from(0),
        "log.index.interval.bytes",
    ),
    TopicConfig(
        "max.compaction.lag.ms",
        "log.cleaner.max.compaction.lag.ms",
        _LONG,
        _WITHOUT_EFFECT,
        long_from(1),
        default=str(UNLIMITED),
    ),
    TopicConfig(
        "max.message.bytes",
        "message.max.bytes",
        _INT,
        "The largest batch that producers may send, as it is on the wire.",
        int_from(0),
        "max.message.bytes",
    ),
    TopicConfig(
        "message.downconversion.enable",
        "log.message.downconversion.enable",
        _BOOLEAN,
        _WITHOUT_EFFECT,
        read_flag,
        default="true",
    ),
    TopicConfig(
        "message.format.version",
        "log.message.format.version",
        _STRING,
        _WITHOUT_EFFECT,
        as_it_is,
        default="3.0-IV1",
    ),
    TopicConfig(
        "message.timestamp.after.max.ms",
        "log.message.timestamp.after.max.ms",
        _LONG,
        "How far ahead of the broker's clock the times of records may be that producers set.",
        read_bound_ms,
        "message.timestamp.after.max.ms",
    ),
    TopicConfig(
        "message.timestamp.before.max.ms",
        "log.message.timestamp.before.max.ms",
        _LONG,
        "How far behind the broker's clock the times of records may be that producers set.",
        read_bound_ms,
        "message.timestamp.before.max.ms",
    ),
    TopicConfig(
        "message.timestamp.type",
        "log.message.timestamp.type",
        _STRING,
        "CreateTime: records have their producer's time; LogAppendTime: that of their append.",
        as_it_is,
        "message.timestamp.type",
    ),
    TopicConfig(
        "min.cleanable.dirty.ratio",
        "log.cleaner.min.cleanable.ratio",
        ConfigType.DOUBLE,
        "Compaction begins when so much of the sealed bytes is not yet compacted.",
        read_ratio,
        "log.cleaner.min.cleanable.ratio",
    ),
    TopicConfig(
        "min.compaction.lag.ms",
        "log.cleaner.min.compaction.lag.ms",
        _LONG,
        "How long a record stays before compaction may drop it for a newer one of its key.",
        long_from(0),
        "min.compaction.lag.ms",
    ),
    TopicConfig(
        "min.insync.replicas",
        "min.insync.replicas",
        _INT,
        "How many replicas must be in sync for records to be taken.",
        int_from(1),
        "min.insync.replicas",
    ),
    TopicConfig("preallocate", "log.preallocate", _BOOLEAN, _WITHOUT_EFFECT, read_flag, default="false"),
    TopicConfig(
        "retention.bytes",
        "log.retention.bytes",
        _LONG,
        "How large a partition may grow before its oldest segments go; -1: no limit.",
        read_keeping_bytes,
        "log.retention.bytes",
        show_keeping_bytes,
    ),
    TopicConfig(
        "retention.ms",
        "log.retention.ms",
        _LONG,
        "How long records are kept, by the time of their append; whole segments go; -1: for ever.",
        read_keeping_ms,
        "log.retention.secs",
        show_keeping_ms,
    ),
    TopicConfig(
        "segment.bytes",
        "log.segment.bytes",
        _INT,
        "A segment that has grown past this is sealed.",
        int_from(1),
        "log.segment.bytes",
    ),
    TopicConfig(
        "segment.index.bytes",
        "log.index.size.max.bytes",
        _INT,
        _WITHOUT_EFFECT,
        int_from(4),
        "log.index.size.max.bytes",
    ),
    TopicConfig(
        "segment.jitter.ms",
        "log.roll.jitter.ms",
        _LONG,
        "Up to this much, at random, is taken off segment.ms, so that segments don't all roll at once.",
        read_ms,
        "log.roll.jitter.secs",
        show_ms,
    ),
    TopicConfig(
        "segment.ms",
        "log.roll.ms",
        _LONG,
        "A segment older than this is sealed.",
        read_interval_ms,
        "log.roll.secs",
        show_interval_ms,
    ),
    TopicConfig(
        "unclean.leader.election.enable",
        "unclean.leader.election.enable",
        _BOOLEAN,
        "Whether a replica that isn't in sync may lead when no other can, and records be lost.",
        read_flag,
        "unclean.leader.election",
    ),
    # Settings that Kafka doesn't have, under our own names: AlterConfigs replaces all settings of a topic, so
    # a client that reads them first must find them here, or it would reset them.
    TopicConfig(
        _FLUSH,
        "",
        _STRING,
        "When a record is acknowledged: disk, every in-sync replica has it on disk; replicated, in memory.",
        as_it_is,
        _FLUSH,
    ),
    TopicConfig(
        topic_settings.LOG_FORMAT,
        "",
        _STRING,
        "How records are stored, chosen with the topic: kafka, as they come; tank, in TANK's bundles.",
        as_it_is,
        topic_settings.LOG_FORMAT,
        is_read_only=True,
    ),
    TopicConfig(
        "record.validation",
        "",
        _STRING,
        "How far a leader looks into a batch: header; records, of an uncompressed one; full, of any.",
        as_it_is,
        "record.validation",
    ),
    TopicConfig(
        "retention.segments.count",
        "",
        _INT,
        "How many segments a partition keeps, 2 at least; 0: all.",
        int_from(0),
        "retention.segments.count",
    ),
    TopicConfig(
        "transcode",
        "",
        _STRING,
        "strict refuses a record that log.format can't hold as it was sent; lenient drops what does not fit.",
        as_it_is,
        "transcode",
    ),
    TopicConfig(
        topic_settings.VALIDATE_BUNDLES,
        "",
        _BOOLEAN,
        "Whether a leader walks through the messages of an uncompressed bundle of TANK's protocol.",
        read_flag,
        topic_settings.VALIDATE_BUNDLES,
    ),
)
"""Sorted by name; our own last."""
_BY_NAME: Final = {config.name: config for config in CONFIGS}
