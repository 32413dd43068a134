"""The driver's requests to the brokers: partitions, their ends, and the places of times."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pyspark_tank.errors import DataLossError, OptionError
from pyspark_tank.offsets import FIRST_OFFSET
from pyspark_tank.options import SourceOptions, Subscription
from pyspark_tank.positions import (
    EARLIEST,
    LATEST,
    AtOffsets,
    AtTimes,
    AtTimestamp,
    End,
    EndingPosition,
    Offsets,
    StartingPosition,
    WhenNothingIsLater,
)

if TYPE_CHECKING:
    from tank_client.model import Ends, FetchedChunk, TopicDescription
    from tank_client.sync import Client

logger = logging.getLogger("pyspark_tank")

TopicPartition = tuple[str, int]

# The bytes fetched at once from the batch that contains a time, to find the exact message.
TIME_SEARCH_BYTES = 1024 * 1024


def data_loss(fail: bool, what: str) -> None:
    """Raises DataLossError, or only warns under failOnDataLoss=false."""
    if fail:
        raise DataLossError(
            f"{what}. The query stops here so that the loss is noticed; to go on without those messages, "
            "start it again with .option('failOnDataLoss', 'false')"
        )
    logger.warning("%s; going on without those messages (failOnDataLoss=false)", what)


class Subscribed(NamedTuple):
    """The partitions of a subscription at one time, by topic, and the topics' ids (0: none)."""

    partitions: dict[str, tuple[int, ...]]
    topic_ids: dict[str, int]


def subscribed_partitions(
    client: Client, subscription: Subscription, *, skip_missing: bool = False
) -> Subscribed:
    """Returns the partitions of a subscription now. Raises OptionError or the client's UnknownTopic; with
    `skip_missing`, topics that don't exist (any more) are left out instead.
    """
    if subscription.pattern:
        wanted = re.compile(subscription.pattern)
        topics = [topic for topic in client.admin.describe_topics() if wanted.fullmatch(topic.name)]
    else:
        topics = _named_topics(client, list(subscription.assigned or subscription.topics), skip_missing)
    partitions = {
        topic.name: tuple(sorted(part.partition for part in topic.partitions))
        for topic in sorted(topics, key=lambda topic: topic.name)
    }
    for topic, assigned in subscription.assigned.items():
        there = partitions.get(topic)
        if there is None:
            continue
        missing = set(assigned) - set(there)
        if missing and not skip_missing:
            raise OptionError(
                f"assign names partition {min(missing)} of topic {topic!r}, which has {len(there)}: "
                "they are numbered from 0"
            )
        partitions[topic] = tuple(number for number in assigned if number not in missing)
    return Subscribed(partitions, {topic.name: topic.topic_id for topic in topics})


def _named_topics(client: Client, names: list[str], skip_missing: bool) -> list[TopicDescription]:
    from tank_client.errors import UnknownTopic

    while names:
        try:
            return client.admin.describe_topics(names)
        except UnknownTopic as unknown:
            if not skip_missing:
                raise
            names = [name for name in names if name != unknown.topic]
    return []


def ends_of(
    client: Client,
    partitions: Mapping[str, Iterable[int]],
    known: Mapping[str, Mapping[int, int]] | None = None,
    max_wait_ms: int = 0,
) -> dict[TopicPartition, Ends]:
    """Returns each partition's ends. With `known` offsets, waits at the brokers until one of them has
    more.
    """
    asked: dict[TopicPartition, int | None] = {}
    for topic, numbers in partitions.items():
        for partition in numbers:
            offset = None if known is None else known.get(topic, {}).get(partition, FIRST_OFFSET)
            asked[topic, partition] = None if offset is None else offset - 1
    if not asked:
        return {}
    return dict(client.admin.await_ends(asked, max_wait_ms))


def latest(ends: Mapping[TopicPartition, Ends]) -> Offsets:
    """Returns the offset behind the last message of every partition."""
    offsets: Offsets = {}
    for (topic, partition), reached in sorted(ends.items()):
        offsets.setdefault(topic, {})[partition] = reached.high_water_mark + 1
    return offsets


def earliest(ends: Mapping[TopicPartition, Ends]) -> Offsets:
    """Returns the offset of each partition's first message."""
    offsets: Offsets = {}
    for (topic, partition), reached in sorted(ends.items()):
        offsets.setdefault(topic, {})[partition] = max(FIRST_OFFSET, reached.first_available)
    return offsets


def resolve(
    client: Client,
    position: StartingPosition | EndingPosition,
    partitions: Mapping[str, tuple[int, ...]],
    options: SourceOptions,
    *,
    starting: bool,
) -> Offsets:
    """Returns one offset for every partition of a position. Raises OptionError when there is none."""
    name = "startingOffsets" if starting else "endingOffsets"
    ends = ends_of(client, partitions)
    first, behind = earliest(ends), latest(ends)
    if position is End.EARLIEST:
        return first
    if position is End.LATEST:
        return behind
    if isinstance(position, AtOffsets):
        whole = {
            topic: dict.fromkeys(partitions.get(topic, (0,)), end) for topic, end in position.whole.items()
        }
        given = _for_all(name, {**position.offsets, **whole}, partitions)
        stands_for = {EARLIEST: first, LATEST: behind}
        return {
            topic: {
                partition: stands_for[offset][topic][partition] if offset in stands_for else offset
                for partition, offset in offsets.items()
            }
            for topic, offsets in given.items()
        }
    if isinstance(position, AtTimestamp):
        times: Offsets = {
            topic: dict.fromkeys(numbers, position.time_ms) for topic, numbers in partitions.items()
        }
    else:
        assert isinstance(position, AtTimes)
        times = _for_all(f"{name}ByTimestamp", position.times_ms, partitions)
    fail = starting and options.when_nothing_is_later is WhenNothingIsLater.ERROR
    return {
        topic: _first_at(client, topic, of_topic, behind[topic], fail) for topic, of_topic in times.items()
    }


def check_order(start: Offsets, end: Offsets, options: SourceOptions) -> None:
    """Raises OptionError or DataLossError for a batch that would end before it begins."""
    for topic, numbers in start.items():
        for number, offset in numbers.items():
            until = end[topic][number]
            if until >= offset:
                continue
            if options.starting is End.EARLIEST:
                data_loss(
                    options.fail_on_data_loss,
                    f"{topic}/{number}: the messages before {until} are to be read, and the first that the "
                    f"broker still has is {offset}",
                )
                continue
            raise OptionError(
                f"{topic}/{number}: the read would begin at offset {offset}, behind its end, which is "
                f"{until}: look at the starting and ending options, and whether the topic was made anew"
            )


def _for_all(
    name: str, given: Mapping[str, Mapping[int, int]], partitions: Mapping[str, tuple[int, ...]]
) -> Offsets:
    """`given`, which has to name exactly the partitions that are read, as in the Kafka source."""
    wanted = {(topic, number) for topic, numbers in partitions.items() for number in numbers}
    named = {(topic, number) for topic, numbers in given.items() for number in numbers}
    if wanted != named:
        missing = ", ".join(f"{topic}/{number}" for topic, number in sorted(wanted - named))
        extra = ", ".join(f"{topic}/{number}" for topic, number in sorted(named - wanted))
        raise OptionError(
            f"{name} has to name every partition that is read, and no other"
            + (
                f"; it lacks {missing} (-2 stands for the earliest offset, -1 for the latest)"
                if missing
                else ""
            )
            + (f"; it has {extra}, which is not read" if extra else "")
        )
    return {topic: dict(numbers) for topic, numbers in given.items()}


def _first_at(
    client: Client, topic: str, times: Mapping[int, int], behind: Mapping[int, int], fail: bool
) -> dict[int, int]:
    """The offset of the first message at or after a time, by partition; the end where there is none."""
    offsets = {}
    for partition, found in client.admin.find_by_time(topic, times).items():
        offset = behind[partition]
        if found.number < offset:
            offset = _search(client, topic, partition, found.number, offset, times[partition])
        if offset == behind[partition] and fail:
            raise OptionError(
                f"{topic}/{partition} has no message at or after {times[partition]} ms; to begin at its end "
                "in that case add .option('startingOffsetsByTimestampStrategy', 'latest')"
            )
        offsets[partition] = offset
    return offsets


def _search(client: Client, topic: str, partition: int, offset: int, behind: int, time_ms: int) -> int:
    """Finds the exact message: the broker indexes times by batch, so the batch's messages are read. Stored
    record batches are asked for, as by the readers: as a bundle, a record without a time would have that of
    its append."""
    while offset < behind:
        fetched = client.fetch(topic, partition, offset, TIME_SEARCH_BYTES, 0, takes_records=True)
        if fetched.holds_records:
            found, reached = _search_records(fetched, offset, behind, time_ms)
        else:
            found, reached = _search_bundles(fetched, offset, behind, time_ms)
        if found is not None:
            return found
        if reached <= offset:
            return behind
        offset = reached
    return behind


def _search_records(fetched: FetchedChunk, offset: int, behind: int, time_ms: int) -> tuple[int | None, int]:
    """The offset of the first record at or after the time in these batches, and the offset behind them all:
    numbers at the end of a batch may have no record."""
    from tank_protos.kafka import stored_chunk

    upper = behind - 1
    for columns in stored_chunk.iterate(fetched.chunk, offset, upper):
        for number, stamp in zip(columns.numbers, columns.timestamps, strict=True):
            if stamp >= time_ms:
                return number, offset
    return None, stored_chunk.reach(fetched.chunk, offset, upper).last + 1


def _search_bundles(fetched: FetchedChunk, offset: int, behind: int, time_ms: int) -> tuple[int | None, int]:
    """Does the same in bundles."""
    import numpy as np

    from tank_protos.bundle.arrow import Chunk, decode_arrow

    reached = offset
    for batch in decode_arrow([Chunk(fetched.base, fetched.chunk, offset, behind - 1)]):
        at_or_after = np.flatnonzero(batch.column("timestamp").to_numpy() >= time_ms)
        if len(at_or_after):
            return int(batch.column("offset")[int(at_or_after[0])].as_py()), offset
        reached = int(batch.column("offset")[batch.num_rows - 1].as_py()) + 1
    return None, reached
