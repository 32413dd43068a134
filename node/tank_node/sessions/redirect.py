"""Where a partition is led when it isn't here, as clients can be told."""

from typing import TYPE_CHECKING

from tank_node.cluster_view import NO_LEADER, BrokerView

if TYPE_CHECKING:
    from tank_node.sessions.tank import TankSession


def leader_of(session: "TankSession", topic: str, number: int) -> BrokerView | None:
    """The other broker that leads a partition; None when nobody does, this one does, or nobody knows."""
    view = session.broker.link.view
    known = view.topic(topic)
    if known is None or number >= len(known.partitions):
        return None
    leader = known.partitions[number].leader
    return None if leader in (NO_LEADER, view.broker_id) else view.brokers.get(leader)


def address_of(session: "TankSession", topic: str, number: int) -> tuple[bytes, int] | None:
    """Its leader's IPv4 address and port, as TANK's messages carry them; None when they can't."""
    leader = leader_of(session, topic, number)
    return None if leader is None else ipv4_of(leader)


def ipv4_of(broker: BrokerView) -> tuple[bytes, int] | None:
    """A broker's IPv4 address and port; None when it is known by a name, or by none."""
    parts = broker.host.split(".")
    if len(parts) != 4 or not broker.port:
        return None
    if not all(part.isdecimal() and int(part) < 256 for part in parts):
        return None
    return bytes(map(int, parts)), broker.port


def packed(address: tuple[bytes, int]) -> bytes:
    """The same as bytes."""
    ipv4, port = address
    return ipv4 + port.to_bytes(2, "little")
