"""How a coordinator keeps a committed offset in memory: as bytes, the value of its record and behind it the
id of its topic.

Each full collection of garbage visits all objects with fields: they were a quarter of the processor time of a
load of a million offsets. A load takes a record's value as it is.
"""

from struct import Struct
from typing import Final

from tank_node.coordinators.machine.committed_offset import NO_TOPIC_ID, CommittedOffset
from tank_node.coordinators.machine.group_memory import text_bytes
from tank_node.coordinators.records.group_records import offset_value, read_offset_value

_write_id: Final = Struct(">Q").pack
_read_all: Final = Struct(">hqihqQ").unpack
ID_BYTES: Final = 8
"""The bytes of the topic's id, at the end."""
NO_ID: Final = _write_id(NO_TOPIC_ID)
_WITHOUT_NOTE: Final = 32
"""The size of an offset without a note, in the version that is written. No other offset has it."""


def kept(offset: CommittedOffset) -> bytes:
    """An offset that was written to a record. Raises WireError for one that no record can hold."""
    return offset_value(offset) + _write_id(offset.topic_id)


def offset_of(kept: bytes) -> CommittedOffset:
    """The offset."""
    if len(kept) == _WITHOUT_NOTE:
        _, number, epoch, _, commit_ms, topic_id = _read_all(kept)
        return CommittedOffset(number, epoch, "", commit_ms, topic_id=topic_id)
    found = read_offset_value(kept[:-ID_BYTES])
    found.topic_id = topic_id_of(kept)
    return found


def topic_id_of(kept: bytes) -> int:
    """The id of the offset's topic."""
    return int.from_bytes(kept[-ID_BYTES:], "big")


def note_bytes_of(kept: bytes) -> int:
    """About how many bytes the client's note takes."""
    return 0 if len(kept) == _WITHOUT_NOTE else text_bytes(offset_of(kept).metadata)
