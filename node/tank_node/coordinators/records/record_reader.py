"""Reads the records of groups, most of which are committed offsets as brokers write them now."""

import sys
from struct import Struct
from struct import error as StructError
from typing import Final

from tank_node.coordinators.machine.committed_offset import NO_TOPIC_ID, CommittedOffset
from tank_node.coordinators.records import group_records
from tank_node.coordinators.records.group_records import (
    OFFSET_KEY_WRITTEN,
    OFFSET_WRITTEN,
    TOPIC_ID,
    GroupsRecord,
    OffsetRecord,
)
from tank_protos.kafka.records import Headers

_read_h: Final = Struct(">h").unpack_from
_read_hh: Final = Struct(">hh").unpack_from
_read_i: Final = Struct(">i").unpack_from
_read_q: Final = Struct(">q").unpack_from
_read_hqih: Final = Struct(">hqih").unpack_from
_read_hqihq: Final = Struct(">hqihq").unpack_from
_FIXED_OF_VALUE: Final = 24
"""The bytes of a value beside its note."""
_NOTE_AT: Final = 16
_ID_BYTES: Final = 8
_GROUP_AT: Final = 4
"""Where a group's name begins in a key."""
_NUMBER_BYTES: Final = 4
"""The bytes of a partition's number."""


class GroupRecordReader:
    """Reads records one after the other. It makes no objects of the messages' classes for offsets in the
    versions that are written, which takes a third of the time, and decodes the names only where they differ
    from the last record's. Anything else `group_records.read` reads."""

    __slots__ = ("_commit_ms", "_found", "_id", "_prefix", "_topic_id")

    def __init__(self) -> None:
        self._prefix = b""
        """The last key, up to the number of the partition."""
        self._found = OffsetRecord("", "", 0, None)
        """The last record of an offset, with the names in that key."""
        self._id = b""
        self._topic_id = NO_TOPIC_ID
        """The last record's topic, as it was written, and its number. Records of one topic share the object,
        as they do the time."""
        self._commit_ms = 0

    def read(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> GroupsRecord | None:
        """What a record says; None for one that can't be read, as `group_records.read`. The record of an
        offset is the caller's until the next call, and the name of its topic is interned."""
        if key is None:
            return None
        found = self._offset(key, value)
        if found is None:
            found_any = group_records.read(key, value)
            if not isinstance(found_any, OffsetRecord):
                return found_any
            found = found_any
            found.topic = sys.intern(found.topic)
        if found.offset is not None:
            found.offset.topic_id = self._id_in(headers)
        return found

    def _id_in(self, headers: Headers) -> int:
        """The topic's id in a record's headers."""
        for name, value in headers:
            if name == TOPIC_ID and value is not None and len(value) == _ID_BYTES:
                if value != self._id:
                    self._id, self._topic_id = value, int.from_bytes(value, "big")
                return self._topic_id
        return NO_TOPIC_ID

    def _offset(self, key: bytes, value: bytes | None) -> OffsetRecord | None:
        """A record of an offset in the versions that are written; None: it is none, or is damaged."""
        try:
            if not (self._prefix and key.startswith(self._prefix)) and not self._read_names(key):
                return None
            names_end = len(self._prefix)
            if len(key) != names_end + _NUMBER_BYTES:
                return None
            offset = None
            if value is not None:
                offset = self._value(value)
                if offset is None:
                    return None
            found = self._found
            (found.partition,) = _read_i(key, names_end)
            found.offset = offset
        except StructError:
            return None
        return found

    def _read_names(self, key: bytes) -> bool:
        """Reads the names in a key that begins otherwise than the last one; returns whether there are
        some."""
        version, group_bytes = _read_hh(key, 0)
        group_end = _GROUP_AT + group_bytes
        if version != OFFSET_KEY_WRITTEN or group_bytes < 0:
            return False
        (topic_bytes,) = _read_h(key, group_end)
        topic_at = group_end + 2
        topic_end = topic_at + topic_bytes
        if topic_bytes < 0 or topic_end > len(key):
            return False
        self._prefix = key[:topic_end]
        self._found.group_id = key[_GROUP_AT:group_end].decode("utf-8", "surrogateescape")
        self._found.topic = sys.intern(key[topic_at:topic_end].decode("utf-8", "surrogateescape"))
        return True

    def _value(self, value: bytes) -> CommittedOffset | None:
        """An offset in the version that is written; None: it is none, or is damaged."""
        if len(value) == _FIXED_OF_VALUE:  # without a note
            version, number, epoch, note_bytes, commit_ms = _read_hqihq(value, 0)
            if version != OFFSET_WRITTEN or note_bytes:
                return None
            note = ""
        else:
            version, number, epoch, note_bytes = _read_hqih(value, 0)
            if version != OFFSET_WRITTEN or note_bytes < 0 or len(value) != _FIXED_OF_VALUE + note_bytes:
                return None
            end = _NOTE_AT + note_bytes
            note = value[_NOTE_AT:end].decode("utf-8", "surrogateescape")
            (commit_ms,) = _read_q(value, end)
        if commit_ms != self._commit_ms:
            self._commit_ms = commit_ms
        return CommittedOffset(number, epoch, note, self._commit_ms)
