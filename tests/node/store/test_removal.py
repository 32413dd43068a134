"""Deleted folders of logs: a loss of power leaves a log whole, or nothing of it under its name."""

import random
from collections.abc import Callable
from itertools import count

from tank_node.log.settings import LogSettings
from tests.support.storage.fault_disk import PowerLoss
from tests.support.storage.logs import FOLDER, TOPIC, Folder, append

SEEDS = 20
SETTINGS = LogSettings(segment_bytes=100, replication_factor=1)


def names_after_power_loss(
    stop_at: int, seed: int, removed: Callable[[Folder], None]
) -> tuple[set[str], bool]:
    """The files under the log's name when the power goes before that change of a removal, and whether it went
    before the removal's end."""
    folder = Folder(settings=SETTINGS)
    log = folder.log()
    for value in (b"a" * 60, b"b" * 60, b"c" * 60):
        append(log, value)
    log.flush()
    folder.fault.sync_folder(FOLDER)
    folder.fault.stop_at = folder.fault.changes + stop_at
    ended = False
    try:
        removed(folder)
    except PowerLoss:
        ended = True
    folder.fault.lose_power(random.Random(seed))
    return {path for path in folder.fault.paths() if path.startswith(FOLDER + "/")}, ended


def delete(folder: Folder) -> None:
    folder.data.delete_partition(TOPIC, 0)


def test_a_power_loss_while_a_log_is_deleted_leaves_it_whole_or_nothing_of_it() -> None:
    whole, _ = names_after_power_loss(0, 0, lambda folder: None)
    assert len([path for path in whole if path.endswith(".log")]) == 3
    found = set()
    for stop_at in count():
        outcomes = [names_after_power_loss(stop_at, seed, delete) for seed in range(SEEDS)]
        assert all(names in (whole, set()) for names, _ in outcomes), stop_at
        found |= {bool(names) for names, _ in outcomes}
        if not any(ended for _, ended in outcomes):
            break
    assert found == {True, False}
    assert stop_at > 6, "the power went between single files as well"
