"""Reads the records of groups, most of which are committed offsets as brokers write them now."""

import sys
from struct import Struct
from struct import error as StructError
from typing import Final, TypeAlias

from tank_node.coordinators.records import group_records
from tank_node.coordinators.records.consumer_records import ConsumerRecord
from tank_node.coordinators.records.group_records import (
    OFFSET_KEY_WRITTEN,
    OFFSET_WRITTEN,
    TOPIC_ID,
    GroupRecord,
    OffsetRecord,
)
from tank_node.coordinators.records.iggy_records import IggyRecord
from tank_node.coordinators.records.kept_offset import ID_BYTES, NO_ID
from tank_node.coordinators.records.kept_offset import kept as kept_of
from tank_protos.kafka.records import Headers

_read_h: Final = Struct(">h").unpack_from
_read_hh: Final = Struct(">hh").unpack_from
_read_i: Final = Struct(">i").unpack_from
_FIXED_OF_VALUE: Final = 24
"""The bytes of a value beside its note."""
_NOTE_SIZE_AT: Final = 14
_GROUP_AT: Final = 4
"""Where a group's name begins in a key."""
_NUMBER_BYTES: Final = 4
"""The bytes of a partition's number."""


class ReadOffset:
    """What a record says about one committed offset."""

    __slots__ = ("group_id", "kept", "partition", "topic")

    def __init__(self) -> None:
        self.group_id = ""
        self.topic = ""
        """The interned name."""
        self.partition = 0
        self.kept: bytes | None = None
        """See `kept_offset`; None: it is deleted."""


ReadRecord: TypeAlias = ReadOffset | GroupRecord | ConsumerRecord | IggyRecord


class GroupRecordReader:
    """Reads records one after the other. It makes no objects of the messages' classes for offsets in the
    versions that are written, which takes a third of the time, and decodes the names only where they differ
    from the last record's. Anything else `group_records.read` reads."""

    __slots__ = ("_found", "_headers", "_id", "_prefix")

    def __init__(self) -> None:
        self._prefix = b""
        """The last key, up to the number of the partition."""
        self._found = ReadOffset()
        """The last record of an offset, with the names in that key."""
        self._headers: Headers = ()
        self._id = NO_ID
        """The headers of the last record that had some, and the topic's id in them."""

    def read(self, key: bytes | None, value: bytes | None, headers: Headers = ()) -> ReadRecord | None:
        """What a record says; None for one that can't be read, as `group_records.read`. What it says about an
        offset is the caller's until the next call."""
        if key is None:
            return None
        try:
            if (self._prefix and key.startswith(self._prefix)) or self._read_names(key):
                found, names_end = self._found, len(self._prefix)
                if len(key) == names_end + _NUMBER_BYTES and (value is None or _is_written(value)):
                    (found.partition,) = _read_i(key, names_end)
                    found.kept = None if value is None else value + self._id_in(headers)
                    return found
        except StructError:
            pass
        return self._any(key, value, headers)

    def _any(self, key: bytes, value: bytes | None, headers: Headers) -> ReadRecord | None:
        """What a record says, in whatever version."""
        said = group_records.read(key, value)
        if not isinstance(said, OffsetRecord):
            return said
        found = self._found = ReadOffset()
        self._prefix = b""
        found.group_id, found.topic, found.partition = said.group_id, sys.intern(said.topic), said.partition
        if said.offset is not None:
            found.kept = kept_of(said.offset)[:-ID_BYTES] + self._id_in(headers)
        return found

    def _id_in(self, headers: Headers) -> bytes:
        """The topic's id in a record's headers."""
        if not headers:
            return NO_ID
        if headers is not self._headers:
            self._headers, self._id = headers, NO_ID
            for name, value in headers:
                if name == TOPIC_ID and value is not None and len(value) == ID_BYTES:
                    self._id = value
                    break
        return self._id

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


def _is_written(value: bytes) -> bool:
    """Whether this is an offset in the version that is written. Raises StructError for what is too short."""
    note_bytes: int = _read_h(value, _NOTE_SIZE_AT)[0]
    if note_bytes < 0 or len(value) != _FIXED_OF_VALUE + note_bytes:
        return False
    version: int = _read_h(value, 0)[0]
    return version == OFFSET_WRITTEN
