"""The bytes of the journal's two kinds of files: journal files and snapshot files. Pure.

A journal file: a header (magic, checksum, a random nonce, the first index, the cluster's id), then frames. A
frame is what one fsync made durable: magic, checksum, length of the payload, count of entries, index of the
first, then each entry with a u32 length before it. A frame of no entries says that the process stopped in
good order. The next frame is written only when the fsync of the one before has returned. So a bad frame at
the end was not acknowledged, and is cut; a bad frame with a good frame behind it is damage, and is not cut.
The checksum covers the nonce and the frame's position, so that bytes of an older file, or a frame inside of
an entry, are never taken for one.

A snapshot file: magic, checksum, index, the cluster's id, the state. Little-endian; checksums are CRC-32C.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from fastcrc import crc32

_JOURNAL_MAGIC = b"TANKJNL1"
_SNAPSHOT_MAGIC = b"TANKSNP1"
_FRAME_MAGIC = b"\xf7TKf"
_FRAME = struct.Struct("<4sIIIQ")
_FRAME_CHECKED = struct.Struct("<IIQ")
_JOURNAL_HEADER = struct.Struct("<8sI8sQH")
_SNAPSHOT_HEADER = struct.Struct("<8sIQH")
_LENGTH = struct.Struct("<I")
NONCE_BYTES = 8

PUT_BACK = "put the whole data folder back from a backup"
"""For users: not the metadata alone, because it must not be older than the logs of the brokers."""


class JournalError(Exception):
    """The metadata on disk can't be used; the message says why and what to do."""


class JournalDamagedError(JournalError):
    """Bytes on the disk have changed since they were written."""


@dataclass(slots=True, frozen=True)
class JournalHeader:
    """The header of a journal file."""

    cluster_id: str
    nonce: bytes
    first: int
    """The index of the first entry in this file."""
    length: int
    """The size of the header in bytes."""


@dataclass(slots=True, frozen=True)
class Frame:
    """The entries that one fsync made durable."""

    first: int
    entries: list[bytes]
    end: int
    """The position behind the frame."""


@dataclass(slots=True)
class Scan:
    """The frames of a journal file."""

    frames: list[Frame]
    good_end: int
    """The position behind the last good frame; bytes behind it are a torn write."""
    stopped_in_order: bool
    """Whether the last frame says that the process stopped in good order."""


def journal_header(cluster_id: str, nonce: bytes, first: int) -> bytes:
    """The bytes that a journal file begins with."""
    assert len(nonce) == NONCE_BYTES
    name = cluster_id.encode()
    rest = _JOURNAL_HEADER.pack(_JOURNAL_MAGIC, 0, nonce, first, len(name))[12:] + name
    return _JOURNAL_MAGIC + _LENGTH.pack(crc32.iscsi(rest)) + rest


def read_journal_header(data: bytes) -> JournalHeader:
    """Reads a journal file's header. Raises JournalDamagedError."""
    if len(data) >= _JOURNAL_HEADER.size:
        magic, crc, nonce, first, name_length = _JOURNAL_HEADER.unpack_from(data)
        end = _JOURNAL_HEADER.size + name_length
        if magic == _JOURNAL_MAGIC and end <= len(data) and crc == crc32.iscsi(data[12:end]):
            return JournalHeader(data[_JOURNAL_HEADER.size : end].decode(), nonce, first, end)
    raise JournalDamagedError("its header is not that of a journal")


def frame(entries: Sequence[bytes], first: int, nonce: bytes, position: int) -> bytes:
    """The frame of these entries, for this position in the file."""
    payload = b"".join(part for entry in entries for part in (_LENGTH.pack(len(entry)), entry))
    checked = _FRAME_CHECKED.pack(len(payload), len(entries), first)
    return _FRAME_MAGIC + _LENGTH.pack(_frame_crc(nonce, position, checked, payload)) + checked + payload


def scan(data: bytes, header: JournalHeader) -> Scan:
    """Reads all frames of a file. Raises JournalDamagedError for a bad frame with a good one behind it."""
    found = Scan([], header.length, False)
    while found.good_end < len(data):
        read = _read_frame(data, found.good_end, header.nonce)
        if read is None:
            if _good_frame_behind(data, found.good_end, header.nonce):
                raise JournalDamagedError(
                    f"its bytes from position {found.good_end} on have changed since they were written"
                )
            break
        found.frames.append(read)
        found.good_end = read.end
        found.stopped_in_order = not read.entries
    return found


def may_be_torn(data: bytes, position: int, nonce: bytes) -> bool:
    """Whether the bytes behind the last good frame may be the beginning of a frame that a killed process
    wrote.

    For a machine that has run on since: written bytes are read back unchanged, so a torn frame is exactly the
    beginning of a frame. A bad frame of full length was changed on the disk.
    """
    start = position + _FRAME.size
    if start > len(data):
        return _FRAME_MAGIC.startswith(data[position : position + len(_FRAME_MAGIC)])
    magic, crc, length, count, first = _FRAME.unpack_from(data, position)
    if magic != _FRAME_MAGIC or start + length <= len(data):
        return False
    # Or the frame's length field was changed: then the frame is whole if its length is that of the bytes.
    payload = data[start:]
    return bool(crc != _frame_crc(nonce, position, _FRAME_CHECKED.pack(len(payload), count, first), payload))


def _read_frame(data: bytes, position: int, nonce: bytes) -> Frame | None:
    start = position + _FRAME.size
    if start > len(data):
        return None
    magic, crc, length, count, first = _FRAME.unpack_from(data, position)
    end = start + length
    if magic != _FRAME_MAGIC or end > len(data):
        return None
    payload = data[start:end]
    if crc != _frame_crc(nonce, position, data[position + 8 : start], payload):
        return None
    entries = []
    at = 0
    for _ in range(count):
        (size,) = _LENGTH.unpack_from(payload, at)
        entries.append(payload[at + 4 : at + 4 + size])
        at += 4 + size
    return Frame(first, entries, end)


def _good_frame_behind(data: bytes, position: int, nonce: bytes) -> bool:
    candidate = data.find(_FRAME_MAGIC, position + 1)
    while candidate >= 0:
        if _read_frame(data, candidate, nonce) is not None:
            return True
        candidate = data.find(_FRAME_MAGIC, candidate + 1)
    return False


def _frame_crc(nonce: bytes, position: int, checked: bytes, payload: bytes) -> int:
    return crc32.iscsi(payload, crc32.iscsi(nonce + position.to_bytes(8, "little") + checked))


def snapshot_file(cluster_id: str, index: int, state: bytes) -> bytes:
    """The bytes of a snapshot file."""
    name = cluster_id.encode()
    rest = _SNAPSHOT_HEADER.pack(_SNAPSHOT_MAGIC, 0, index, len(name))[12:] + name + state
    return _SNAPSHOT_MAGIC + _LENGTH.pack(crc32.iscsi(rest)) + rest


def read_snapshot_file(data: bytes) -> tuple[str, int, bytes]:
    """Reads a snapshot file: (cluster id, index, state). Raises JournalDamagedError."""
    if len(data) >= _SNAPSHOT_HEADER.size:
        magic, crc, index, name_length = _SNAPSHOT_HEADER.unpack_from(data)
        end = _SNAPSHOT_HEADER.size + name_length
        if magic == _SNAPSHOT_MAGIC and end <= len(data) and crc == crc32.iscsi(data[12:]):
            return data[_SNAPSHOT_HEADER.size : end].decode(), index, data[end:]
    raise JournalDamagedError("its content is not a complete snapshot")
