"""Stored bundles as record batches, for Kafka clients that read a topic of TANK's format."""

from typing import Final, TypeAlias

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.kafka.led import NO_EPOCH
from tank_node.log.epoch_history import epoch_at
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition
from tank_node.segment.batch_format import HEAD_BYTES, InvalidBatch
from tank_protos import bundle
from tank_protos.kafka import record_batch, transcode
from tank_protos.wire import varint
from tank_protos.wire.errors import WireError

_Key: TypeAlias = tuple[int, int, int, int, int, bool]
"""Topic id, partition, first number, leader epoch, stored length, and whether the topic is compacted. The
leader epoch and the first number name one content in all replicas; compaction may shorten it."""
_LARGE_PART: Final = 4
"""A result of more than a fourth of the room is not kept: it would drive out too many others."""


class Unconvertible(Exception):
    """A stored bundle is damaged, or has more messages or bytes than are converted."""


class BundleConverter:
    """Converts bundles, and keeps results for the next consumer of the same bundles: several groups mostly
    read the end of a log, one shortly after the other."""

    __slots__ = ("_kept", "_kept_bytes", "_metrics", "_most_bytes", "made_bytes")

    def __init__(self, most_bytes: int, metrics: Metrics) -> None:
        """most_bytes: the room for results that are kept."""
        self._most_bytes = most_bytes
        self._metrics = metrics
        self._kept: dict[_Key, tuple[bytes, int]] = {}
        """Record batches, and the number behind them. The one that was not used for the longest time comes
        first."""
        self._kept_bytes = 0
        self.made_bytes = 0
        """The bytes of all record batches that were made so far, also of those that no answer had room
        for."""

    @property
    def kept_bytes(self) -> int:
        """The bytes of the results that are kept."""
        return self._kept_bytes

    def convert(
        self, partition: Partition, data: bytes, first: int, most_bytes: int, *, at_least_one: bool
    ) -> tuple[list[bytes], int]:
        """Returns record batches of the bundles in `data`, at most `most_bytes` in all, and the number behind
        their last message; at_least_one: the first bundle is converted even if its batch is larger.

        first: the number of the first bundle's first message. Raises Unconvertible for the first bundle; a
        later one ends the result.
        """
        log = partition.log
        compacted = log.settings.compact
        batch_format = partition.batch_format
        view = memoryview(data)
        made: list[bytes] = []
        at, size, end = 0, 0, len(data)
        while at < end:
            try:
                stop = at + batch_format.batch_bytes(view[at : at + HEAD_BYTES])
                _, start = varint.read(view, at)
                header = bundle.read_header(view[:stop], start)
                # Not the number behind the bundle before: it may be of one that compaction has removed.
                number = header.first if header.sparse else first
                epoch = epoch_at(log.segments.epochs, number) or NO_EPOCH
                key = (log.topic_id, partition.number, number, epoch, stop - at, compacted)
                batches, following = self._converted(key, view[at:stop])
            except (WireError, InvalidBatch) as invalid:
                if made:
                    break
                raise Unconvertible(str(invalid)) from invalid
            size += len(batches)
            if size > most_bytes and not (at_least_one and not made):
                break
            made.append(batches)
            at, first = stop, following
        return made, first

    def _converted(self, key: _Key, batch: memoryview) -> tuple[bytes, int]:
        kept = self._kept
        found = kept.pop(key, None)
        if found is not None:
            kept[key] = found
            self._metrics.converted["kept"] += 1
            return found
        _, _, first, epoch, _, compacted = key
        batches = transcode.stored_to_kafka(batch, first, leader_epoch=epoch, compacted=compacted)
        self._metrics.converted["bundle"] += 1
        self._metrics.converted_bytes["bundle"] += len(batches)
        self.made_bytes += len(batches)
        found = batches, _number_behind(batches)
        size = len(batches)
        if size * _LARGE_PART <= self._most_bytes:
            kept[key] = found
            self._kept_bytes += size
            while self._kept_bytes > self._most_bytes:
                oldest, _ = kept.pop(next(iter(kept)))
                self._kept_bytes -= len(oldest)
        return found


def _number_behind(batches: bytes) -> int:
    """The number behind the last message of these record batches."""
    last_offset = -1
    for batch in record_batch.batches(batches):
        last_offset = record_batch.read_header(batch).last_offset
    return last_offset + 2


def converter_of(broker: Broker) -> BundleConverter:
    """Returns the converter that the broker's sessions share."""
    return shared(broker, BundleConverter, _new_converter)


def _new_converter(broker: Broker) -> BundleConverter:
    return BundleConverter(broker.limits.converted_kept_bytes, broker.metrics)
