"""Records that came over the wire: checked against their batches, and given their places. Both kernels."""

from collections.abc import Callable

import pytest
from fastcrc.crc32 import iscsi as crc32c

from tank_protos import kernel
from tank_protos.storage.index_record import RECORD, RECORD_BYTES
from tank_protos.storage.record_run import BadRecord, placed

Placed = Callable[[bytes, bytes, int, int, int, int, int], bytes]
PAIR = next((pair for pair in kernel.PAIRS if pair.plain.__name__ == "placed"), None)
both = pytest.mark.parametrize(
    "place", [placed] if PAIR is None else list(PAIR), ids=["plain", "compiled"][: 1 if PAIR is None else 2]
)


def record(
    batch: bytes, first: int, span: int = 0, epoch: int = 4, position: int = 0, format_: int = 0
) -> bytes:
    fields = [first, span, 0, len(batch), 0, 5, 6, 0, 0, epoch, 0, format_, 0, span + 1]
    fields[4] = crc32c(RECORD.pack(*fields), crc32c(batch))
    fields[2] = position
    return RECORD.pack(*fields)


def positions(records: bytes) -> list[int]:
    return [fields[2] for fields in RECORD.iter_unpack(records)]


@both
def test_good_records_get_the_places_of_their_batches_and_keep_the_rest(place: Placed) -> None:
    records = record(b"one", 8, 2, position=500) + record(b"three", 11, epoch=6, position=503)
    found = place(records, b"onethree", 70, 7, 4, 6, 0)
    assert positions(found) == [70, 73]
    assert [fields[:2] + fields[3:] for fields in RECORD.iter_unpack(found)] == [
        fields[:2] + fields[3:] for fields in RECORD.iter_unpack(records)
    ]
    assert place(b"", b"", 0, 0, 0, 0, 0) == b""


@both
@pytest.mark.parametrize(
    ("records", "batches", "reason"),
    [
        (record(b"one", 8), b"onE", "checksum"),
        (record(b"one", 7), b"one", "cannot follow"),
        (record(b"one", 8, 2) + record(b"two", 10), b"onetwo", "cannot follow"),
        (record(b"one", 8), b"on", "cannot follow"),
        (record(b"one", 8), b"one!", "have no record"),
        (record(b"", 8), b"", "cannot follow"),
        (record(b"one", 8, epoch=3), b"one", "epoch 3 behind 4"),
        (record(b"one", 8, epoch=7), b"one", "epoch 7"),
        (record(b"one", 8, epoch=6) + record(b"two", 9, epoch=5), b"onetwo", "epoch 5 behind 6"),
        (record(b"one", 8, format_=1), b"one", "format 1"),
        (record(b"one", 2**63 - 1, 1), b"one", "cannot follow"),
        (record(b"one", 2**64 - 1, 2**32 - 2), b"one", "cannot follow"),
        (record(b"one", 8)[:-1], b"one", "bytes of records"),
    ],
)
def test_what_does_not_belong_together_is_refused_in_the_same_words(
    place: Placed, records: bytes, batches: bytes, reason: str
) -> None:
    with pytest.raises(BadRecord, match=reason):
        place(records, batches, 0, 7, 4, 6, 0)


@both
def test_no_position_is_beyond_what_a_record_holds(place: Placed) -> None:
    assert len(place(record(b"one", 8), b"one", 2**32 - 4, 7, 4, 6, 0)) == RECORD_BYTES
    with pytest.raises(BadRecord):
        place(record(b"one", 8), b"one", 2**32 - 3, 7, 4, 6, 0)
