"""The brokers of the cluster, as one client gets them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_node.kafka.leaders import NO_BROKER

if TYPE_CHECKING:
    from tank_node.kafka.session import KafkaSession


@dataclass(frozen=True, slots=True)
class ListedBroker:
    """A broker, and where the client reaches it."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    """None: the broker was configured without one."""
    is_fenced: bool


def listed_brokers(session: "KafkaSession", *, with_fenced: bool = False) -> dict[int, ListedBroker]:
    """Returns the brokers that serve clients of Kafka's protocol, by id and in its order, at their addresses
    on the client's side of the network. Fenced brokers lead nothing, and are listed only on request."""
    listed = {}
    for broker_id, broker in sorted(session.broker.link.view.brokers.items()):
        address = broker.kafka_address(outside=session.is_outside)
        if address is not None and (with_fenced or not broker.fenced):
            listed[broker_id] = ListedBroker(broker_id, *address, broker.rack or None, broker.fenced)
    return listed


def named_brokers(session: "KafkaSession", lost: Collection[int] = ()) -> list[ListedBroker]:
    """The brokers that an answer to a client names: those that serve, and those in `lost`, fenced or not.

    While all are fenced, as just after a whole cluster was started, all are named. An answer without brokers
    leaves a client none to ask again: librdkafka 2.16 then closes its connections, and waits for ever.
    """
    known = listed_brokers(session, with_fenced=True).values()
    return [each for each in known if not each.is_fenced or each.broker_id in lost] or list(known)


def controller_of(session: "KafkaSession", listed: Mapping[int, ListedBroker]) -> int:
    """Returns the broker to which the client sends administrative requests. Every broker takes them, but
    clients look for this one in the list: it is this broker, or another one while this one isn't listed."""
    own_id = session.broker.link.view.broker_id
    if own_id in listed and not listed[own_id].is_fenced:
        return own_id
    return next((each.broker_id for each in listed.values() if not each.is_fenced), NO_BROKER)
