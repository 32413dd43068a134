"""The beginning and the end of a read, from its options. Pure.

An offset here is a sequence number: the next message to be read. So `startingOffsets` names the first message
that is read and `endingOffsets` the first that isn't, as in Spark's Kafka source.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from pyspark_tank.errors import OptionError

EARLIEST = -2  # in offset JSON: the first message that the partition still has
LATEST = -1  # in offset JSON: behind its last message

MAX_PARTITION = 65_535  # the wire has 16 bits for it
MAX_OFFSET = 2**63 - 1  # Spark's column is a signed 64-bit number

Offsets = dict[str, dict[int, int]]

TOPIC_ID = "topicId"
"""The key, beside a topic's partitions in an offset's JSON, of the id of the topic that was read. Older
offsets, and those of brokers without topic ids, lack it.
"""


class End(Enum):
    """One of the two ends of every partition."""

    EARLIEST = "earliest"
    LATEST = "latest"


class WhenNothingIsLater(Enum):
    """What to do where no message is as late as the starting time: fail, or begin at the end."""

    ERROR = "error"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """At these offsets, by topic and partition; EARLIEST and LATEST stand among them. `whole`: one of the two
    for all partitions of a topic that `offsets` doesn't have.
    """

    offsets: Mapping[str, Mapping[int, int]]
    whole: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AtTimes:
    """At the first message whose time is not before these, in milliseconds, by topic and partition."""

    times_ms: Mapping[str, Mapping[int, int]]


@dataclass(frozen=True, slots=True)
class AtTimestamp:
    """At the first message whose time is not before this one, in every partition."""

    time_ms: int


_ENDS = {End.EARLIEST.value: EARLIEST, End.LATEST.value: LATEST}

StartingPosition = End | AtOffsets | AtTimes | AtTimestamp
EndingPosition = End | AtOffsets | AtTimes | AtTimestamp


def parse_starting(given: Mapping[str, str], *, streaming: bool) -> StartingPosition:
    """Where to begin, from lower-cased options: a stream at the end, a batch at the beginning.

    As in the Kafka source, startingTimestamp wins over startingOffsetsByTimestamp, and that over
    startingOffsets. Raises OptionError.
    """
    by_time = _by_time(given, "starting")
    if by_time is not None:
        return by_time
    value = given.get("startingoffsets")
    if value is None:
        return End.LATEST if streaming else End.EARLIEST
    position = _ends_or_offsets("startingOffsets", value)
    if not streaming and (position is End.LATEST or _holds(position, LATEST)):
        raise OptionError(
            "startingOffsets can't be latest (-1) in spark.read: there would be nothing to read"
        )
    return position


def parse_ending(given: Mapping[str, str]) -> EndingPosition:
    """Returns where a batch ends, from lower-cased options; by default at the end. Raises OptionError."""
    by_time = _by_time(given, "ending")
    if by_time is not None:
        return by_time
    value = given.get("endingoffsets")
    if value is None:
        return End.LATEST
    position = _ends_or_offsets("endingOffsets", value)
    if position is End.EARLIEST or _holds(position, EARLIEST):
        raise OptionError("endingOffsets can't be earliest (-2): there would be nothing to read")
    return position


def parse_topic_partitions(name: str, value: str) -> dict[str, tuple[int, ...]]:
    """`{"topic": [0, 1]}` as the option `assign` has it. Raises OptionError."""
    example = f'{name}={value!r} is not JSON such as {{"topic": [0, 1]}}'
    document = _json_object(value, example)
    assigned: dict[str, tuple[int, ...]] = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, list) or not partitions:
            raise OptionError(example)
        assigned[topic] = tuple(sorted({_partition(name, number) for number in partitions}))
    if not assigned:
        raise OptionError(example)
    return assigned


def offsets_from_json(offsets: object) -> Offsets:
    """Reads a checkpoint's `{"topic": {"0": 17, "topicId": 5}}` into offsets by partition number, without
    ids. Raises OptionError for other text.
    """
    example = f'an offset is JSON such as {{"topic": {{"0": 17}}}}; this is not: {offsets!r}'
    if not isinstance(offsets, dict):
        raise OptionError(example)
    return _numbers("offset", offsets, example, least=EARLIEST)


def topic_ids_from_json(offsets: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """The topics' ids in an offset that `offsets_from_json` takes, as far as it has them."""
    return {topic: numbers[TOPIC_ID] for topic, numbers in offsets.items() if TOPIC_ID in numbers}


def offsets_to_json(
    offsets: Mapping[str, Mapping[int, int]], topic_ids: Mapping[str, int] | None = None
) -> dict[str, dict[str, int]]:
    """Returns the offsets as they go into Spark's checkpoint, always in the same order, because Spark
    compares the text.
    """
    document = {
        topic: {str(partition): offsets[topic][partition] for partition in sorted(offsets[topic])}
        for topic in sorted(offsets)
    }
    for topic, numbers in document.items():
        if topic_ids and topic_ids.get(topic):
            numbers[TOPIC_ID] = topic_ids[topic]
    return document


def made_anew(before: Mapping[str, int], now: Mapping[str, int]) -> set[str]:
    """The topics that were deleted and created again since. Ids rise, and 0 means no id: a lower id comes
    from a broker that doesn't know the newer topic yet.
    """
    return {topic for topic, topic_id in before.items() if 0 < topic_id < now.get(topic, 0)}


def _by_time(given: Mapping[str, str], which: str) -> AtTimestamp | AtTimes | None:
    everywhere = given.get(f"{which}timestamp")
    if everywhere is not None:
        if not everywhere.strip().isdigit() or int(everywhere) > MAX_OFFSET:
            raise OptionError(f"{which}Timestamp={everywhere!r} is not a time in milliseconds since 1970")
        return AtTimestamp(int(everywhere))
    name = f"{which}OffsetsByTimestamp"
    value = given.get(name.lower())
    if value is None:
        return None
    example = f'{name}={value!r} is not JSON such as {{"topic": {{"0": 1700000000000}}}}'
    return AtTimes(_numbers(name, _json_object(value, example), example, least=0))


def _ends_or_offsets(name: str, value: str) -> End | AtOffsets:
    word = value.strip().lower()
    for end in End:
        if word == end.value:
            return end
    example = (
        f'{name}={value!r} is neither earliest, latest nor JSON such as {{"topic": {{"0": 17, "1": -2}}}} '
        'or {"topic": "earliest"}'
    )
    document = _json_object(value, example)
    words = {topic: word.strip().lower() for topic, word in document.items() if isinstance(word, str)}
    if not set(words.values()) <= set(_ENDS):
        raise OptionError(example)
    offsets = {topic: numbers for topic, numbers in document.items() if topic not in words}
    return AtOffsets(
        _numbers(name, offsets, example, least=EARLIEST),
        {topic: _ENDS[word] for topic, word in words.items()},
    )


def _holds(position: End | AtOffsets, offset: int) -> bool:
    if isinstance(position, End):
        return False
    return offset in position.whole.values() or any(
        offset in partitions.values() for partitions in position.offsets.values()
    )


def _json_object(value: str, example: str) -> dict[str, object]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError):
        raise OptionError(example) from None
    if not isinstance(document, dict):
        raise OptionError(example)
    return document


def _numbers(name: str, document: Mapping[str, object], example: str, *, least: int) -> Offsets:
    numbers: Offsets = {}
    for topic, partitions in document.items():
        if not isinstance(partitions, dict) or not set(partitions) - {TOPIC_ID}:
            raise OptionError(example)
        of_topic = numbers.setdefault(str(topic), {})
        for partition, number in partitions.items():
            if type(number) is not int or not least <= number <= MAX_OFFSET:
                raise OptionError(example)
            if partition != TOPIC_ID:
                of_topic[_partition(name, partition)] = number
    return numbers


def _partition(name: str, value: object) -> int:
    if type(value) is str and value.isdigit():
        value = int(value)
    if type(value) is not int or not 0 <= value <= MAX_PARTITION:
        raise OptionError(f"{name}: {value!r} is not a partition's number (0 to {MAX_PARTITION})")
    return value
