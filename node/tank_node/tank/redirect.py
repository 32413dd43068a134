"""Where a partition is led when it isn't here, as clients can be told."""

from typing import TYPE_CHECKING, ClassVar, Final

from tank_node.broker.forwarding import FORWARDED_VERSION, ForwardingPolicy
from tank_node.cluster.view import NO_LEADER, BrokerView
from tank_protos.wire.errors import WireError

KNOWS_LEADERS: Final = 2
"""Clients from this version on know what to do where another broker leads."""

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


def leader_of(session: "TankSession", topic: str, number: int) -> BrokerView | None:
    """The other broker that leads a partition; None when nobody does, this one does, or nobody knows."""
    view = session.broker.link.view
    known = view.topic(topic)
    if known is None or number >= len(known.partitions):
        return None
    leader = known.partitions[number].leader
    return None if leader in (NO_LEADER, view.broker_id) else view.brokers.get(leader)


def leader_epoch_of(session: "TankSession", topic: str, number: int) -> int:
    """In which a partition is led now, by anybody; 0: it isn't known."""
    known = session.broker.link.view.topic(topic)
    if known is None or number >= len(known.partitions):
        return 0
    return known.partitions[number].leader_epoch


def address_of(session: "TankSession", topic: str, number: int) -> tuple[bytes, int] | None:
    """Its leader's IPv4 address and port, as TANK's messages carry them; None when they can't. A broker that
    forwards hears of nobody: it is to believe its own view."""
    leader = None if session.is_forwarder else leader_of(session, topic, number)
    return None if leader is None else ipv4_of(*leader.address(outside=session.is_outside))


class NotForwarded(WireError):
    """A request that is not marked as forwarded, on a broker's connection for those that are."""

    reason: ClassVar[str] = "not_forwarded"


def check_mark(session: "TankSession", version: int) -> None:
    """Raises NotForwarded: this request could be forwarded on, and circle."""
    if session.is_forwarder and version != FORWARDED_VERSION:
        raise NotForwarded(f"a request of client version {version:#x} on a connection for forwarded ones")


def forwards_to(session: "TankSession", version: int, topic: str, number: int) -> int:
    """The broker that leads a partition, if a request for it from a client of this version is to be
    forwarded to it; else 0. What is marked as forwarded never is again, whoever marked it."""
    policy = session.broker.forwarding.policy
    if policy is ForwardingPolicy.NEVER or version == FORWARDED_VERSION:
        return 0
    leader = leader_of(session, topic, number)
    if leader is None:
        return 0
    if policy is ForwardingPolicy.AUTO and (session.knows_hosts or _is_of_use(session, version, leader)):
        return 0
    return leader.broker_id


def _is_of_use(session: "TankSession", version: int, leader: BrokerView) -> bool:
    """Whether a client can be sent to this broker: it knows leaders, the protocol can carry the address, and
    the client came in where this broker says it is, not through a tunnel or another address before it."""
    outside = session.is_outside
    if version < KNOWS_LEADERS or ipv4_of(*leader.address(outside=outside)) is None:
        return False
    view = session.broker.link.view
    own = view.brokers.get(view.broker_id)
    if own is None:
        return False
    host, _ = own.address(outside=outside)
    return session.reached_at().removeprefix("::ffff:") == host


def ipv4_of(host: str, port: int) -> tuple[bytes, int] | None:
    """A broker's IPv4 address and port; None when it is known by a name, or by none."""
    parts = host.split(".")
    if len(parts) != 4 or not port:
        return None
    if not all(part.isdecimal() and int(part) < 256 for part in parts):
        return None
    return bytes(map(int, parts)), port


def packed(address: tuple[bytes, int]) -> bytes:
    """The same as bytes."""
    ipv4, port = address
    return ipv4 + port.to_bytes(2, "little")
