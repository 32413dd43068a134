"""`meta.json` is replaced on a full disk, too."""

import json
import random

from tests.support.storage.fault_disk import FaultDisk
from tests.support.storage.logs import DATA, Folder

META, SPARE = f"{DATA}/meta.json", f"{DATA}/meta.spare"


def epoch_in(disk: FaultDisk) -> int:
    epoch = json.loads(disk.content(META))["broker_epoch"]
    assert isinstance(epoch, int)
    return epoch


def test_a_full_disk_takes_a_registration_by_the_spare_file() -> None:
    folder = Folder()
    disk = folder.fault
    assert folder.data.mark_registered(7)
    disk.capacity_bytes = disk.used_bytes
    assert folder.data.mark_registered(9)
    assert epoch_in(disk) == 9
    assert not disk.exists(META + ".new"), "it took what others may need"
    disk.lose_power(random.Random(1))
    assert epoch_in(disk) == 9, "it is durable"


def test_what_the_old_file_had_is_room_for_the_next_spare_one() -> None:
    folder = Folder()
    disk = folder.fault
    disk.capacity_bytes = disk.used_bytes
    for epoch in (7, 9, 11):
        assert folder.data.mark_registered(epoch)
        assert epoch_in(disk) == epoch


def test_without_a_spare_file_a_full_disk_does_not_take_it_until_there_is_room() -> None:
    folder = Folder()
    disk = folder.fault
    folder.data.mark_registered(7)
    disk.remove(SPARE)
    disk.capacity_bytes = disk.used_bytes
    assert not folder.data.mark_registered(9)
    assert epoch_in(disk) == 7
    disk.capacity_bytes = None
    assert folder.data.mark_registered(9)
    assert epoch_in(disk) == 9
    assert disk.exists(SPARE), "there is one again"


def test_a_failing_disk_is_not_a_full_one() -> None:
    folder = Folder()
    disk = folder.fault
    disk.fail_write = lambda path: path == META + ".new"
    assert not folder.data.mark_registered(9)
    assert disk.exists(SPARE)
