"""A topic's settings: TANK's keys with TANK's units, and our own. For brokers, controller, clients and CLI.

The text form is TANK's: a `key=value` a line, `#` begins a comment. Sizes take k, m, g, t (powers of 1024),
durations take ms, s, min, h, d, w, mon (30 days), y (365 days); both may be sums: `1d+12h`, `1g,512m`.
A number without a unit is bytes, or seconds.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import NamedTuple

from tank_protos import feature_levels

MAX_SETTINGS_TEXT_BYTES = 64 * 1024
"""The longest text that `parse_text` reads: far longer than all keys together."""

MAX_KEY_BYTES = 255
MAX_VALUE_BYTES = 1024

VALIDATE_BUNDLES = "validate.bundles"
"""Its key."""

LOG_FORMAT = "log.format"
"""Its key."""

MAX_AMOUNT = 2**53
"""Sizes and durations (ms) stay below this, so that no language loses a digit of them."""

UNLIMITED_MS = 2**63 - 1
"""The value of a bound in milliseconds that bounds nothing, as Kafka has it."""

_MAX_MESSAGE_BYTES = 2**31 - 1
"""Kafka's clients know sizes of batches as numbers of 32 bits with a sign."""

MAX_SEGMENT_BYTES = 3 * 1024**3
"""The greatest size of a segment: positions have 32 bits, and one tick may append beyond the size."""


class SettingError(ValueError):
    """A setting that can't be used. `advice` says what to write instead."""

    def __init__(self, key: str, value: str, advice: str) -> None:
        super().__init__(f"setting {_shown(key)}={_shown(value)}: {advice}")
        self.key = key
        self.value = value
        self.advice = advice


class CleanupPolicy(StrEnum):
    """What happens to old messages: dropped by age, size and count, or all but the newest of each key, or
    both.
    """

    DELETE = "delete"
    CLEANUP = "cleanup"
    BOTH = "cleanup,delete"

    @property
    def deletes(self) -> bool:
        """Whether messages are dropped by age, size and count."""
        return self is not CleanupPolicy.CLEANUP

    @property
    def compacts(self) -> bool:
        """Whether the newest message of each key is kept, and older ones are dropped."""
        return self is not CleanupPolicy.DELETE


class FlushPolicy(StrEnum):
    """When a message is acknowledged: in-sync replicas have it on disk, or they have it in memory."""

    DISK = "disk"
    REPLICATED = "replicated"


class LogFormat(StrEnum):
    """The format in which a topic's messages are stored: TANK's bundles, or Kafka's record batches."""

    TANK = "tank"
    KAFKA = "kafka"


class TimestampType(StrEnum):
    """Whose time a message of a Kafka client has: its producer's, or that of its append."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class RecordValidation(StrEnum):
    """How far a leader looks into the batch of a Kafka client before the batch is stored."""

    HEADER = "header"
    RECORDS = "records"
    FULL = "full"


class Transcoding(StrEnum):
    """What happens to a message that the topic's format can't hold as its producer sent it: it is refused, or
    stored without what does not fit.
    """

    STRICT = "strict"
    LENIENT = "lenient"


@dataclass(slots=True, frozen=True)
class TopicSettings:
    """All settings of a topic, with defaults for those that were not set. Times in ms, sizes in bytes.

    `_SETTINGS` describes each setting, for users, too; the fields here have only additions.
    """

    retention_segments_count: int = 0
    retention_ms: int = 0
    retention_bytes: int = 0
    segment_bytes: int = 1024**3
    index_interval_bytes: int = 4096
    index_size_max_bytes: int = 10 * 1024**2
    roll_ms: int = 7 * 86_400_000
    roll_jitter_ms: int = 0
    flush_messages: int = 0
    flush_ms: int = 0
    """0: the broker's interval."""
    cleanup_policy: CleanupPolicy = CleanupPolicy.DELETE
    min_cleanable_ratio: float = 0.5
    flush: FlushPolicy | None = None
    """None: the broker's default."""
    min_insync_replicas: int = 0
    """0: the default for the replication factor, see `min_insync`."""
    unclean_leader_election: bool = False
    validate_bundles: bool = True
    log_format: LogFormat = LogFormat.TANK
    max_message_bytes: int = 1_048_588
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    timestamp_before_max_ms: int = UNLIMITED_MS
    timestamp_after_max_ms: int = 3_600_000
    delete_retention_ms: int = 86_400_000
    min_compaction_lag_ms: int = 0
    record_validation: RecordValidation = RecordValidation.RECORDS
    transcode: Transcoding = Transcoding.STRICT
    explicit: frozenset[str] = frozenset()
    """The keys that were set."""

    def min_insync(self, replication_factor: int) -> int:
        """How many replicas must be in sync: the setting, else rf // 2 + 1 from rf 3 on, else 1."""
        if self.min_insync_replicas:
            return self.min_insync_replicas
        return replication_factor // 2 + 1 if replication_factor >= 3 else 1

    def describe(
        self, default_flush: FlushPolicy = FlushPolicy.DISK, replication_factor: int = 1
    ) -> list[tuple[str, str, bool]]:
        """(key, value, whether it is the default) for every key; values in plain units, as `from_pairs` takes
        them.
        """
        described = []
        for key, setting in _SETTINGS.items():
            value = getattr(self, setting.field)
            if setting.field == "flush" and value is None:
                value = default_flush
            elif setting.field == "min_insync_replicas" and value == 0:
                value = self.min_insync(replication_factor)
            described.append((key, setting.show(value), key not in self.explicit))
        return described


def parse_text(text: bytes | str) -> dict[str, str]:
    """The pairs of a settings text; the last of a repeated key counts. Raises SettingError."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    if len(text) > MAX_SETTINGS_TEXT_BYTES:
        raise SettingError("", text[:20], f"the text is longer than {MAX_SETTINGS_TEXT_BYTES} bytes")
    pairs: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise SettingError(line, "", f"line {number} is not a key=value")
        pairs[key.strip()] = value.strip()
    return pairs


def unknown_to_tank(keys: Iterable[str]) -> list[str]:
    """The keys that the C++ broker does not know, and without which it creates the topic."""
    known = {key for key, setting in _SETTINGS.items() if setting.is_tanks}
    return [key for key in keys if key.strip().lower() not in known]


def from_pairs(pairs: Mapping[str, str]) -> TopicSettings:
    """The settings of these pairs. Raises SettingError for an unknown key or an invalid value."""
    values: dict[str, object] = {}
    for key, value in pairs.items():
        setting = _SETTINGS.get(key)
        if setting is None:
            raise SettingError(key, value, f"unknown; {_nearest(key)}")
        try:
            values[setting.field] = setting.read(value.strip())
        except ValueError as error:
            raise SettingError(key, value, str(error)) from None
    return TopicSettings(**values, explicit=frozenset(pairs))  # type: ignore[arg-type]


def level_problem(settings: TopicSettings, level: int) -> SettingError | None:
    """Returns the error of the first setting that was set and needs a higher feature level than this one;
    None when there is no such setting. `advice` says which level it needs.
    """
    for key in sorted(settings.explicit):
        setting = _SETTINGS[key]
        value = getattr(settings, setting.field)
        needed = max(
            setting.level, feature_levels.KAFKA if value is CleanupPolicy.BOTH else feature_levels.FIRST
        )
        if needed > level:
            return SettingError(key, setting.show(value), f"needs feature level {needed}")
    return None


class SettingText(NamedTuple):
    """A setting as a page for users shows it."""

    key: str
    takes: str
    """The possible values; `size` and `duration` have units."""
    default: str
    """As `from_pairs` takes it; empty where it depends."""
    about: str


def setting_texts() -> list[SettingText]:
    """All settings for a page, in the order in which they are shown."""
    defaults = TopicSettings()
    depending = ("flush", "min_insync_replicas")
    return [
        SettingText(
            key,
            setting.takes,
            "" if setting.field in depending else setting.show(getattr(defaults, setting.field)),
            setting.about,
        )
        for key, setting in _SETTINGS.items()
    ]


def in_units(key: str, value: str) -> str:
    """The value in the largest unit that leaves no rest, as people write it: `604800` as `7d`. What has no
    unit, or can't be read, stays as it is."""
    setting = _SETTINGS.get(key)
    parts = _SHOWN_UNITS.get(setting.takes) if setting is not None else None
    if setting is None or parts is None:
        return value
    read, units = parts
    try:
        amount = read(value)
    except ValueError:
        return value
    for unit, size in units:
        if amount and amount % size == 0:
            return f"{amount // size}{unit}"
    return str(amount)


def setting_keys(level: int = feature_levels.OWN.highest) -> list[str]:
    """The keys that are known at a feature level, in the order in which they are shown; of the newest level:
    all.
    """
    return [key for key, setting in _SETTINGS.items() if setting.level <= level]


# --- values ------------------------------------------------------------------------------------

_SIZE_UNITS = {"": 1, "b": 1} | {
    unit: 1024**power for power, letter in enumerate("kmgt", 1) for unit in (letter, f"{letter}b")
}
_DURATION_UNITS_MS = {
    "": 1000,
    "ms": 1,
    "s": 1000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 7 * 86_400_000,
    "mon": 30 * 86_400_000,
    "y": 365 * 86_400_000,
}
_TERM = re.compile(r"([0-9]{1,16})\s*([a-z]*)")


def _sum(text: str, units: Mapping[str, int], example: str) -> int:
    total = 0
    for term in re.split(r"[,+]", text.lower()):
        match = _TERM.fullmatch(term.strip())
        if match is None or match[2] not in units:
            raise ValueError(
                f"write a number with one of the units {', '.join(u for u in units if u)}, such as {example}"
            )
        total += int(match[1]) * units[match[2]]
    if total >= MAX_AMOUNT:
        raise ValueError(f"is too large; at most {MAX_AMOUNT - 1}")
    return total


def parse_size(text: str) -> int:
    """Bytes: `64m`, `1g+512m`, `4096`. ValueError says what to write."""
    return _sum(text, _SIZE_UNITS, "64m")


def parse_duration_ms(text: str) -> int:
    """Milliseconds: `7d`, `1h,30min`, `90` (seconds), `250ms`. ValueError says what to write."""
    return _sum(text, _DURATION_UNITS_MS, "7d")


def _parse_ms(text: str) -> int:
    """Milliseconds: as `parse_duration_ms`, but a number without a unit is milliseconds."""
    return parse_duration_ms(f"{text}ms" if text.isascii() and text.isdigit() else text)


def _parse_bound_ms(text: str) -> int:
    """As `_parse_ms`; takes Kafka's unlimited value, too."""
    return UNLIMITED_MS if text == str(UNLIMITED_MS) else _parse_ms(text)


def _show_duration(ms: int) -> str:
    return str(ms // 1000) if ms % 1000 == 0 else f"{ms}ms"


def _segment_bytes(text: str) -> int:
    size = parse_size(text)
    if not 1 <= size <= MAX_SEGMENT_BYTES:
        raise ValueError("must be between 1 byte and 3g")
    return size


def _count(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,15}", text):
        raise ValueError("write a whole number, 0 or more")
    return int(text)


def _segments_count(text: str) -> int:
    count = _count(text)
    if count == 1:
        raise ValueError("must be 0 (keep all) or at least 2: the segment that is written to always stays")
    return count


def _replicas(text: str) -> int:
    count = _count(text)
    if not 1 <= count <= 255:
        raise ValueError("must be between 1 and 255")
    return count


def _ratio(text: str) -> float:
    if not re.fullmatch(r"[0-9]{0,3}(\.[0-9]{1,9})?", text) or not text or float(text) > 1:
        raise ValueError("write a number between 0 and 1, such as 0.5")
    return float(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def _cleanup_policy(text: str) -> CleanupPolicy:
    # Kafka's users write `compact` for `cleanup`.
    words = [word.strip() for word in text.lower().replace("compact", "cleanup").split(",")]
    for policy in CleanupPolicy:
        if sorted(words) == policy.split(","):
            return policy
    raise ValueError("write delete, or cleanup (compaction by key), or cleanup,delete")


def parse_flush(text: str) -> FlushPolicy:
    """`disk` or `replicated`. ValueError says so."""
    try:
        return FlushPolicy(text.lower())
    except ValueError:
        raise ValueError("write disk or replicated") from None


def _message_bytes(text: str) -> int:
    size = parse_size(text)
    if size > _MAX_MESSAGE_BYTES:
        raise ValueError("must be at most 2g less a byte")
    return size


def _timestamp_type(text: str) -> TimestampType:
    for each in TimestampType:
        if text.lower() == each.lower():
            return each
    raise ValueError("write CreateTime or LogAppendTime")


def _record_validation(text: str) -> RecordValidation:
    try:
        return RecordValidation(text.lower())
    except ValueError:
        raise ValueError("write header, records or full") from None


def _transcode(text: str) -> Transcoding:
    try:
        return Transcoding(text.lower())
    except ValueError:
        raise ValueError("write strict or lenient") from None


def _log_format(text: str) -> LogFormat:
    try:
        return LogFormat(text.lower())
    except ValueError:
        raise ValueError("write tank or kafka") from None


_TANK_SIZE_UNITS = _SIZE_UNITS | {
    word + ending: 1024**power
    for power, word in enumerate(("byte", "kilobyte", "megabyte", "gigabyte", "terabyte"))
    for ending in ("", "s")
}
_TANK_DURATION_UNITS_MS = _DURATION_UNITS_MS | {
    word + ending: _DURATION_UNITS_MS[unit]
    for word, unit in (
        ("sec", "s"), ("second", "s"), ("minute", "min"), ("hour", "h"), ("day", "d"), ("week", "w"),
        ("month", "mon"), ("year", "y"),
    )
    for ending in ("", "s")
}  # fmt: skip
_MAX_DIGITS = 16
_TANK_TERM = re.compile(r"([0-9]+)\s*([a-z]*)[\s,+]*")


def from_tank(pairs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Reads the settings of TANK's own messages: (pairs for `from_pairs`, unknown keys).

    Read as the C++ broker does: keys in any case, units as words, sums without anything between their terms
    (`1h30min`, `2days`). Raises SettingError for a value that can't be.
    """
    meant: dict[str, str] = {}
    unknown: list[str] = []
    for given, value in pairs.items():
        key = given.lower()
        setting = _SETTINGS.get(key)
        if setting is None:
            unknown.append(given)
        elif setting.takes == _SIZE:
            meant[key] = str(_tank_sum(key, value, _TANK_SIZE_UNITS))
        elif setting.takes == _DURATION:
            meant[key] = _show_duration(_tank_sum(key, value, _TANK_DURATION_UNITS_MS))
        else:
            meant[key] = value
    from_pairs(meant)
    return meant, sorted(unknown)


def _tank_sum(key: str, value: str, units: Mapping[str, int]) -> int:
    text = value.strip().lower()
    at = total = 0
    while at < len(text) or not text:
        match = _TANK_TERM.match(text, at)
        if match is None or match[2] not in units or len(match[1]) > _MAX_DIGITS:
            raise SettingError(key, value, "write numbers with units, such as 64mb, 7days or 1h30min")
        total += int(match[1]) * units[match[2]]
        at = match.end()
    if total >= MAX_AMOUNT:
        raise SettingError(key, value, f"is too large; at most {MAX_AMOUNT - 1}")
    return total


# --- the table ---------------------------------------------------------------------------------


_SIZE = "size"
_DURATION = "duration"
_MILLISECONDS = "duration, in ms without a unit"
_COUNT = "whole number"
# Not in weeks, months or years, because users write 7d.
_SHOWN_UNITS: dict[str, tuple[Callable[[str], int], tuple[tuple[str, int], ...]]] = {
    _SIZE: (parse_size, tuple((unit, _SIZE_UNITS[unit]) for unit in ("t", "g", "m", "k"))),
    _DURATION: (
        parse_duration_ms,
        tuple((unit, _DURATION_UNITS_MS[unit]) for unit in ("d", "h", "min", "s", "ms")),
    ),
    _MILLISECONDS: (
        _parse_ms,
        tuple((unit, _DURATION_UNITS_MS[unit]) for unit in ("d", "h", "min", "s", "ms")),
    ),
}


@dataclass(slots=True, frozen=True)
class _Setting:
    field: str
    read: Callable[[str], object]
    takes: str
    about: str
    show: Callable[..., str] = str
    is_tanks: bool = True
    """Whether the C++ broker knows it, too."""
    level: int = feature_levels.FIRST
    """The feature level from which on a topic may have it: older processes don't know it."""


_SETTINGS: dict[str, _Setting] = {
    "retention.segments.count": _Setting(
        "retention_segments_count",
        _segments_count,
        _COUNT,
        "How many segments a partition keeps, 2 at least; 0: all.",
    ),
    "log.retention.secs": _Setting(
        "retention_ms",
        parse_duration_ms,
        _DURATION,
        "How long messages are kept, by the time of their append; whole segments go; 0: for ever.",
        _show_duration,
    ),
    "log.retention.bytes": _Setting(
        "retention_bytes",
        parse_size,
        _SIZE,
        "How large a partition may grow before its oldest segments go; 0: no limit.",
    ),
    "log.segment.bytes": _Setting(
        "segment_bytes", _segment_bytes, _SIZE, "A segment that has grown past this is sealed; at most 3g."
    ),
    "log.index.interval.bytes": _Setting(
        "index_interval_bytes",
        parse_size,
        _SIZE,
        "Accepted for TANK's sake, without effect: our index has a record for every batch.",
    ),
    "log.index.size.max.bytes": _Setting(
        "index_size_max_bytes", parse_size, _SIZE, "Accepted for TANK's sake, without effect."
    ),
    "log.roll.secs": _Setting(
        "roll_ms", parse_duration_ms, _DURATION, "A segment older than this is sealed.", _show_duration
    ),
    "log.roll.jitter.secs": _Setting(
        "roll_jitter_ms",
        parse_duration_ms,
        _DURATION,
        "Up to this much, at random, is taken off `log.roll.secs`, so that segments don't all roll at once.",
        _show_duration,
    ),
    "flush.messages": _Setting(
        "flush_messages",
        _count,
        _COUNT,
        "Under `flush=replicated`: an fsync after so many messages; 0: not by count.",
    ),
    "flush.secs": _Setting(
        "flush_ms",
        parse_duration_ms,
        _DURATION,
        "Under `flush=replicated`: an fsync at least this often; 0: every 5 s.",
        _show_duration,
    ),
    "log.cleanup.policy": _Setting(
        "cleanup_policy",
        _cleanup_policy,
        "`delete`, `cleanup` or both",
        "What happens to old messages: `delete` drops them by age, size and count; `cleanup` (or `compact`) "
        "keeps the newest of each key; `cleanup,delete` does both.",
    ),
    "log.cleaner.min.cleanable.ratio": _Setting(
        "min_cleanable_ratio",
        _ratio,
        "0 to 1",
        "Compaction begins when so much of the sealed bytes is not yet compacted.",
    ),
    "flush": _Setting(
        "flush",
        parse_flush,
        "`disk` or `replicated`",
        "When a message is acknowledged: every in-sync replica has it on disk, or has it in memory.",
        is_tanks=False,
    ),
    "min.insync.replicas": _Setting(
        "min_insync_replicas",
        _replicas,
        "1 to 255",
        "How many replicas must be in sync for messages to be taken; at most the replication factor.",
        is_tanks=False,
    ),
    "unclean.leader.election": _Setting(
        "unclean_leader_election",
        _flag,
        "`true` or `false`",
        "Whether a replica that isn't in sync may lead when no other can, and messages be lost.",
        lambda flag: str(flag).lower(),
        is_tanks=False,
    ),
    VALIDATE_BUNDLES: _Setting(
        "validate_bundles",
        _flag,
        "`true` or `false`",
        "Whether a leader walks through the messages of an uncompressed bundle, by their lengths, before "
        "it is stored: one whose counts or lengths lie is refused. Where it is off, readers find it. In "
        "plain Python it costs 0.15 µs a message.",
        lambda flag: str(flag).lower(),
        is_tanks=False,
    ),
    LOG_FORMAT: _Setting(
        "log_format",
        _log_format,
        "`tank` or `kafka`",
        "The format in which messages are stored, chosen when the topic is created: `tank`, bundles of "
        "TANK's protocol; `kafka`, record batches of Kafka's.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "max.message.bytes": _Setting(
        "max_message_bytes",
        _message_bytes,
        _SIZE,
        "The largest batch that Kafka's clients may send, as it is on the wire; TANK's clients are bounded "
        "by the broker's limit alone.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "message.timestamp.type": _Setting(
        "timestamp_type",
        _timestamp_type,
        "`CreateTime` or `LogAppendTime`",
        "Whose time the messages of Kafka's clients have: their producer's, or that of their append.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "message.timestamp.before.max.ms": _Setting(
        "timestamp_before_max_ms",
        _parse_bound_ms,
        _MILLISECONDS,
        "How far behind the broker's clock the times of messages may be that Kafka's producers set; "
        f"{UNLIMITED_MS}: no limit.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "message.timestamp.after.max.ms": _Setting(
        "timestamp_after_max_ms",
        _parse_bound_ms,
        _MILLISECONDS,
        "How far ahead of the broker's clock the times of messages may be that Kafka's producers set; "
        f"{UNLIMITED_MS}: no limit.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "delete.retention.ms": _Setting(
        "delete_retention_ms",
        _parse_ms,
        _MILLISECONDS,
        "How long compaction keeps a tombstone, a record with a key and no value, after it met it first; "
        "then it goes while all replicas are in sync. In a topic of TANK's bundles tombstones stay.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "min.compaction.lag.ms": _Setting(
        "min_compaction_lag_ms",
        _parse_ms,
        _MILLISECONDS,
        "How long a segment is left alone by compaction after its last append.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "record.validation": _Setting(
        "record_validation",
        _record_validation,
        "`header`, `records` or `full`",
        "How far a leader looks into the batch of a Kafka client before it is stored: at its header; at the "
        "records of an uncompressed batch, too; or at all records, which unpacks compressed ones.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
    "transcode": _Setting(
        "transcode",
        _transcode,
        "`strict` or `lenient`",
        "What happens to a message that `log.format` can't hold as it was sent, such as one with headers in "
        "a topic of TANK's bundles: `strict` refuses it, `lenient` stores it without what does not fit.",
        is_tanks=False,
        level=feature_levels.KAFKA,
    ),
}
assert {setting.field for setting in _SETTINGS.values()} == {f.name for f in fields(TopicSettings)} - {
    "explicit"
}


def _shown(text: str) -> str:
    """A value that a client sent, short and printable."""
    return "".join(c if c.isprintable() else "?" for c in text[:60])


def _nearest(key: str) -> str:
    """The known key that is most like this one, or shares most words with it."""
    import difflib  # for this alone: brokers start without

    if close := difflib.get_close_matches(key.lower(), _SETTINGS, n=1, cutoff=0.7):
        return f"did you mean {close[0]}?"
    words = set(re.split(r"[._-]", key.lower()))
    best = max(_SETTINGS, key=lambda known: len(words & set(known.split("."))))
    if words & set(best.split(".")):
        return f"did you mean {best}?"
    return f"the keys are {', '.join(_SETTINGS)}"
