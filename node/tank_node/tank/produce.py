"""Produce (1), and produce with numbers that the client chooses (5): appends the bundles of a request, and
answers with their results."""

from typing import TYPE_CHECKING, ClassVar

from tank_node.metrics import OK
from tank_node.partition.refusal import Refusal
from tank_node.tank import redirect
from tank_node.tank.acks import completion_for, has_in_sync, is_easy
from tank_node.tank.converted_produce import append_converted
from tank_node.tank.errors import error_name, tank_error
from tank_node.tank.forwarded_produce import ProduceParts
from tank_protos import bundle
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProducePartition,
    ProduceRequest,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.generated.tank.fast_writers import leader_result, produce_head
from tank_protos.wire.errors import WireError

if TYPE_CHECKING:
    from tank_node.broker.broker import Topic
    from tank_node.partition.partition import Partition
    from tank_node.tank.session import TankSession

PEER_VERSION = 0x100


class NotAPeer(WireError):
    """A request that only brokers send, on a connection that a broker has not opened."""

    reason: ClassVar[str] = "not_a_peer"


class ProduceReply:
    """The answer to a request with any number of bundles: sent when the last of them is complete."""

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
        """The bundles for other brokers, until `close`; None: there are none."""
        self.old = session.old_document = request.client_version < redirect.KNOWS_LEADERS
        """Whether the client knows no leaders, like the old document."""
        self.outcome = OK
        """The first error among the results."""
        self.addresses: dict[int, bytes] = {}
        """The results that name a leader, by token: they are longer than a byte."""
        self.results = bytearray()
        """The result byte of each bundle. A result in `addresses` takes its byte's place in the answer."""
        self.missing = 1
        """The number of bundles that are not complete yet, plus 1 until `close`."""
        session.client_id = request.client_id
        session.in_flight += 1

    def expect(self) -> int:
        """Adds a result for the next bundle of the request, and returns its token."""
        self.missing += 1
        self.results.append(0)
        return len(self.results) - 1

    def complete(self, token: int, refusal: Refusal, first: int, last: int) -> None:
        if refusal:
            self.results[token] = tank_error(refusal, self.old)
            name = error_name(refusal)
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
        """Returns the partition to append this bundle to; None: it is forwarded, or has its result
        already."""
        if self.session.broker.is_internal(topic.name):
            self.complete(token, Refusal.INTERNAL_TOPIC, 0, 0)
            return None
        number, required_acks = entry.partition, request.required_acks
        partition = topic.partitions.get(number)
        refusal = topic.absence(number) if partition is None else partition.refusal
        if refusal is Refusal.OTHER_LEADER:
            leader = redirect.forwards_to(self.session, request.client_version, topic.name, number)
            if not leader:
                self.elsewhere(token, topic.name, number)
                return None
            if self.parts is None:
                self.parts = ProduceParts(request)
            self.parts.add(leader, token, topic.name, entry)
        elif partition is None:
            self.complete(token, refusal, 0, 0)
        elif required_acks and not has_in_sync(partition, required_acks):
            self.complete(token, Refusal.NOT_ENOUGH_REPLICAS, 0, 0)
        else:
            return partition
        return None

    def elsewhere(self, token: int, topic: str, number: int) -> None:
        """Completes a bundle whose partition another broker leads, with its address if the client knows
        leaders and the message can carry it."""
        address = None if self.old else redirect.address_of(self.session, topic, number)
        self.complete(token, Refusal.OTHER_LEADER, 0, 0)
        if address is not None:
            self.addresses[token] = leader_result(*address)

    def close(self) -> None:
        """Ends the reading of the request, and forwards the bundles for other brokers."""
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
                results[token : token + 1] = self.addresses[token]
            self.session.send(produce_head(self.request_id, len(results)) + results)


def produce(session: "TankSession", payload: memoryview) -> None:
    """Appends each bundle, and answers with a result byte for each, or one for a whole topic that doesn't
    exist."""
    request = ProduceRequest.decode(payload)
    redirect.check_mark(session, request.client_version)
    reply = ProduceReply(session, request)
    for wanted in request.topics:
        topic = session.broker.topics.get(wanted.name)
        if topic is None:
            reply.complete(reply.expect(), Refusal.UNKNOWN_TOPIC, 0, 0)
            continue
        for entry in wanted.partitions:
            token = reply.expect()
            partition = reply.find(token, request, topic, entry)
            if partition is None:
                continue
            assert isinstance(entry.bundle, memoryview)
            completion = completion_for(reply, partition, request.required_acks)
            timeout_ms = request.ack_timeout_ms
            if partition.stores_record_batches:
                append_converted(partition, entry.bundle, completion, token, timeout_ms=timeout_ms)
                continue
            partition.append(entry.bundle, completion, token, timeout_ms=timeout_ms)
            if len(request.topics) == len(wanted.partitions) == 1 and is_easy(request.required_acks):
                session.paths.learn(payload, entry.bundle, partition, timeout_ms)
    reply.close()


def produce_with_numbers(session: "TankSession", payload: memoryview) -> None:
    """Does the same as `produce`, with the client's numbers. Raises NotAPeer for a broker's request from a
    client."""
    request = ProduceWithBaseSeqNumRequest.decode(payload)
    if request.client_version >= PEER_VERSION and not session.is_forwarder:
        raise NotAPeer("a request that only brokers send, on a connection that no broker opened")
    redirect.check_mark(session, request.client_version)
    reply = ProduceReply(session, request)
    for wanted in request.topics:
        topic = session.broker.topics.get(wanted.name)
        if topic is None:
            reply.complete(reply.expect(), Refusal.UNKNOWN_TOPIC, 0, 0)
            continue
        for entry in wanted.partitions:
            token = reply.expect()
            partition = reply.find(token, request, topic, entry)
            if partition is None:
                continue
            # On the wire the number stands between the length and the bundle; on disk the two are adjacent.
            batch = memoryview(bundle.as_batch(entry.bundle))
            completion = completion_for(reply, partition, request.required_acks)
            number, timeout_ms = entry.base_seq_num, request.ack_timeout_ms
            if partition.stores_record_batches:
                append_converted(partition, batch, completion, token, first=number, timeout_ms=timeout_ms)
            else:
                partition.append(batch, completion, token, first=number, timeout_ms=timeout_ms)
    reply.close()
