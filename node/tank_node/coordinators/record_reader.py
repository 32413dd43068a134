"""Reads the records of groups, most of which are committed offsets as brokers write them now."""

from struct import Struct
from struct import error as StructError
from typing import Final

from tank_node.coordinators import group_records
from tank_node.coordinators.committed_offset import NO_TOPIC_ID, CommittedOffset
from tank_node.coordinators.group_records import (
    OFFSET_KEY_WRITTEN,
    OFFSET_WRITTEN,
    TOPIC_ID,
    GroupRecord,
    OffsetRecord,
)
from tank_protos.kafka.records import Headers

_read_h: Final = Struct(">h").unpack_from
_read_i: Final = Struct(">i").unpack_from
_read_q: Final = Struct(">q").unpack_from
_read_hqih: Final = Struct(">hqih").unpack_from
_FIXED_OF_VALUE: Final = 24
"""The bytes of a value beside its note."""
_NOTE_AT: Final = 16


class GroupRecordReader:
    """Reads records one after the other. It makes no objects of the messages' classes for offsets in the
    versions that are written, which takes a third of the time, and decodes a name only where it differs from
    the last record's. Anything else `group_records.read` reads."""

    __slots__ = ("_group", "_group_id", "_topic", "_topic_name")

    def __init__(self) -> None:
        self._group = self._topic = b""
        self._group_id = self._topic_name = ""
        """The names of the last record, and how they were written."""

    def read(
        self, key: bytes | None, value: bytes | None, headers: Headers = ()
    ) -> OffsetRecord | GroupRecord | None:
        """What a record says; None for one that can't be read, as `group_records.read`."""
        if key is None:
            return None
        found = self._offset(key, value)
        if found is None:
            return _known(group_records.read(key, value), headers)
        return _known(found, headers)

    def _offset(self, key: bytes, value: bytes | None) -> OffsetRecord | None:
        """A record of an offset in the versions that are written; None: it is none, or is damaged."""
        try:
            (version,) = _read_h(key, 0)
            if version != OFFSET_KEY_WRITTEN:
                return None
            (length,) = _read_h(key, 2)
            group_end = 4 + length
            (length_,) = _read_h(key, group_end)
            topic_end = group_end + 2 + length_
            if length < 0 or length_ < 0 or len(key) != topic_end + 4:
                return None
            (partition,) = _read_i(key, topic_end)
            offset = None
            if value is not None:
                version_, number, epoch, note_length = _read_hqih(value, 0)
                if version_ != OFFSET_WRITTEN or len(value) != _FIXED_OF_VALUE + note_length:
                    return None
                end = _NOTE_AT + note_length
                note = ""
                if note_length:
                    note = value[_NOTE_AT:end].decode("utf-8", "surrogateescape")
                (commit_ms,) = _read_q(value, end)
                offset = CommittedOffset(number, epoch, note, commit_ms)
        except StructError:
            return None
        group, topic = key[4:group_end], key[group_end + 2 : topic_end]
        if group != self._group:
            self._group, self._group_id = group, group.decode("utf-8", "surrogateescape")
        if topic != self._topic:
            self._topic, self._topic_name = topic, topic.decode("utf-8", "surrogateescape")
        return OffsetRecord(self._group_id, self._topic_name, partition, offset)


def _known(found: OffsetRecord | GroupRecord | None, headers: Headers) -> OffsetRecord | GroupRecord | None:
    """The record with the topic's id that stands beside it."""
    if isinstance(found, OffsetRecord) and found.offset is not None:
        found.offset.topic_id = topic_id_in(headers)
    return found


def topic_id_in(headers: Headers) -> int:
    """Returns the topic's id in a record's headers."""
    for name, value in headers:
        if name == TOPIC_ID and value is not None and len(value) == 8:
            return int.from_bytes(value, "big")
    return NO_TOPIC_ID
