"""Which topics the members of a group of consumers read."""

from collections.abc import Iterable

from tank_node.coordinators.member import Member
from tank_protos.generated.kafka.consumer_protocol_subscription import ConsumerProtocolSubscription
from tank_protos.wire.errors import WireError

CONSUMER = "consumer"
"""The protocol type of groups whose members are consumers; others say nothing of topics."""


def subscribed_topics(members: Iterable[Member], protocol: str | None) -> frozenset[str] | None:
    """The topics that the members named in this protocol; None where one said what can't be parsed."""
    found: set[str] = set()
    for member in members:
        topics = topics_in(member.metadata(protocol))
        if topics is None:
            return None
        found |= topics
    return frozenset(found)


def topics_in(metadata: bytes) -> frozenset[str] | None:
    """The topics of one consumer's metadata; None when it can't be parsed.

    Its version stands before it. Later versions only add fields at the end, so what follows the fields of the
    highest known version is not looked at.
    """
    if len(metadata) < 2:
        return None
    version = int.from_bytes(metadata[:2], "big", signed=True)
    if version < 0:
        return None
    try:
        known = min(version, ConsumerProtocolSubscription.VERSIONS[1])
        subscription, _ = ConsumerProtocolSubscription.read(memoryview(metadata)[2:], 0, known)
    except (WireError, UnicodeDecodeError):
        return None
    return frozenset(subscription.topics)
