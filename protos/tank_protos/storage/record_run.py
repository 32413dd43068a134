"""Checks pushed index records against their batches, and sets their positions in the follower's file. Reads
every byte once. Pure.
"""

from fastcrc.crc32 import iscsi as crc32c

from tank_protos.kernel import twin
from tank_protos.storage.index_record import CRC_AT, POSITION_AT, RECORD, RECORD_BYTES
from tank_protos.wire.buffer import Buffer
from tank_protos.wire.errors import WireError

_ZEROS = bytes(4)
_MOST_NUMBER = 2**63 - 1
"""The greatest number that a log can have."""
_MOST_POSITION = 2**32 - 1


class BadRecord(WireError):
    """A record that doesn't match its batch, or can't follow the record before it."""

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
    """Returns the records with the positions of their batches, which will be stored from `position` on.

    Raises BadRecord unless each batch matches its record's checksum, all numbers rise and are above `last`,
    leader epochs never fall and lie within `lowest_epoch` and `highest_epoch`, all formats are
    `batch_format`, the batches fill `batches`, and positions stay below 4 GiB.
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
