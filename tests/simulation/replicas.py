"""Replicas compared, checked and spoiled: records without their places, and bytes."""

from collections.abc import Sequence

from tank_node.log.log import LogState, PartitionLog
from tank_node.partition import Partition
from tank_protos import bundle
from tests.simulation.disks import SimulatedDisk
from tests.simulation.stored_batches import stored
from tests.simulation.world import World


def differences(replicas: Sequence[Partition | None], from_epoch: int, *, compacts: bool = False) -> str:
    """What is not the same in the replicas of a partition at rest; empty when nothing is.

    from_epoch: of the last lossy election: nothing is promised of what was before. compacts: each does it for
    itself, so the newest message of each key is compared.
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
        newest = [newest_of_keys(replica.log, start, from_epoch) for replica in found]
        return "" if all(content == newest[0] for content in newest) else "different newest messages"
    contents = [
        [
            (record._replace(position=0), data)
            for record, data in stored(replica.log, start - 1, 2**63)
            if record.leader_epoch >= from_epoch
        ]
        for replica in found
    ]
    return "" if all(content == contents[0] for content in contents) else "different batches"


def newest_of_keys(log: PartitionLog, start: int, from_epoch: int) -> dict[bytes, tuple[int, bytes]]:
    """By key: the newest message's number and value."""
    newest: dict[bytes, tuple[int, bytes]] = {}
    for record, data in stored(log, start - 1, 2**63):
        number = record.first
        for one in bundle.bundles(data) if record.leader_epoch >= from_epoch else ():
            for message in bundle.decode(one, number):
                number = message.sequence_number + 1
                newest[bytes(message.key or b"")] = message.sequence_number, bytes(message.value)
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
