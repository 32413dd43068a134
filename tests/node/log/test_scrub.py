"""The scrub: what the disk spoils under a running process is found, and never served."""

import random

import pytest

from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.segment.scrub import Scrubbed
from tests.support.storage.logs import Folder, append, error_of, read_all
from tests.support.storage.recovered import (
    ALONE,
    INDEX,
    LOG,
    REPLICATED,
    VALUES,
    six_messages,
    state_of,
    the_other_partition_is_well,
)


@pytest.mark.thorough
@pytest.mark.parametrize("settings", [ALONE, REPLICATED])
@pytest.mark.parametrize("path", [LOG, INDEX])
def test_every_byte_flipped_under_the_running_process_is_found_by_the_scrub(
    settings: LogSettings, path: str
) -> None:
    reference = Folder(settings=settings)
    six_messages(reference)
    for at in range(len(reference.fault.content(path))):
        folder = Folder(settings=settings)
        log = six_messages(folder)
        for segment in log.segments:
            segment.index.drop_memory()
        flipped = bytearray(folder.fault.content(path))
        flipped[at] ^= 0x10
        folder.fault.overwrite(path, bytes(flipped))
        done = log.scrub(1 << 20)
        assert done.bad, f"byte {at}"
        assert state_of(log) is LogState.DAMAGED
        assert error_of(log) is not None
        maintain(log, 1000, 6)
        if settings is ALONE:
            assert state_of(log) is LogState.ACTIVE
            assert len(read_all(log)) >= 5
            assert append(log, b"next") == (7, 7)
            assert not log.scrub(1 << 20).bad
        never_serves_anything_else_but(log, b"next")
        the_other_partition_is_well(folder)


def never_serves_anything_else_but(log: PartitionLog, appended: bytes) -> None:
    for number, value in read_all(log).items():
        assert value in (VALUES.get(number), appended)


def test_the_scrub_goes_through_everything_in_steps_and_begins_again() -> None:
    folder = Folder(settings=LogSettings(segment_bytes=300))
    log = folder.log()
    for n in range(50):
        append(log, b"%02d" % n * 20)
    steps: list[Scrubbed] = []
    while not (steps and steps[-1].wrapped):
        steps.append(log.scrub(500))
    assert len(steps) > 4
    assert sum(step.bytes for step in steps) == log.size_bytes
    assert log.scrub(1 << 20).bytes == log.size_bytes


def long_batches(count: int, segment_bytes: int) -> tuple[Folder, PartitionLog]:
    """Each is longer than a step."""
    folder, chance = (
        Folder(settings=LogSettings(segment_bytes=segment_bytes, replication_factor=3)),
        random.Random(1),
    )
    log = folder.log()
    for _ in range(count):
        append(log, chance.randbytes(600))
    for segment in log.segments:
        segment.index.drop_memory()
    return folder, log


def finds(log: PartitionLog, rounds: int = 2) -> bool:
    """Whether short steps find something."""
    for _ in range(100):
        done = log.scrub(500)
        if done.bad:
            return True
        rounds -= done.wrapped
        if not rounds:
            return False
    raise AssertionError("it never comes to the end")


@pytest.mark.thorough
@pytest.mark.parametrize("segment_bytes", [1_000_000, 2_000], ids=["one segment", "some"])
def test_every_bit_of_a_record_is_found_by_steps_that_begin_at_it(segment_bytes: int) -> None:
    folder, log = long_batches(6, segment_bytes)
    paths = [segment.path(".index") for segment in log.segments]
    assert (len(paths) > 1) == (segment_bytes == 2_000)
    clean = {path: folder.fault.content(path) for path in paths}
    assert not finds(log)
    for path in paths:
        for bit in range(8 * len(clean[path])):
            folder, log = long_batches(6, segment_bytes)
            log.scrub(500 * (bit % 4))  # begins anywhere
            flipped = bytearray(clean[path])
            flipped[bit // 8] ^= 1 << bit % 8
            folder.fault.overwrite(path, bytes(flipped))
            for segment in log.segments:
                segment.index.drop_memory()
            assert finds(log), f"bit {bit} of {path}"


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_sealed_segment_whose_index_has_lost_its_end_is_found_by_short_steps(kept: int) -> None:
    folder, log = long_batches(9, 2_000)
    sealed = log.segments[0]
    assert sealed.count == 3
    path = sealed.path(".index")
    content = folder.fault.content(path)
    folder.data.close()
    folder.fault.overwrite(path, content[: len(content) * kept // 3])
    log = folder.kill()
    assert finds(log)
    assert state_of(log) is LogState.DAMAGED
