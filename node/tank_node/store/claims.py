"""What is said of a log where it can't be asked: in the checkpoint, and to the controller at registration."""

from dataclasses import dataclass, field, replace

from tank_node.log.append import LogState
from tank_node.log.checkpoint import Entry
from tank_node.log.replica import ReplicaLog


@dataclass(slots=True)
class Recovered:
    """What opening the logs found, for the line that the node prints at its start."""

    clean: bool = True
    """The last process stopped in order: nothing had to be read."""
    tail_sure: bool = True
    """Nothing that was written can have been lost: a clean stop, or the machine was not restarted since."""
    partitions: int = 0
    messages_checked: int = 0
    bytes_checked: int = 0
    bytes_cut: int = 0
    """Bytes at the ends that belonged to no whole batch; nobody was ever told that they were stored."""
    damaged: list[str] = field(default_factory=list)
    """One sentence for each partition that is damaged, or was and had to be mended with loss."""


@dataclass(slots=True, frozen=True)
class Claims:
    """What this node's disk may claim when its broker registers."""

    disk_uuid: str
    """Made with the data folder: another one is another disk."""
    tail_sure: bool
    """Nothing that was written can have been lost: a clean stop, or the machine was not restarted since."""
    damaged: tuple[tuple[int, int], ...]
    """(topic id, partition) of replicas that hold less than they were known to hold, rising."""
    broker_epoch: int = 0
    """Of the last registration that this folder knows to be committed; 0: of none."""


def entry_of(log: ReplicaLog, known: Entry | None) -> Entry:
    """What the checkpoint remembers of a log; `known`: what it said before."""
    if log.is_impaired:  # what was known before is what the damage is judged by
        if known is None:
            known = Entry(log.topic_id, log.partition)
            if log.refilling and log.state is LogState.ACTIVE:  # both files were lost: this is good
                known = replace(known, recovery_point=log.synced, epochs=tuple(log.epochs))
        return replace(known, recovery_point=max(known.recovery_point, log.recovery_point), damaged=True)
    active = log.segments[-1] if log.segments else None
    return Entry(
        log.topic_id,
        log.partition,
        min(log.high_water_mark, log.synced),
        log.synced,
        log.log_start,
        log.compacted_through,
        active.base if active else 0,
        active.size_bytes if active else 0,
        active.count if active else 0,
        epochs=tuple(log.epochs),
    )
