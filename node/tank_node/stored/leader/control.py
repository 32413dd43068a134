"""What a leader is asked to do with a whole partition."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from tank_node.broker.broker import Broker
from tank_node.session import Session
from tank_node.stored.leader.deletion import SegmentDeletion
from tank_node.stored.leader.flushing import FlushWait
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Place


class ControlAction(IntEnum):
    """An action, as PartitionControlRequest (88) has it."""

    FLUSH = 1
    """Answered when the leader's disk and all in-sync replicas have what the log holds."""
    BEGIN_FLUSH = 2
    """Answered at once."""
    DELETE_SEGMENTS = 3


@dataclass(slots=True, frozen=True)
class PartitionControl:
    """An action, and of how many segments."""

    action: ControlAction
    segments: int = 0


def control_here(
    broker: Broker,
    place: Place,
    control: PartitionControl,
    asked_by: Session,
    told: Callable[[StoredOutcome], None],
) -> None:
    """Does it to a partition that this broker leads, and calls `told` once; not after `asked_by` was
    closed."""
    if control.action is ControlAction.DELETE_SEGMENTS:
        SegmentDeletion(broker, place, asked_by, told).begin(control.segments)
    else:
        FlushWait(broker, place, asked_by, told).begin(waits=control.action is ControlAction.FLUSH)
