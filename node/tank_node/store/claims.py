"""What a node says of its logs in the checkpoint, and to the controllers when it registers."""

from dataclasses import dataclass, field, replace

from tank_node.log.log import LogState, PartitionLog
from tank_node.log.recovery.checkpoint import CheckpointEntry


@dataclass(slots=True)
class Recovered:
    """What opening the logs found, for the line that the node logs at its start."""

    clean: bool = True
    """Whether the last process stopped in order, so that nothing had to be checked."""
    tail_sure: bool = True
    """Whether no written byte can be lost: the stop was clean, or the machine has not restarted since."""
    partitions: int = 0
    messages_checked: int = 0
    bytes_checked: int = 0
    bytes_cut: int = 0
    """Bytes behind the last whole batches, never acknowledged, that were cut."""
    damaged: list[str] = field(default_factory=list)
    """A sentence for each partition that is damaged, or was mended with a loss."""


@dataclass(slots=True, frozen=True)
class Claims:
    """What a broker says of its data folder when it registers."""

    disk_uuid: str
    """The folder's id: another id means another folder."""
    tail_sure: bool
    """As `Recovered.tail_sure`."""
    damaged: tuple[tuple[int, int], ...]
    """(topic id, partition), rising, of replicas that hold less than they once did."""
    broker_epoch: int = 0
    """As `Meta.broker_epoch`."""


def entry_of(log: PartitionLog, known: CheckpointEntry | None) -> CheckpointEntry:
    """The checkpoint's entry of a log; known: its entry so far."""
    if log.is_impaired:  # keeps the entry from before the damage, which recovery compares the log with
        if known is None:
            known = CheckpointEntry(log.topic_id, log.partition)
            if log.health.refilling and log.state is LogState.ACTIVE:
                # The checkpoint was lost, and the log is good.
                known = replace(known, recovery_point=log.synced, epochs=tuple(log.epochs))
        point = max(known.recovery_point, log.health.recovery_point)
        return replace(known, recovery_point=point, damaged=True)
    active = log.segments.list[-1] if log.segments.list else None
    return CheckpointEntry(
        log.topic_id,
        log.partition,
        min(log.high_water_mark, log.synced),
        log.synced,
        log.log_start,
        log.segments.compacted_through,
        active.base if active else 0,
        active.size_bytes if active else 0,
        active.count if active else 0,
        epochs=tuple(log.epochs),
    )
