"""How much a partition that this broker leads holds."""

from tank_node.broker.broker import Broker
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.places import readable_here, stable_mark
from tank_node.stored.results import PartitionExtent, Place


def extent_of(broker: Broker, place: Place) -> PartitionExtent | StoredOutcome:
    """The extent of a partition; or why it isn't known here."""
    partition = readable_here(broker, place)
    if isinstance(partition, StoredOutcome):
        return partition
    log = partition.log
    return PartitionExtent(
        max(log.first_available, 1), stable_mark(partition), log.size_bytes, len(log.segments)
    )
