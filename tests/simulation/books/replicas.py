"""Replicas compared, checked and spoiled: records without their places, and bytes."""

from collections.abc import Sequence

from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.segment.record import Record, matches
from tests.simulation.books.stored_batches import messages, same, stored
from tests.simulation.world.disks import SimulatedDisk
from tests.simulation.world.world import World


def differences(replicas: Sequence[Partition | None], *, compacts: bool = False) -> str:
    """What is not the same in the replicas of a partition at rest; empty when nothing is. After a lossy
    election, too: nothing is promised of what was before, but that all agree on what is left of it.

    compacts: each does it for itself, so the newest message of each key is compared.
    """
    found = [replica for replica in replicas if replica is not None]
    if len(found) < len(replicas):
        return "a replica is not open"
    first = found[0]
    start = max(replica.log.log_start for replica in found)
    for other in found:
        if other.log.state is not LogState.ACTIVE or other.log.is_impaired:
            return f"a replica is not whole: {other.log.reason}"
        if other.log.written != first.log.written:
            return f"ends {[replica.log.written for replica in found]}"
        if other.high_water_mark != other.log.written:
            return f"marks {[replica.high_water_mark for replica in found]} of {first.log.written}"
    if compacts:
        logs = [list(stored(replica.log, start - 1, 2**63)) for replica in found]
        if not all(matches(record, data) for log in logs for record, data in log):
            return "bytes are changed that the broker has not looked at yet"
        newest = [newest_of_keys(log) for log in logs]
        return "" if all(content == newest[0] for content in newest) else "different newest messages"
    held = list(stored(first.log, start - 1, 2**63))
    for other in found[1:]:
        others = list(stored(other.log, start - 1, 2**63))
        if len(others) != len(held):
            return f"{len(held)} and {len(others)} batches"
        for (record, data), (theirs, bytes_of_theirs) in zip(held, others, strict=True):
            if not same(record, data, theirs, bytes_of_theirs):
                return f"different batches at {record.first} and {theirs.first}"
    return ""


def newest_of_keys(log: Sequence[tuple[Record, bytes]]) -> dict[bytes, tuple[int, bytes]]:
    """By key: the newest message's number and value; of a key that was deleted there is none."""
    newest: dict[bytes, tuple[int, bytes]] = {}
    for record, data in log:
        for number, key, value in messages(record, data):
            if value:
                newest[key] = number, value
            else:
                newest.pop(key, None)  # each replica forgets by its own clock that it is gone
    return newest


def damage(world: World, disk: SimulatedDisk, folder: str, *, index: bool) -> None:
    """What a disk does to a partition whose process is down: an index is gone, or a byte is another one."""
    suffix = ".index" if index else world.random.choice((".log", ".log", ".index"))
    paths = [path for path in disk.paths(suffix) if path.startswith(folder + "/") and disk.content(path)]
    if not paths:
        return
    path = world.random.choice(paths)
    world.say("FAULT", "%s is spoiled", path)
    if index:
        disk.delete(path)
        return
    content = bytearray(disk.content(path))
    content[world.random.randrange(len(content))] ^= 1 << world.random.randrange(8)
    disk.overwrite(path, bytes(content))
