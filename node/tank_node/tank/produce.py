"""Produce (1) and produce with numbers of the client's choice (5): requests to appends, and appends to
the answer."""

from struct import Struct
from typing import TYPE_CHECKING, ClassVar, Final

from tank_node.metrics import OK
from tank_node.tank import redirect
from tank_node.tank.acks import has_in_sync, is_easy, settler_for
from tank_node.tank.errors import error_name, tank_error
from tank_node.tank.forwarded_produce import ProduceParts
from tank_protos import bundle
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProducePartition,
    ProduceRequest,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.broker.broker import Topic
    from tank_node.partition.partition import Partition
    from tank_node.tank.session import TankSession

PEER_VERSION = 0x100

_HEADER: Final = Struct("<BII")
_ANSWER_ID: Final = 1


class NotAPeer(WireError):
    """What only brokers send to each other, on a connection that did not open as theirs."""

    reason: ClassVar[str] = "not_a_peer"


class ProduceReply:
    """The answer to a request with any number of bundles: sent when the last of them is settled."""

    __slots__ = (
        "addresses", "kind", "missing", "old", "outcome", "parts", "request_id", "results", "session"
    )  # fmt: skip

    def __init__(
        self, session: "TankSession", request: ProduceRequest | ProduceWithBaseSeqNumRequest
    ) -> None:
        self.session = session
        self.request_id = request.request_id
        self.kind = request.ID
        self.parts: ProduceParts | None = None
        """What goes to other brokers, until `close`; None: nothing."""
        self.old = session.old_document = request.client_version < redirect.KNOWS_LEADERS
        """Whether the client is one of the old document."""
        self.outcome = OK
        """The first error among the results."""
        self.addresses: dict[int, bytes] = {}
        """Where the leaders are that these results name."""
        self.results = bytearray()
        self.missing = 1
        """Bundles not settled yet, and 1 until `close`."""
        session.in_flight += 1

    def expect(self) -> int:
        """The token of the next bundle, in the order of the request."""
        self.missing += 1
        self.results.append(0)
        return len(self.results) - 1

    def settle(self, token: int, error: int, first: int, last: int) -> None:
        if error:
            self.results[token] = tank_error(error, self.old)
            name = error_name(error)
            self.session.metrics.errors["produce", name] += 1
            if self.outcome is OK:
                self.outcome = name
        self._one_less()

    def find(
        self,
        token: int,
        request: ProduceRequest | ProduceWithBaseSeqNumRequest,
        topic: "Topic",
        entry: ProducePartition | ProduceBasePartition,
    ) -> "Partition | None":
        """Where this bundle goes; None: nowhere here, and its result is known, or another broker gets it."""
        number, required_acks = entry.partition, request.required_acks
        partition = topic.partitions.get(number)
        refusal = topic.absence(number) if partition is None else partition.refusal
        if refusal is ErrorCode.OTHER_LEADER:
            leader = redirect.forwards_to(self.session, request.client_version, topic.name, number)
            if not leader:
                self.elsewhere(token, topic.name, number)
                return None
            if self.parts is None:
                self.parts = ProduceParts(request)
            self.parts.add(leader, token, topic.name, entry)
        elif partition is None:
            self.settle(token, refusal, 0, 0)
        elif required_acks and not has_in_sync(partition, required_acks):
            self.settle(token, ErrorCode.NOT_ENOUGH_REPLICAS, 0, 0)
        else:
            return partition
        return None

    def elsewhere(self, token: int, topic: str, number: int) -> None:
        """Another broker leads: tells where, if this client can be told."""
        address = None if self.old else redirect.address_of(self.session, topic, number)
        self.settle(token, ErrorCode.OTHER_LEADER, 0, 0)
        if address is not None:
            self.results[token] = ErrorCode.OTHER_LEADER
            self.addresses[token] = redirect.packed(address)

    def close(self) -> None:
        """The whole request was read: nothing more will be expected."""
        if self.parts is not None:
            parts, self.parts = self.parts, None
            parts.send(self.session, self)
        self._one_less()

    def _one_less(self) -> None:
        self.missing -= 1
        if not self.missing:
            self.session.in_flight -= 1
            self.session.metrics.requests[self.kind, self.outcome] += 1
            results = self.results
            for token in sorted(self.addresses, reverse=True):
                results[token + 1 : token + 1] = self.addresses[token]
            self.session.send(_HEADER.pack(_ANSWER_ID, 4 + len(results), self.request_id) + results)


def produce(session: "TankSession", payload: memoryview) -> None:
    """Appends each bundle, or answers why not: one byte for each, and one for a topic that does not exist."""
    request = ProduceRequest.decode(payload)
    redirect.check_mark(session, request.client_version)
    reply = ProduceReply(session, request)
    for wanted in request.topics:
        topic = session.broker.topics.get(wanted.name)
        if topic is None:
            reply.settle(reply.expect(), ErrorCode.UNKNOWN_TOPIC, 0, 0)
            continue
        for entry in wanted.partitions:
            token = reply.expect()
            partition = reply.find(token, request, topic, entry)
            if partition is None:
                continue
            assert isinstance(entry.bundle, memoryview)
            settler = settler_for(reply, partition, request.required_acks)
            partition.append(entry.bundle, settler, token, timeout_ms=request.ack_timeout_ms)
            if len(request.topics) == len(wanted.partitions) == 1 and is_easy(request.required_acks):
                session.paths.learn(payload, entry.bundle, partition, request.ack_timeout_ms)
    reply.close()


def produce_with_numbers(session: "TankSession", payload: memoryview) -> None:
    """As `produce`, with the numbers that the client gives. Raises NotAPeer for what a stranger sends in a
    broker's name."""
    request = ProduceWithBaseSeqNumRequest.decode(payload)
    if request.client_version >= PEER_VERSION and not session.is_forwarder:
        raise NotAPeer("what brokers send to each other, on a connection that did not open as theirs")
    redirect.check_mark(session, request.client_version)
    reply = ProduceReply(session, request)
    for wanted in request.topics:
        topic = session.broker.topics.get(wanted.name)
        if topic is None:
            reply.settle(reply.expect(), ErrorCode.UNKNOWN_TOPIC, 0, 0)
            continue
        for entry in wanted.partitions:
            token = reply.expect()
            partition = reply.find(token, request, topic, entry)
            if partition is None:
                continue
            # On the wire the number stands between length and bundle; on disk nothing does.
            batch = memoryview(bundle.as_batch(entry.bundle))
            settler = settler_for(reply, partition, request.required_acks)
            number, timeout_ms = entry.base_seq_num, request.ack_timeout_ms
            partition.append(batch, settler, token, first=number, timeout_ms=timeout_ms)
    reply.close()
