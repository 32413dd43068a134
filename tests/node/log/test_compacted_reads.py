"""Reading on where compaction has taken messages."""

from tank_node.log.log import PartitionLog
from tank_node.log.settings import LogSettings
from tests.support.logs import Folder, append, read_chunk


def put(log: PartitionLog, messages: list[tuple[bytes | None, bytes]]) -> None:
    append(log, *[value for _, value in messages], keys=[key for key, _ in messages], now_ms=1000)


def compacted(folder: Folder) -> None:
    log = folder.log()
    log.flush()
    log.maintain(1000, log.last)


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
