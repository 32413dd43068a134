"""The groups in the way of Iggy's feature level: those of other clients whose names are Iggy's from it on."""

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Final, Protocol

from tank_node.broker.broker import Broker
from tank_node.coordinators.machine.group_error import GroupError
from tank_protos.wire.names import GROUPS_TOPIC, is_iggys_group, readable

_NAMED: Final = 10
"""The most groups that are named: when these are deleted, the next ones are."""


class LedGroups(Protocol):
    """The groups of one led partition of the internal topic."""

    @property
    def state(self) -> GroupError:
        """NONE: they are read."""

    @property
    def groups(self) -> Collection[str]:
        """Their names."""


def held_names(broker: Broker, lead: Callable[[int], LedGroups | None]) -> Sequence[str] | None:
    """The first of these groups that the broker coordinates by its view; None: it has not read all of its
    groups. What is not UTF-8 in a name is U+FFFD here, because heartbeats can't hold it. `lead`: begins the
    coordination of a partition; returns None when the broker can't."""
    broker.begin_tick()
    view = broker.link.view
    topic = view.topic(GROUPS_TOPIC)
    found: list[str] = []
    for number, partition in enumerate(() if topic is None else topic.partitions):
        if partition.leader != view.broker_id:
            continue
        led = lead(number)
        if led is None or led.state is not GroupError.NONE:
            return None
        found += map(readable, islice(filter(is_iggys_group, led.groups), _NAMED))
    return sorted(found)[:_NAMED]
