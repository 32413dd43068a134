"""What an earlier process wrote is checked before it is first read: what the disk spoiled in between is
found by the read that meets it, and never served."""

import random

import pytest

from tank_node.log.log import LogState
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import LogDamaged
from tests.support.storage.logs import FOLDER, Folder, append, read_chunks

REPLICATED = LogSettings(replication_factor=3)
LOG = f"{FOLDER}/{1:020d}.log"
INDEX = f"{FOLDER}/{1:020d}.index"
VALUES = [b"value-%d" % n for n in range(1, 7)]


def ends(content: bytes) -> list[int]:
    """Where each batch of the log ends."""
    found, at = [], 0
    while at < len(content):
        at += 1 + content[at]
        found.append(at)
    return found


@pytest.mark.parametrize("path", [LOG, INDEX])
@pytest.mark.parametrize("bit", [0x01, 0x80])
@pytest.mark.parametrize("first_wanted", [1, 4, 6])
def test_every_byte_flipped_after_a_clean_stop_is_found_by_the_read_that_meets_it(
    path: str, bit: int, first_wanted: int
) -> None:
    folder = Folder(settings=REPLICATED)
    for value in VALUES:
        append(folder.log(), value)
    folder.data.close()
    files = {name: folder.fault.content(name) for name in folder.fault.paths()}
    bounds = [0, *ends(files[LOG])]
    for at in range(len(files[path])):
        for name, content in files.items():
            folder.fault.overwrite(name, content)
        flipped = bytearray(files[path])
        flipped[at] ^= bit
        folder.fault.overwrite(path, bytes(flipped))
        folder.data = folder.open()
        log = folder.log()
        number = first_wanted
        try:
            while (stretch := log.read(number, 1, log.last)) is not None:
                stretch.file.release()
                served = folder.fault.content(LOG)[stretch.position : stretch.position + stretch.length]
                assert served == files[LOG][bounds[number - 1] : bounds[number]], f"byte {at}"
                number = stretch.last + 1
            assert number == 7, f"byte {at}: the end came early"
        except LogDamaged:
            assert log.state is LogState.DAMAGED
        folder.data.close()


def test_what_an_earlier_process_wrote_is_read_in_pieces_at_first_and_then_at_once() -> None:
    folder = Folder()
    log = folder.log()
    chance = random.Random(1)
    for _ in range(12):
        append(log, chance.randbytes(100_000))
    log = folder.reopen()
    assert log.last == 12
    pieces = read_chunks(log, max_bytes=1 << 24)
    assert len(pieces) == 3
    assert len(read_chunks(log, max_bytes=1 << 24)) == 1
    append(log, b"new")
    assert len(read_chunks(log, max_bytes=1 << 24)) == 1
