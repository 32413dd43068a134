"""Requests for partitions that another broker leads: whether they are forwarded, or the client gets the
leader's address."""

from typing import TYPE_CHECKING, ClassVar, Final

from tank_node.broker.forwarding import FORWARDED_VERSION, ForwardingPolicy
from tank_node.cluster.view import NO_LEADER, BrokerView
from tank_protos.wire.errors import WireError

KNOWS_LEADERS: Final = 2
"""Clients from this version on follow the leader's address in an answer."""

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


def leader_of(session: "TankSession", topic: str, number: int) -> BrokerView | None:
    """The other broker that leads a partition; None: this one leads it, it has no leader, or the view doesn't
    have the partition or the leader."""
    view = session.broker.link.view
    known = view.topic(topic)
    if known is None or number >= len(known.partitions):
        return None
    leader = known.partitions[number].leader
    return None if leader in (NO_LEADER, view.broker_id) else view.brokers.get(leader)


def leader_epoch_of(session: "TankSession", topic: str, number: int) -> int:
    """A partition's leader epoch; 0: the view doesn't have the partition."""
    known = session.broker.link.view.topic(topic)
    if known is None or number >= len(known.partitions):
        return 0
    return known.partitions[number].leader_epoch


def address_of(session: "TankSession", topic: str, number: int) -> tuple[bytes, int] | None:
    """The IPv4 address and port of a partition's leader, for TANK's messages; None: there is none that they
    can carry. Brokers that forward requests get none, because they rely on their own views."""
    leader = None if session.is_forwarder else leader_of(session, topic, number)
    return None if leader is None else ipv4_of(*leader.address(outside=session.is_outside))


class NotForwarded(WireError):
    """A request that is not marked as forwarded, on a broker's connection for forwarded requests."""

    reason: ClassVar[str] = "not_forwarded"


def check_mark(session: "TankSession", version: int) -> None:
    """Raises NotForwarded for an unmarked request of a broker, which could be forwarded in a circle."""
    if session.is_forwarder and version != FORWARDED_VERSION:
        raise NotForwarded(f"client version {version:#x} on a connection for forwarded requests")


def forwards_to(session: "TankSession", version: int, topic: str, number: int) -> int:
    """The id of the broker that leads a partition, if a request for it is forwarded there; else 0. `version`:
    the client's version. A request that is marked as forwarded is never forwarded again, even if a client
    marked it."""
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
    """Whether a client can use the leader's address: it knows leaders, the message can carry the address, and
    it reached this broker at this broker's registered address, not through a tunnel or proxy."""
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
    """The IPv4 address as bytes, and the port; None when `host` is a name or empty."""
    parts = host.split(".")
    if len(parts) != 4 or not port:
        return None
    if not all(part.isdecimal() and int(part) < 256 for part in parts):
        return None
    return bytes(map(int, parts)), port
