"""Produce (1, 5) to partitions that other brokers lead: each of them gets its part of the request, and their
answers become one. See docs/decisions/0012-forwarding.md.
"""

from typing import TYPE_CHECKING

from tank_node.forwarding import FORWARDED_VERSION, Forwarded
from tank_node.sessions.forward import UnexpectedAnswer
from tank_protos.error_codes import ErrorCode
from tank_protos.framing import frame
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)

if TYPE_CHECKING:
    from tank_node.sessions.produce import ProduceReply

_ANSWERS = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_PARTITION,
        ErrorCode.STORAGE,
        ErrorCode.NOT_ACKNOWLEDGED_IN_TIME,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.SEQUENCE_NUMBER_NOT_ABOVE_END,
        ErrorCode.NO_LEADER,
    )
)
"""Result bytes of a leader, for one bundle each."""


class ForwardedProduce(Forwarded):
    """The bundles of one request for one leader, in their order."""

    def __init__(
        self, reply: "ProduceReply", names: list[str], tokens: list[int], frame: bytearray, deadline_ms: int
    ) -> None:
        super().__init__(frame, deadline_ms)
        self._reply = reply
        self._names = names
        """Of the topic of each bundle."""
        self._tokens = tokens

    def answered(self, payload: memoryview) -> None:
        results = self._results(payload[4:])
        self._over()
        for token, error in zip(self._tokens, results, strict=True):
            self._reply.settle(token, error, 0, 0)

    def _results(self, told: memoryview) -> list[int]:
        """The error of each bundle. Raises UnexpectedAnswer."""
        results: list[int] = []
        names = self._names
        for error in told:
            if len(results) == len(names):
                raise UnexpectedAnswer("more results than bundles")
            name = names[len(results)]
            if error == ErrorCode.UNKNOWN_TOPIC:
                # One byte for the topic: that broker's view is behind, or ahead. Nothing was stored.
                while len(results) < len(names) and names[len(results)] == name:
                    results.append(ErrorCode.NO_LEADER)
            elif error in _ANSWERS:
                results.append(error)
            else:
                raise UnexpectedAnswer(f"result {error:#x}")
        if len(results) != len(names):
            raise UnexpectedAnswer("fewer results than bundles")
        return results

    def failed(self, *, sent: bool) -> None:
        self._over()
        error = ErrorCode.NOT_ACKNOWLEDGED_IN_TIME if sent else ErrorCode.NO_LEADER
        for token in self._tokens:
            self._reply.settle(token, error, 0, 0)

    def _over(self) -> None:
        self._reply.session.asked_bytes -= self.size_bytes


class ProduceParts:
    """What of one request goes elsewhere, until the request was read."""

    __slots__ = ("_parts", "_request")

    def __init__(self, request: ProduceRequest | ProduceWithBaseSeqNumRequest) -> None:
        self._request = request
        self._parts: dict[int, list[tuple[int, str, ProducePartition | ProduceBasePartition]]] = {}
        """By leader: token, topic and bundle of each."""

    def add(
        self, leader: int, token: int, topic: str, entry: ProducePartition | ProduceBasePartition
    ) -> None:
        """One more bundle."""
        self._parts.setdefault(leader, []).append((token, topic, entry))

    def send(self, reply: "ProduceReply") -> None:
        """Sends each leader its part; the bundles are copied now. `reply` is told how they ended."""
        session = reply.session
        broker = session.broker
        timeout_ms = self._request.ack_timeout_ms or session.limits.ack_timeout_ms
        for leader, bundles in self._parts.items():
            part = ForwardedProduce(
                reply,
                [topic for _, topic, _ in bundles],
                [token for token, _, _ in bundles],
                self._frame([(topic, entry) for _, topic, entry in bundles]),
                broker.tick.monotonic_ms + timeout_ms,
            )
            session.asked_bytes += part.size_bytes
            if not broker.forwarding.send(leader, part, session):
                part.failed(sent=False)

    def _frame(self, bundles: list[tuple[str, ProducePartition | ProduceBasePartition]]) -> bytearray:
        asked = self._request
        head = (FORWARDED_VERSION, 0, asked.client_id, asked.required_acks, asked.ack_timeout_ms)
        message: ProduceRequest | ProduceWithBaseSeqNumRequest
        if isinstance(asked, ProduceRequest):
            plain: list[ProduceTopic] = []
            for name, entry in bundles:
                assert isinstance(entry, ProducePartition)
                if not plain or plain[-1].name != name:
                    plain.append(ProduceTopic(name, []))
                plain[-1].partitions.append(entry)
            message = ProduceRequest(*head, plain)
        else:
            numbered: list[ProduceBaseTopic] = []
            for name, entry in bundles:
                assert isinstance(entry, ProduceBasePartition)
                if not numbered or numbered[-1].name != name:
                    numbered.append(ProduceBaseTopic(name, []))
                numbered[-1].partitions.append(entry)
            message = ProduceWithBaseSeqNumRequest(*head, numbered)
        return bytearray().join(frame(message.ID, message.encode()))
