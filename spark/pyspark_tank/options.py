"""The options of `format("tank")`, read and checked. Pure: strings in, a typed record out.

The names are those of Spark's Kafka source, so that a job ports by changing its format:
https://spark.apache.org/docs/latest/structured-streaming-kafka-integration.html
Spark hands the keys over in lower case, with some of its own among them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeVar

from pyspark_tank.errors import OptionError
from pyspark_tank.option_names import (
    BATCH_ONLY,
    CANONICAL,
    GROUP_KEYS,
    SINK_KEYS,
    SOURCE_KEYS,
    SPARKS_OWN,
    SPARKS_OWN_BEGIN,
    STREAM_ONLY,
    TABLES_OPTION,
    WITHOUT_MEANING,
)
from pyspark_tank.positions import (
    EndingPosition,
    StartingPosition,
    WhenNothingIsLater,
    parse_ending,
    parse_starting,
    parse_topic_partitions,
)

DEFAULT_SERVERS = "127.0.0.1:11011"

# Room for four of the sink's bundles of 512 KiB of content: bundles are fetched whole, and many rows share
# the cost of a fetch. Batches of rows have their own size.
DEFAULT_FETCH_BYTES = 2304 * 1024
MAX_FETCH_BYTES = 64 * 1024 * 1024

DEFAULT_LATEST_OFFSET_WAIT_MS = 500
DEFAULT_MAX_TRIGGER_DELAY_MS = 15 * 60 * 1000
DEFAULT_FETCH_TIMEOUT_MS = 60_000

DEFAULT_CORRUPT_FIELD = "_corrupt_record"  # as Spark's own setting has it
DEFAULT_BUNDLE_ROWS = 10_000
DEFAULT_BUNDLE_BYTES = 512 * 1024
MAX_WRITE_NAME_BYTES = 200  # a producer's name has 255, and holds the task's number as well
MAX_WRITE_ID = 2**48 - 1  # 16 bits of it are the producer's epoch, 32 its generation
MAX_BUNDLE_ROWS = 1_000_000
MAX_BUNDLE_BYTES = 64 * 1024 * 1024


class ValueFormat(Enum):
    """How a message's content is read: as bytes, or decoded in the reader."""

    BINARY = "binary"
    JSON = "json"


class ParseMode(Enum):
    """How content that doesn't fit the schema is read: as nulls, as in `from_json`, or as an error."""

    PERMISSIVE = "PERMISSIVE"
    FAILFAST = "FAILFAST"


class Compression(Enum):
    """How bundles are written; AUTO compresses like the official client."""

    AUTO = "auto"
    NONE = "none"
    SNAPPY = "snappy"


@dataclass(frozen=True, slots=True)
class Subscription:
    """Which partitions to read: exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    pattern: str = ""

    def describe(self) -> str:
        """The subscription in words, for error messages."""
        if self.pattern:
            return f"subscribePattern={self.pattern}"
        if self.assigned:
            return "assign=" + ", ".join(sorted(self.assigned))
        return "subscribe=" + ",".join(self.topics)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Everything a read needs. Times in milliseconds, sizes in bytes, offsets are sequence numbers."""

    servers: str
    subscription: Subscription
    starting: StartingPosition
    ending: EndingPosition
    when_nothing_is_later: WhenNothingIsLater = WhenNothingIsLater.ERROR
    # The group for which a stream's positions are committed; None: no group.
    group: str | None = None
    fail_on_data_loss: bool = True
    min_offsets_per_trigger: int | None = None
    max_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = DEFAULT_MAX_TRIGGER_DELAY_MS
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    value_format: ValueFormat = ValueFormat.BINARY
    value_schema: str | None = None
    parse_mode: ParseMode = ParseMode.PERMISSIVE
    corrupt_field: str = DEFAULT_CORRUPT_FIELD
    """The field that gets content that doesn't fit, where the schema has it."""
    latest_offset_wait_ms: int = DEFAULT_LATEST_OFFSET_WAIT_MS
    fetch_bytes: int = DEFAULT_FETCH_BYTES
    fetch_timeout_ms: int = DEFAULT_FETCH_TIMEOUT_MS
    # Whether there is a column `headers`.
    include_headers: bool = False
    without_meaning: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write. `topic` is None when each row names its own in the column `topic`.

    Invariant: `write_name` and `write_id` are both None (Spark gives the identity, or the write is one of its
    own), or both set: the batch write `write_id` of the writer `write_name`.
    """

    servers: str
    topic: str | None = None
    bundle_rows: int = DEFAULT_BUNDLE_ROWS
    bundle_bytes: int = DEFAULT_BUNDLE_BYTES
    compression: Compression = Compression.AUTO
    write_name: str | None = None
    write_id: int | None = None
    without_meaning: tuple[str, ...] = ()


_Member = TypeVar("_Member", bound=Enum)

_DURATION = re.compile(r"\s*(\d+)\s*([a-z]*)\s*\Z")
_DURATION_MS = {
    "": 1, "ms": 1, "s": 1000, "sec": 1000, "second": 1000, "seconds": 1000,
    "m": 60_000, "min": 60_000, "minute": 60_000, "minutes": 60_000,
    "h": 3_600_000, "hour": 3_600_000, "hours": 3_600_000,
    "d": 86_400_000, "day": 86_400_000, "days": 86_400_000,
}  # fmt: skip


def parse_source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """The options of a read. Raises OptionError, naming the option and what to write instead."""
    given, without_meaning = _sort_out(options, foreign=SINK_KEYS)
    if streaming:
        for key in BATCH_ONLY:
            if key in given:
                raise OptionError(
                    f"{CANONICAL[key]} is for spark.read: a stream has no end; remove it, "
                    "or use trigger(availableNow=True) to stop at what is there now"
                )
    else:
        without_meaning += [CANONICAL[key] for key in STREAM_ONLY if key in given]
    value_format = _choice(given, "valueFormat", ValueFormat, ValueFormat.BINARY)
    value_schema = given.get("valueschema", "").strip() or None
    if value_schema and value_format is not ValueFormat.JSON:
        raise OptionError("valueSchema needs valueFormat=json: add .option('valueFormat', 'json')")
    parsed = SourceOptions(
        servers=_servers(given),
        subscription=_subscription(given),
        starting=parse_starting(given, streaming=streaming),
        ending=parse_ending(given),
        when_nothing_is_later=_choice(
            given, "startingOffsetsByTimestampStrategy", WhenNothingIsLater, WhenNothingIsLater.ERROR
        ),
        group=_group(given) if streaming else None,  # a batch commits nothing
        fail_on_data_loss=_boolean(given, "failOnDataLoss", True),
        min_offsets_per_trigger=_optional_count(given, "minOffsetsPerTrigger"),
        max_offsets_per_trigger=_optional_count(given, "maxOffsetsPerTrigger"),
        max_trigger_delay_ms=_duration_ms(given, "maxTriggerDelay", DEFAULT_MAX_TRIGGER_DELAY_MS),
        min_partitions=_optional_count(given, "minPartitions"),
        max_records_per_partition=_optional_count(given, "maxRecordsPerPartition"),
        include_headers=_boolean(given, "includeHeaders", False),
        value_format=value_format,
        value_schema=value_schema,
        parse_mode=_choice(given, "mode", ParseMode, ParseMode.PERMISSIVE),
        corrupt_field=given.get("columnnameofcorruptrecord", DEFAULT_CORRUPT_FIELD),
        latest_offset_wait_ms=_count(
            given, "latestOffsetWaitMs", DEFAULT_LATEST_OFFSET_WAIT_MS, least=0, most=60_000
        ),
        fetch_bytes=_count(given, "fetchBytes", DEFAULT_FETCH_BYTES, least=4096, most=MAX_FETCH_BYTES),
        fetch_timeout_ms=_count(
            given, "fetchTimeoutMs", DEFAULT_FETCH_TIMEOUT_MS, least=1, most=24 * 3_600_000
        ),
        without_meaning=tuple(without_meaning),
    )
    least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"minOffsetsPerTrigger ({least}) is above maxOffsetsPerTrigger ({most}): "
            "no batch could be large enough; lower the one or raise the other"
        )
    return parsed


def parse_sink_options(options: Mapping[str, str], *, streaming: bool = False) -> SinkOptions:
    """The options of a write. Raises OptionError, naming the option and what to write instead."""
    given, without_meaning = _sort_out(options, foreign=SOURCE_KEYS)
    _boolean(given, "includeHeaders", False)  # a write takes headers from its column
    write_name, write_id = _write(given, streaming)
    return SinkOptions(
        servers=_servers(given),
        topic=given.get("topic", "").strip() or None,
        bundle_rows=_count(given, "bundleRows", DEFAULT_BUNDLE_ROWS, least=1, most=MAX_BUNDLE_ROWS),
        bundle_bytes=_count(given, "bundleBytes", DEFAULT_BUNDLE_BYTES, least=1, most=MAX_BUNDLE_BYTES),
        compression=_choice(given, "compression", Compression, Compression.AUTO),
        write_name=write_name,
        write_id=write_id,
        without_meaning=tuple(without_meaning),
    )


def _write(given: Mapping[str, str], streaming: bool) -> tuple[str | None, int | None]:
    """The writer's name and the write's number of a batch write; None and None when it has no name."""
    name = given.get("writename", "").strip()
    if not name and "writeid" not in given:
        return None, None
    if streaming:
        raise OptionError(
            "writeName and writeId are for df.write: a stream has a name in its checkpoint and numbers its "
            "batches itself; remove them"
        )
    if not name or "writeid" not in given:
        raise OptionError(
            "writeName and writeId belong together: the name of this writer, always the same, and a number "
            "that rises from write to write, such as the batch id in foreachBatch"
        )
    if len(name.encode()) > MAX_WRITE_NAME_BYTES:
        raise OptionError(f"writeName={name!r} is too long: it has at most {MAX_WRITE_NAME_BYTES} bytes")
    return name, _count(given, "writeId", 0, least=0, most=MAX_WRITE_ID)


def _refuse_security(options: Mapping[str, str]) -> None:
    """Refuses options of security, so that no user takes the connections for encrypted or authenticated."""
    given = {key.lower(): value.strip() for key, value in options.items()}
    protocol = given.get("kafka.security.protocol")
    if protocol is not None and protocol.upper() != "PLAINTEXT":
        raise OptionError(
            f"kafka.security.protocol={protocol!r} is not possible: tank's connections are neither encrypted "
            "nor authenticated by this source; remove the option, and keep the network between Spark and the "
            "brokers private"
        )
    if protocol is None:
        for key in given:
            if key.startswith(("kafka.ssl.", "kafka.sasl.")):
                raise OptionError(
                    f"{key} is not possible: tank's connections are neither encrypted nor authenticated by "
                    "this source; remove it, or say kafka.security.protocol=PLAINTEXT"
                )


def _sort_out(options: Mapping[str, str], foreign: frozenset[str]) -> tuple[dict[str, str], list[str]]:
    """Splits the given options into (ours by lower-cased name, names that have no meaning here)."""
    _refuse_security(options)
    given: dict[str, str] = {}
    without_meaning: list[str] = []
    for raw, value in options.items():
        key = raw.lower().removeprefix(TABLES_OPTION)
        if key != raw.lower() and key in options:
            continue  # given again for this read
        if key in SPARKS_OWN or key.startswith(SPARKS_OWN_BEGIN):
            continue
        if key == "path":
            raise OptionError(
                f"a path ({value!r}) says nothing to tank: call load(), save() or start() without one "
                "and name the topic by .option('subscribe', ...) to read, .option('topic', ...) to write"
            )
        if key in foreign or key in WITHOUT_MEANING:
            without_meaning.append(CANONICAL[key])
        elif key in CANONICAL:
            given[key] = value
        elif key.startswith("kafka."):
            without_meaning.append(raw)
        else:
            raise OptionError(_unknown(raw))
    return given, without_meaning


def _unknown(key: str) -> str:
    nearest = difflib.get_close_matches(key.lower(), CANONICAL, n=1, cutoff=0.0)
    return f"tank has no option {key!r}; the nearest is {CANONICAL[nearest[0]]!r} (all: docs/spark.md)"


def _servers(given: Mapping[str, str]) -> str:
    own, alias = given.get("servers"), given.get("kafka.bootstrap.servers")
    if own and alias and own.strip() != alias.strip():
        raise OptionError(
            f"servers ({own}) and kafka.bootstrap.servers ({alias}) differ: they mean the same, give one"
        )
    servers = (own or alias or DEFAULT_SERVERS).strip()
    from tank_client.errors import InvalidArgument
    from tank_client.model import parse_servers

    try:
        parse_servers(servers)
    except InvalidArgument as wrong:
        raise OptionError(f"servers={servers!r}: {wrong}") from None
    return servers


def _group(given: Mapping[str, str]) -> str | None:
    found = {given[key].strip() for key in GROUP_KEYS if given.get(key, "").strip()}
    if len(found) > 1:
        raise OptionError(f"kafka.group.id and groupId differ ({', '.join(sorted(found))}): give one of them")
    return next(iter(found), None)


def _subscription(given: Mapping[str, str]) -> Subscription:
    ways = [
        name for name in ("subscribe", "assign", "subscribePattern") if given.get(name.lower(), "").strip()
    ]
    if len(ways) != 1:
        found = "none of them" if not ways else " and ".join(ways)
        raise OptionError(
            "say what to read by exactly one of subscribe='a,b', subscribePattern='regex' and "
            f"assign='{{\"a\": [0, 1]}}'; {found} was given"
            + (
                ". Spark hands the options of a table (CREATE TABLE) to no read: say them there, by "
                "SELECT ... FROM it WITH (servers = '...', subscribe = '...'), or make a temporary view"
                if not given
                else ""
            )
        )
    value = given[ways[0].lower()].strip()
    if ways[0] == "assign":
        return Subscription(assigned=parse_topic_partitions("assign", value))
    if ways[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in value.split(",") if name.strip()))
        if not topics:
            raise OptionError(f"subscribe={value!r} names no topic; write the names with commas between")
        return Subscription(topics=topics)
    try:
        re.compile(value)
    except re.error as error:
        raise OptionError(f"subscribePattern={value!r} is not a regular expression: {error}") from None
    return Subscription(pattern=value)


def _choice(given: Mapping[str, str], name: str, kind: type[_Member], default: _Member) -> _Member:
    value = given.get(name.lower())
    if value is None:
        return default
    for member in kind:
        if str(member.value).lower() == value.strip().lower():
            return member
    choices = ", ".join(str(member.value) for member in kind)
    raise OptionError(f"{name}={value!r} is not one of {choices}")


def _boolean(given: Mapping[str, str], name: str, default: bool) -> bool:
    value = given.get(name.lower())
    if value is None:
        return default
    if value.strip().lower() not in ("true", "false"):
        raise OptionError(f"{name}={value!r} is neither true nor false")
    return value.strip().lower() == "true"


def _optional_count(given: Mapping[str, str], name: str) -> int | None:
    return _count(given, name, 0, least=1, most=2**63 - 1) if name.lower() in given else None


def _count(given: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    value = given.get(name.lower())
    if value is None:
        return default
    try:
        count = int(value.strip())
    except ValueError:
        raise OptionError(f"{name}={value!r} is not a whole number") from None
    if not least <= count <= most:
        raise OptionError(f"{name}={count} is out of range: it goes from {least} to {most}")
    return count


def _duration_ms(given: Mapping[str, str], name: str, default: int) -> int:
    value = given.get(name.lower())
    if value is None:
        return default
    match = _DURATION.match(value.lower())
    if match is None or match[2] not in _DURATION_MS:
        raise OptionError(f"{name}={value!r} is not a duration such as 30s, 15m or 1h")
    return int(match[1]) * _DURATION_MS[match[2]]
