"""The settings of topics under Kafka's names: what is taken, and what is shown."""

import pytest

from tank_node.kafka.configs.config_values import UNLIMITED
from tank_node.kafka.configs.topic_configs import (
    CONFIGS,
    ConfigSource,
    ConfigType,
    InvalidConfig,
    setting_of,
    shown,
)
from tank_protos.topic_settings import FlushPolicy, TopicSettings, from_pairs, setting_keys

FOREVER = str(UNLIMITED)


def show(name: str, **settings: str) -> str:
    """What a topic with these settings shows under this name; underscores stand for dots."""
    pairs = {key.replace("_", "."): value for key, value in settings.items()}
    return next(each.value for each in shown(from_pairs(pairs), 3) if each.config.name == name)


def shown_again(name: str, value: str) -> str:
    """What a topic shows under this name when it was set to this value."""
    setting = setting_of(name, value)
    assert setting is not None
    settings = from_pairs(dict([setting]))
    return next(each.value for each in shown(settings, 3) if each.config.name == name)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", "delete"),
        ("cleanup.policy", "compact"),
        ("cleanup.policy", "compact,delete"),
        ("delete.retention.ms", "100"),
        ("flush.messages", "1000"),
        ("flush.messages", FOREVER),
        ("flush.ms", "250"),
        ("flush.ms", FOREVER),
        ("index.interval.bytes", "8192"),
        ("max.message.bytes", "2097152"),
        ("message.timestamp.after.max.ms", "1000"),
        ("message.timestamp.after.max.ms", FOREVER),
        ("message.timestamp.before.max.ms", "0"),
        ("message.timestamp.before.max.ms", FOREVER),
        ("message.timestamp.type", "LogAppendTime"),
        ("min.cleanable.dirty.ratio", "0.25"),
        ("min.compaction.lag.ms", "60000"),
        ("min.insync.replicas", "2"),
        ("retention.bytes", "1048576"),
        ("retention.bytes", "-1"),
        ("retention.ms", "1"),
        ("retention.ms", "604800000"),
        ("retention.ms", "-1"),
        ("segment.bytes", "16384"),
        ("segment.index.bytes", "4096"),
        ("segment.jitter.ms", "1500"),
        ("segment.ms", "3600000"),
        ("segment.ms", FOREVER),
        ("unclean.leader.election.enable", "true"),
        ("flush", "replicated"),
        ("log.format", "kafka"),
        ("record.validation", "full"),
        ("retention.segments.count", "5"),
        ("transcode", "lenient"),
        ("validate.bundles", "false"),
    ],
)
def test_what_was_set_is_shown(name: str, value: str) -> None:
    assert shown_again(name, value) == value


def test_minus_one_keeps_for_ever_and_so_does_the_default() -> None:
    assert setting_of("retention.ms", "-1") == ("log.retention.secs", "0")
    assert show("retention.ms") == show("retention.bytes") == "-1"


def test_a_retention_beyond_all_times_keeps_for_ever() -> None:
    assert setting_of("retention.ms", FOREVER) == ("log.retention.secs", "0")
    assert setting_of("retention.bytes", FOREVER) == ("log.retention.bytes", "0")


def test_to_keep_nothing_is_to_keep_as_little_as_there_is() -> None:
    assert setting_of("retention.ms", "0") == ("log.retention.secs", "1ms")
    assert setting_of("retention.bytes", "0") == ("log.retention.bytes", "1")


def test_times_are_shown_in_milliseconds_however_they_were_written() -> None:
    assert show("retention.ms", log_retention_secs="1h,30min") == "5400000"
    assert show("segment.ms", log_roll_secs="250ms") == "250"


def test_both_policies_are_shown_in_kafkas_order_however_they_were_written() -> None:
    for written in ("cleanup,delete", "delete, compact", "Compact,Delete"):
        assert show("cleanup.policy", log_cleanup_policy=written) == "compact,delete"


def test_a_list_may_have_spaces_and_repeats() -> None:
    assert setting_of("cleanup.policy", " compact , compact") == setting_of("cleanup.policy", "compact")


@pytest.mark.parametrize("codec", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_codec_of_a_topic_is_refused_with_what_to_do_instead(codec: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        setting_of("compression.type", codec)
    assert str(refused.value) == (
        f"compression.type={codec}: brokers store batches as producers compressed them, and compress none "
        "anew: leave it out or write producer, and set compression.type of the producers"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "shred"),
        ("compression.type", "gzip"),
        ("flush", "sometimes"),
        ("flush.messages", "0"),
        ("log.format", "xml"),
        ("max.message.bytes", "2147483648"),
        ("message.timestamp.type", "NoTimestampType"),
        ("message.timestamp.before.max.ms", "-1"),
        ("min.cleanable.dirty.ratio", "1.5"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "256"),
        ("preallocate", "perhaps"),
        ("retention.ms", "-2"),
        ("retention.ms", "7d"),
        ("retention.ms", "9223372036854775808"),
        ("retention.segments.count", "1"),
        ("segment.bytes", "2147483648"),
        ("segment.bytes", "0"),
        ("unclean.leader.election.enable", "1"),
    ],
)
def test_a_value_that_cannot_be_taken_is_refused_with_its_name(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"^{name}="):
        setting_of(name, value)


@pytest.mark.parametrize("name", ["", "retention", "log.retention.secs", "remote.storage.enable", "\udcff"])
def test_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidConfig, match="no config"):
        setting_of(name, "1")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("compression.type", "producer"),
        ("file.delete.delay.ms", "1000"),
        ("max.compaction.lag.ms", FOREVER),
        ("message.downconversion.enable", "false"),
        ("message.format.version", "2.8"),
        ("preallocate", "true"),
    ],
)
def test_what_has_no_effect_here_is_taken(name: str, value: str) -> None:
    assert setting_of(name, value) is None
    assert show(name)


def test_every_setting_has_a_name_here_and_names_are_sorted() -> None:
    assert {config.setting for config in CONFIGS if config.setting} == set(setting_keys())
    names = [config.name for config in CONFIGS]
    assert len(names) == len(set(names))
    kafkas = names[: names.index("flush")]
    assert kafkas == sorted(kafkas)


def test_each_default_is_a_value_that_is_taken() -> None:
    for each in shown(TopicSettings(), 3):
        assert each.source is ConfigSource.DEFAULT
        setting_of(each.config.name, each.default)
        if each.config.type is ConfigType.BOOLEAN:
            assert each.value in ("true", "false")


def test_a_value_comes_from_the_topic_or_the_brokers_configuration_or_is_the_default() -> None:
    def sources(settings: TopicSettings) -> dict[str, ConfigSource]:
        return {each.config.name: each.source for each in shown(settings, 1, FlushPolicy.REPLICATED)}

    unset = sources(TopicSettings())
    assert (unset["flush"], unset["retention.ms"]) == (ConfigSource.BROKER, ConfigSource.DEFAULT)
    explicit = sources(from_pairs({"flush": "disk", "log.retention.secs": "0"}))
    assert (explicit["flush"], explicit["retention.ms"]) == (ConfigSource.TOPIC, ConfigSource.TOPIC)


def test_defaults_follow_the_topics_replicas_and_the_brokers_flush() -> None:
    values = {each.config.name: each.default for each in shown(TopicSettings(), 5, FlushPolicy.REPLICATED)}
    assert (values["min.insync.replicas"], values["flush"]) == ("3", "replicated")
