"""Whether the replicas of a partition have come to be the same: records without places, bytes joined."""

from collections.abc import Sequence

from tank_node.partition import Partition
from tests.simulation.message_books import stored


def differences(replicas: Sequence[Partition | None], from_epoch: int) -> str:
    """What is not the same; empty when nothing is.

    from_epoch: of the last lossy election: nothing is promised of what was before.
    """
    found = [replica for replica in replicas if replica is not None]
    if len(found) < len(replicas):
        return "a replica is not open"
    first = found[0]
    start = max(replica.log.log_start for replica in found)
    for other in found:
        if other.log.written != first.log.written:
            return f"ends {[replica.log.written for replica in found]}"
        if other.high_water_mark != other.log.written:
            return f"marks {[replica.high_water_mark for replica in found]} of {first.log.written}"
    contents = [
        [
            (record._replace(position=0), data)
            for record, data in stored(replica.log, start - 1, 2**63)
            if record.leader_epoch >= from_epoch
        ]
        for replica in found
    ]
    return "" if all(content == contents[0] for content in contents) else "different batches"
