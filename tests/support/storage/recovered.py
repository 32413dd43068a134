"""A folder with the log of a killed process, and its state after recovery."""

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tests.support.storage.logs import (
    FOLDER,
    Folder,
    append,
    error_of,
    read_all,
)

ALONE = LogSettings(replication_factor=1)


REPLICATED = LogSettings(replication_factor=3)


LOG = f"{FOLDER}/{1:020d}.log"


INDEX = f"{FOLDER}/{1:020d}.index"


VALUES = {n: b"value-%d" % n for n in range(1, 7)}


def state_of(log: PartitionLog) -> LogState:
    """The state now: type checkers believe that an attribute stays what it was."""
    return log.state


def six_messages(folder: Folder) -> PartitionLog:
    """Six batches of one message, synced, and another partition beside them."""
    log = folder.log()
    for value in VALUES.values():
        append(log, value)
    log.flush()
    other = folder.log(1)
    append(other, b"other")
    other.flush()
    return log


def the_other_partition_is_well(folder: Folder) -> None:
    other = folder.log(1)
    assert (other.state, read_all(other)) == (LogState.ACTIVE, {1: b"other"})
    assert error_of(other) is None
