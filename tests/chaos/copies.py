"""What brokers that don't run have on their disks: copies of a partition must be the same, byte by byte."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from tank_protos.storage.index_record import POSITION_AT, RECORD_BYTES

POSITION_BYTES = 4


def differing(folders: Mapping[str, Path]) -> Iterator[str]:
    """Sentences that name brokers and partitions (topic id/partition); none when all these data folders hold
    the same partitions, batches and index records, but for the records' positions: each replica rolls its
    segments for itself. That there is nothing to compare is a difference, too."""
    places = sorted(
        {str(p.relative_to(folder)) for folder in folders.values() for p in folder.glob("topics/*/*")}
    )
    if not places:
        yield "DIFFERENT: no broker has a partition on its disk"
    for place in places:
        name = place.removeprefix("topics/")
        (first, ours), *others = [(who, folder / place) for who, folder in folders.items()]
        for who, theirs in others:
            for what, read in (("batches", _batches), ("records", _records)):
                one, other = read(ours), read(theirs)
                if one != other:
                    sizes = f"{first} ({len(one):,} bytes) and {who} ({len(other):,})"
                    at = _first_difference(one, other)
                    yield f"DIFFERENT: {name}: the {what} of {sizes} differ from byte {at:,} on"


def _batches(partition: Path) -> bytes:
    """All segments, joined. Their names sort as their numbers do."""
    return b"".join(path.read_bytes() for path in sorted(partition.glob("*.log")))


def _records(partition: Path) -> bytes:
    records = bytearray().join(path.read_bytes() for path in sorted(partition.glob("*.index")))
    for at in range(POSITION_AT, len(records), RECORD_BYTES):
        records[at : at + POSITION_BYTES] = bytes(POSITION_BYTES)
    return bytes(records)


def _first_difference(ours: bytes, theirs: bytes) -> int:
    both = enumerate(zip(ours, theirs, strict=False))
    return next((at for at, (one, other) in both if one != other), min(len(ours), len(theirs)))
