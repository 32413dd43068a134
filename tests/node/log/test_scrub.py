"""The scrub: what the disk spoils under a running process is found, and never served."""

import pytest

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.scrub import Scrubbed
from tank_node.log.settings import LogSettings
from tests.node.log.test_recovery import (
    ALONE,
    INDEX,
    LOG,
    REPLICATED,
    VALUES,
    six_messages,
    state_of,
    the_other_partition_is_well,
)
from tests.support.logs import Folder, append, error_of, read_all


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
        log.maintain(1000, 6)
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
