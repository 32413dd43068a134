"""Reading on where compaction has taken messages."""

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.errors import LogDamaged
from tank_node.segment.record import RECORD_BYTES, read_record
from tests.support.storage.logs import Folder, append, read_chunk


def put(log: PartitionLog, messages: list[tuple[bytes | None, bytes]]) -> None:
    append(log, *[value for _, value in messages], keys=[key for key, _ in messages], now_ms=1000)


def compacted(folder: Folder) -> None:
    log = folder.log()
    log.flush()
    maintain(log, 1000, log.last)


def test_a_consumer_that_goes_on_behind_the_last_message_of_a_batch_finds_the_next_one() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=2000, compact=True, min_cleanable_ratio=0.0))
    log = folder.log()
    put(log, [(None, b"one"), (b"k", b"old"), (b"k", b"older")])  # keeps 1
    put(log, [(None, b"four"), (b"k", b"old")])  # keeps 4
    put(log, [(b"k", b"new")])
    log.roll()
    compacted(folder)
    for again in (folder.log, folder.reopen):
        log = again()
        read, number = [], 1
        while (chunk := read_chunk(log, number, 1)) is not None:
            assert max(chunk.messages()) >= number, "it would ask the same again and again"
            read += sorted(chunk.messages())
            number = read[-1] + 1  # as clients do: they know nothing of what is gone
        assert read == [1, 4, 6]


def test_a_rotten_length_is_not_read_to_see_what_compaction_took() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=2000, compact=True, min_cleanable_ratio=0.0))
    log = folder.log()
    put(log, [(None, b"one"), (b"k", b"old"), (b"k", b"older")])
    put(log, [(None, b"x" * 1000), (b"k", b"new")])
    log.roll()
    compacted(folder)
    path = log.segments[0].path(".index")
    folder.data.close()
    content = folder.fault.content(path)
    record = read_record(content, 0)
    folder.fault.overwrite(path, record._replace(length=2**32 - 1).pack() + content[RECORD_BYTES:])
    log = folder.kill()
    before = folder.fault.bytes_read
    with pytest.raises(LogDamaged):
        log.read(2, 1, 2**62)
    assert folder.fault.bytes_read - before < 1000, "the records alone"
    assert log.state is LogState.DAMAGED
