"""The consumers that requests name: one that stands alone, or a group, whose members share partitions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_node.cluster.iggy.parts import IggyGroupView
from tank_node.cluster.view import TopicView
from tank_node.coordinators.iggy.consumer_ids import group_consumer, named_consumer, numbered_consumer
from tank_node.iggy.numbers import group_of
from tank_node.iggy.refusals import refusal
from tank_protos.generated.iggy import Identifier, IggyConsumer
from tank_protos.iggy.eras import B2, SEED
from tank_protos.iggy.errors import IggyError
from tank_protos.iggy.identifiers import named, number_of, of_number
from tank_protos.iggy.kinds import ConsumerKind

if TYPE_CHECKING:
    from tank_node.iggy.session import IggyCall


@dataclass(slots=True, frozen=True)
class NamedConsumer:
    """A consumer, as its offsets know it."""

    key: str
    """The name of its offsets at the coordinators."""
    group: IggyGroupView | None
    """None: it stands alone."""


def consumer_of(call: "IggyCall", wire: IggyConsumer, topic: TopicView) -> NamedConsumer:
    """The consumer of a request about this topic. Raises IggyRefusal for a group that is not there."""
    era = call.era
    if wire.kind == ConsumerKind.GROUP:
        group = group_of(call, topic, wire_id(call, wire.number, wire.id))
        return NamedConsumer(group_consumer(group.born), group)
    if wire.kind != ConsumerKind.CONSUMER:
        raise refusal(IggyError.INVALID_COMMAND)
    # A consumer's number is its own choice: the base is for what we number.
    if era is SEED:
        return NamedConsumer(numbered_consumer(wire.number), None)
    wanted = named(wire.id, B2)
    key = numbered_consumer(wanted) if isinstance(wanted, int) else named_consumer(wanted)
    return NamedConsumer(key, None)


def wire_id(call: "IggyCall", number: int, identifier: Identifier) -> Identifier:
    """The identifier of a group in a request: era S has a number in its place."""
    return of_number(number_of(number, call.era), call.era) if call.era is SEED else identifier


def wanted_partition(call: "IggyCall", has_partition: int, partition: int) -> int | None:
    """The partition that a request names, as the wire has it; None: it names none."""
    if call.era.version >= B2.version:
        return partition if has_partition else None
    return partition or None
