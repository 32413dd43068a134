"""Topic settings: TANK's keys and units, our keys, and errors that say what to write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import topic_settings as ts
from tank_protos.feature_levels import FIRST, KAFKA
from tank_protos.topic_settings import (
    CleanupPolicy,
    FlushPolicy,
    SettingError,
    TopicSettings,
    from_pairs,
    parse_text,
)
from tank_protos.wire.names import group_name_problem, topic_name_problem


def test_nothing_set_gives_tanks_defaults() -> None:
    settings = from_pairs({})
    assert settings == TopicSettings()
    assert settings.segment_bytes == 1024**3
    assert settings.retention_ms == 0
    assert settings.flush is None
    assert all(is_default for _, _, is_default in settings.describe())


def test_text_has_a_pair_a_line_and_comments() -> None:
    text = b"# a topic\nlog.retention.secs = 7d # a week\n\n  flush=replicated\r\nflush=disk\n"
    assert parse_text(text) == {"log.retention.secs": "7d", "flush": "disk"}


@pytest.mark.parametrize("line", ["flush", "=disk", "x y z"])
def test_a_line_that_is_no_pair_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(SettingError, match="line 2"):
        parse_text(f"flush=disk\n{line}\n")


def test_an_endless_text_is_refused() -> None:
    with pytest.raises(SettingError, match="longer than"):
        parse_text(b"a" * (ts.MAX_SETTINGS_TEXT_BYTES + 1))


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1k", 1024), ("2M", 2 * 1024**2), ("1g,512m", 1536 * 1024**2), ("1t + 1", 1024**4 + 1)],
)
def test_sizes_take_units_and_sums(text: str, size: int) -> None:
    assert ts.parse_size(text) == size


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("90", 90_000),
        ("2s", 2000),
        ("5min", 300_000),
        ("1h", 3_600_000),
        ("1d+12h", 36 * 3_600_000),
        ("1w", 604_800_000),
        ("1mon", 30 * 86_400_000),
        ("1y", 365 * 86_400_000),
        ("250ms", 250),
    ],
)
def test_durations_take_units_and_sums(text: str, ms: int) -> None:
    assert ts.parse_duration_ms(text) == ms


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("log.retention.bytes", "12q"),
        ("log.retention.bytes", "-1"),
        ("log.retention.bytes", ""),
        ("log.retention.bytes", "9999999t"),
        ("log.retention.secs", "1m"),
        ("log.segment.bytes", "0"),
        ("log.segment.bytes", "4g"),
        ("retention.segments.count", "1"),
        ("log.cleanup.policy", "burn"),
        ("log.cleaner.min.cleanable.ratio", "1.5"),
        ("log.cleaner.min.cleanable.ratio", "nan"),
        ("flush", "never"),
        ("min.insync.replicas", "0"),
        ("min.insync.replicas", "256"),
        ("flush.messages", "1e3"),
        ("unclean.leader.election", "yes"),
        ("log.cleanup.policy", "delete,delete"),
        ("log.cleanup.policy", "delete,"),
        ("log.format", "xml"),
        ("max.message.bytes", "2g"),
        ("message.timestamp.type", "NoTimestampType"),
        ("message.timestamp.after.max.ms", "-1"),
        ("message.timestamp.after.max.ms", "9223372036854775806"),
        ("delete.retention.ms", "9223372036854775807"),
        ("min.compaction.lag.ms", "soon"),
        ("record.validation", "none"),
        ("transcode", "maybe"),
    ],
)
def test_a_value_that_cannot_be_is_refused_with_key_value_and_advice(key: str, value: str) -> None:
    with pytest.raises(SettingError) as refusal:
        from_pairs({key: value})
    assert refusal.value.key == key
    assert refusal.value.value == value
    assert refusal.value.advice
    assert key in str(refusal.value)


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"did you mean log\.retention\.secs"):
        from_pairs({"retention.secs": "1d"})
    with pytest.raises(SettingError, match="did you mean flush"):
        from_pairs({"Flsh": "disk"})
    with pytest.raises(SettingError, match="the keys are"):
        from_pairs({"zzz": "1"})


def test_compact_is_kafkas_word_for_cleanup() -> None:
    assert from_pairs({"log.cleanup.policy": "compact"}).cleanup_policy is CleanupPolicy.CLEANUP


@pytest.mark.parametrize("text", ["cleanup,delete", "compact,delete", "delete, compact", "Delete,CLEANUP"])
def test_both_policies_may_be_written_in_any_order(text: str) -> None:
    assert from_pairs({"log.cleanup.policy": text}).cleanup_policy is CleanupPolicy.BOTH


def test_a_policy_says_what_it_does() -> None:
    done = [(policy.deletes, policy.compacts) for policy in CleanupPolicy]
    assert done == [(True, False), (False, True), (True, True)]


@pytest.mark.parametrize(
    ("key", "value", "meant"),
    [
        ("max.message.bytes", "2m", ("max_message_bytes", 2 * 1024**2)),
        ("max.message.bytes", str(2**31 - 1), ("max_message_bytes", 2**31 - 1)),
        ("message.timestamp.type", "logappendtime", ("timestamp_type", ts.TimestampType.LOG_APPEND_TIME)),
        ("message.timestamp.before.max.ms", "90", ("timestamp_before_max_ms", 90)),
        ("message.timestamp.before.max.ms", "7d", ("timestamp_before_max_ms", 7 * 86_400_000)),
        ("message.timestamp.after.max.ms", str(2**63 - 1), ("timestamp_after_max_ms", ts.UNLIMITED_MS)),
        ("delete.retention.ms", "0", ("delete_retention_ms", 0)),
        ("min.compaction.lag.ms", "1min", ("min_compaction_lag_ms", 60_000)),
        ("record.validation", "Full", ("record_validation", ts.RecordValidation.FULL)),
        ("transcode", "lenient", ("transcode", ts.Transcoding.LENIENT)),
        ("log.format", "kafka", ("log_format", ts.LogFormat.KAFKA)),
    ],
)
def test_settings_for_kafkas_clients_are_read(key: str, value: str, meant: tuple[str, object]) -> None:
    field, expected = meant
    assert getattr(from_pairs({key: value}), field) == expected


def test_without_settings_kafkas_clients_find_its_defaults() -> None:
    shown = {key: value for key, value, _ in TopicSettings().describe()}
    assert shown["max.message.bytes"] == "1048588"
    assert shown["message.timestamp.type"] == "CreateTime"
    assert shown["message.timestamp.before.max.ms"] == str(2**63 - 1)
    assert shown["message.timestamp.after.max.ms"] == "3600000"
    assert shown["delete.retention.ms"] == "86400000"
    assert shown["min.compaction.lag.ms"] == "0"


@pytest.mark.parametrize(
    ("key", "value"),
    [("log.cleanup.policy", "compact,delete"), ("log.format", "tank"), ("transcode", "strict")],
)
def test_what_older_processes_do_not_know_needs_the_feature_level_of_kafka(key: str, value: str) -> None:
    settings = from_pairs({"flush": "disk", key: value})
    assert ts.level_problem(settings, KAFKA) is None
    problem = ts.level_problem(settings, FIRST)
    assert problem is not None
    assert (problem.key, problem.advice) == (key, "needs feature level 2")


def test_what_all_processes_know_needs_no_higher_feature_level() -> None:
    older = from_pairs({"log.cleanup.policy": "compact", "flush": "disk"})
    assert ts.level_problem(older, FIRST) is None


def test_keys_are_known_from_their_feature_level_on() -> None:
    assert "log.format" not in ts.setting_keys(FIRST)
    assert set(ts.setting_keys(FIRST)) < set(ts.setting_keys(KAFKA)) == set(ts.setting_keys())


def test_min_insync_follows_the_replication_factor_unless_set() -> None:
    assert [TopicSettings().min_insync(rf) for rf in (1, 2, 3, 4, 5)] == [1, 1, 2, 3, 3]
    assert from_pairs({"min.insync.replicas": "2"}).min_insync(5) == 2


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("log.retention.secs", "604800", "7d"),
        ("log.retention.secs", "1w", "7d"),
        ("log.retention.secs", "1d,12h", "36h"),
        ("log.roll.secs", "5400", "90min"),
        ("log.roll.secs", "61", "61s"),
        ("flush.secs", "250ms", "250ms"),
        ("flush.secs", "1500ms", "1500ms"),
        ("flush.secs", "0", "0"),
        ("log.retention.bytes", "0", "0"),
        ("log.retention.bytes", "2199023255552", "2t"),
        ("log.segment.bytes", "1073741824", "1g"),
        ("log.segment.bytes", "1g,512m", "1536m"),
        ("log.segment.bytes", "1000", "1000"),
        ("flush.messages", "1024", "1024"),
        ("flush", "disk", "disk"),
        ("log.retention.secs", "whenever", "whenever"),
        ("delete.retention.ms", "86400000", "1d"),
        ("min.compaction.lag.ms", "1500", "1500ms"),
        ("message.timestamp.after.max.ms", str(2**63 - 1), str(2**63 - 1)),
        ("of.another.version", "604800", "604800"),
    ],
)
def test_values_are_shown_in_the_largest_unit_without_a_rest(key: str, value: str, shown: str) -> None:
    assert ts.in_units(key, value) == shown


@given(st.sampled_from(["log.retention.secs", "log.retention.bytes"]), st.integers(0, 2**52))
def test_what_is_shown_in_units_means_the_same(key: str, amount: int) -> None:
    value = f"{amount}ms" if key.endswith("secs") else str(amount)
    assert from_pairs({key: ts.in_units(key, value)}) == from_pairs({key: value})


def test_describe_shows_the_brokers_flush_and_what_was_set() -> None:
    described = {
        key: (value, default) for key, value, default in from_pairs({"log.roll.secs": "1d"}).describe()
    }
    assert described["log.roll.secs"] == ("86400", False)
    assert described["flush"] == ("disk", True)
    shown = {k: v for k, v, _ in TopicSettings().describe(FlushPolicy.REPLICATED, 3)}
    assert (shown["flush"], shown["min.insync.replicas"]) == ("replicated", "2")


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "retention.segments.count": st.integers(2, 1000).map(str),
            "log.retention.secs": st.integers(0, 10**9).map(lambda ms: f"{ms}ms"),
            "log.segment.bytes": st.integers(1, ts.MAX_SEGMENT_BYTES).map(str),
            "flush": st.sampled_from(list(FlushPolicy)).map(str),
            "min.insync.replicas": st.integers(1, 255).map(str),
            "log.cleaner.min.cleanable.ratio": st.integers(0, 100).map(lambda n: str(n / 100)),
            "unclean.leader.election": st.sampled_from(["true", "false"]),
            "validate.bundles": st.sampled_from(["true", "false"]),
            "log.format": st.sampled_from(list(ts.LogFormat)).map(str),
            "log.cleanup.policy": st.sampled_from(["delete", "compact", "compact,delete"]),
            "max.message.bytes": st.integers(0, 2**31 - 1).map(str),
            "message.timestamp.type": st.sampled_from(list(ts.TimestampType)).map(str),
            "message.timestamp.before.max.ms": st.sampled_from([0, 5, ts.UNLIMITED_MS]).map(str),
            "delete.retention.ms": st.integers(0, 10**9).map(str),
        },
    )
)
def test_what_describe_says_reads_back_the_same(pairs: dict[str, str]) -> None:
    settings = from_pairs(pairs)
    set_again = {key: value for key, value, is_default in settings.describe() if not is_default}
    assert from_pairs(set_again) == settings


def describes_itself(pairs: dict[str, str]) -> bool:
    """Good settings, or a refusal that a terminal can show."""
    try:
        return bool(from_pairs(pairs).describe())
    except SettingError as refusal:
        return str(refusal).isprintable()


@given(st.text(max_size=40), st.text(max_size=40))
def test_strangers_text_gives_settings_or_a_setting_error(key: str, value: str) -> None:
    for pairs in ({key: value}, *({known: value} for known in ts.setting_keys())):
        assert describes_itself(pairs)


def test_names_of_topics_and_groups() -> None:
    assert topic_name_problem("flights-2013_a") is None
    for bad in ("", "a" * 250, ".", "..", "a b", "a/b", "é", "a\n"):
        assert topic_name_problem(bad)
    assert group_name_problem("nightly job") is None
    for bad in ("", "g" * 256, "g\x00", "\udc80"):
        assert group_name_problem(bad)


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("Log.Retention.Secs=7d", {"log.retention.secs": "604800"}),
        ("log.retention.secs=2days", {"log.retention.secs": "172800"}),
        ("log.retention.secs=1h30min", {"log.retention.secs": "5400"}),
        ("log.retention.secs=1 year, 2 mon + 3 seconds", {"log.retention.secs": "36720003"}),
        ("LOG.RETENTION.BYTES=2gigabytes", {"log.retention.bytes": str(2 << 30)}),
        ("log.retention.bytes=1t512mb7", {"log.retention.bytes": str((1 << 40) + (512 << 20) + 7)}),
        ("log.cleanup.policy=cleanup", {"log.cleanup.policy": "cleanup"}),
    ],
)
def test_tanks_own_messages_are_read_as_the_original_reads_them(given: str, meant: dict[str, str]) -> None:
    found, unknown = ts.from_tank(parse_text(given))
    assert (found, unknown) == (meant, [])
    from_pairs(found)


@pytest.mark.parametrize(
    "given",
    ["log.retention.secs=2parsecs", "log.retention.secs=", "log.retention.bytes=-1", "log.segment.bytes=0",
     "log.retention.bytes=9999999999t", "retention.segments.count=1"],
)  # fmt: skip
def test_impossible_values_of_tanks_own_messages_are_refused(given: str) -> None:
    with pytest.raises(SettingError):
        ts.from_tank(parse_text(given))


def test_unknown_keys_of_tanks_own_messages_are_named() -> None:
    found, unknown = ts.from_tank({"Colour": "red", "log.roll.secs": "1d"})
    assert (found, unknown) == ({"log.roll.secs": "86400"}, ["Colour"])


def test_settings_of_ours_are_unknown_to_the_original() -> None:
    ours = ["flush", "min.insync.replicas", "unclean.leader.election", "validate.bundles"]
    later = [key for key in ts.setting_keys() if key not in ts.setting_keys(FIRST)]
    assert ts.unknown_to_tank(ts.setting_keys()) == [*ours, *later]
    assert "log.format" in later
    assert ts.unknown_to_tank(["Log.Retention.Secs", "Flush", "flsuh"]) == ["Flush", "flsuh"]
