"""Checks index records that came over the wire against the batches that came with them, and gives them their
places in another file. For followers: one look at every byte. Pure.
"""

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.kernel import twin
from tank_protos.storage.index_record import CRC_AT, POSITION_AT, RECORD, RECORD_BYTES
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError

_ZEROS = bytes(4)
_MOST_NUMBER = 2**63 - 1
"""Of a log; what is above cannot be counted on from."""
_MOST_POSITION = 2**32 - 1


class BadRecord(WireError):
    """A record that doesn't match its batch, or doesn't follow on the one before it."""

    reason = "bad_record"


@twin("record_run")
def placed(
    records: Buffer,
    batches: Buffer,
    position: int,
    last: int,
    lowest_epoch: int,
    highest_epoch: int,
    batch_format: int,
) -> bytes:
    """The records with the positions that their batches get when they are stored from `position` on.

    Each batch must match its record's checksum, each record's numbers must be above those before it (the
    first one's above `last`), its epoch not below the one before (from `lowest_epoch` to `highest_epoch`),
    its format `batch_format`; the batches must fill `batches`. All positions must be below 4 GiB. Raises
    BadRecord.
    """
    content, stored = memoryview(batches), bytearray(records)
    if len(stored) % RECORD_BYTES or position + len(content) > _MOST_POSITION:
        raise BadRecord(f"{len(stored)} bytes of records for {len(content)} bytes at {position}")
    at = end = 0
    for first, span, _, length, crc, _, _, _, _, epoch, _, format_, _, _ in RECORD.iter_unpack(records):
        start, end = end, end + length
        if first <= last or first + span > _MOST_NUMBER or not length or end > len(content):
            raise BadRecord(f"the batch at {first} of {length} bytes cannot follow number {last}")
        if not lowest_epoch <= epoch <= highest_epoch or format_ != batch_format:
            raise BadRecord(
                f"the batch at {first} has epoch {epoch} behind {lowest_epoch} and format {format_}"
            )
        stored[at + POSITION_AT : at + POSITION_AT + 4] = _ZEROS
        stored[at + CRC_AT : at + CRC_AT + 4] = _ZEROS
        if crc32c(stored[at : at + RECORD_BYTES], crc32c(content[start:end])) != crc:
            raise BadRecord(f"the batch at {first} doesn't match its checksum")
        stored[at + POSITION_AT : at + POSITION_AT + 4] = (position + start).to_bytes(4, "little")
        stored[at + CRC_AT : at + CRC_AT + 4] = crc.to_bytes(4, "little")
        last, lowest_epoch = first + span, epoch
        at += RECORD_BYTES
    if end != len(content):
        raise BadRecord(f"{len(content) - end} bytes of batches have no record")
    return bytes(stored)
