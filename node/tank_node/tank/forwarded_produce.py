"""Produce (1, 5) to partitions that other brokers lead: each of them gets its part of the request, and their
answers become one. See docs/decisions/0012-forwarding.md.
"""

from typing import TYPE_CHECKING

from tank_node.broker.forwarding import FORWARDED_VERSION, Forwarded, UnexpectedAnswer, by_topic
from tank_node.tank.redirect import leader_epoch_of
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire.framing import frame

if TYPE_CHECKING:
    from tank_node.partition.waiters import Settler
    from tank_node.tank.session import TankSession

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
_UNKNOWN_TOPIC = bytes([ErrorCode.UNKNOWN_TOPIC])


class ForwardedProduce(Forwarded):
    """The bundles of one request for one leader, in their order."""

    def __init__(
        self,
        session: "TankSession",
        reply: "Settler",
        counts: list[int],
        tokens: list[int],
        epochs: dict[tuple[str, int], int],
        frame: bytearray,
        deadline_ms: int,
    ) -> None:
        super().__init__(frame, deadline_ms)
        self._session = session
        self._reply = reply
        """Takes the result of each bundle, by its token."""
        self._epochs = epochs
        """In which each partition, by topic and number, was led when the client sent this."""
        self._counts = counts
        """Of the bundles of each topic that the frame names."""
        self._tokens = tokens

    def may_be_sent(self) -> bool:
        """Not once another has led: it may have stored what the client sent later."""
        return all(
            leader_epoch_of(self._session, *partition) == epoch for partition, epoch in self._epochs.items()
        )

    def answered(self, payload: memoryview) -> None:
        results = self._results(payload[4:])
        self._over()
        for token, error in zip(self._tokens, results, strict=True):
            self._reply.settle(token, error, 0, 0)

    def _results(self, told: memoryview) -> list[int]:
        """The error of each bundle. Raises UnexpectedAnswer."""
        results: list[int] = []
        at = 0
        for count in self._counts:
            if told[at : at + 1] == _UNKNOWN_TOPIC:
                # One byte for the topic: that broker's view is behind, or ahead. Nothing was stored.
                results += [ErrorCode.NO_LEADER] * count
                at += 1
                continue
            of_topic = told[at : at + count]
            if len(of_topic) != count:
                raise UnexpectedAnswer("fewer results than bundles")
            if wrong := set(of_topic) - _ANSWERS:
                raise UnexpectedAnswer(f"result {min(wrong):#x}")
            results += of_topic
            at += count
        if at != len(told):
            raise UnexpectedAnswer("more results than bundles")
        return results

    def failed(self, *, sent: bool) -> None:
        self._over()
        error = ErrorCode.NOT_ACKNOWLEDGED_IN_TIME if sent else ErrorCode.NO_LEADER
        for token in self._tokens:
            self._reply.settle(token, error, 0, 0)

    def _over(self) -> None:
        self._session.asked_bytes -= self.size_bytes


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

    def send(self, session: "TankSession", reply: "Settler") -> None:
        """Sends each leader its part; the bundles are copied now. `reply` is told how they ended."""
        broker = session.broker
        timeout_ms = self._request.ack_timeout_ms or session.limits.ack_timeout_ms
        for leader, bundles in self._parts.items():
            topics = by_topic((topic, entry) for _, topic, entry in bundles)
            part = ForwardedProduce(
                session,
                reply,
                [len(entries) for _, entries in topics],
                [token for token, _, _ in bundles],
                {
                    (topic, entry.partition): leader_epoch_of(session, topic, entry.partition)
                    for _, topic, entry in bundles
                },
                self._frame(topics),
                broker.tick.monotonic_ms + timeout_ms,
            )
            session.asked_bytes += part.size_bytes
            if not broker.forwarding.send(leader, part, session):
                part.failed(sent=False)

    def _frame(self, topics: list[tuple[str, list[ProducePartition | ProduceBasePartition]]]) -> bytearray:
        asked = self._request
        head = (FORWARDED_VERSION, 0, asked.client_id, asked.required_acks, asked.ack_timeout_ms)
        message: ProduceRequest | ProduceWithBaseSeqNumRequest
        if isinstance(asked, ProduceRequest):
            plain: list[ProduceTopic] = []
            for name, entries in topics:
                plain.append(ProduceTopic(name, [e for e in entries if isinstance(e, ProducePartition)]))
            message = ProduceRequest(*head, plain)
        else:
            numbered: list[ProduceBaseTopic] = []
            for name, entries in topics:
                bases = [e for e in entries if isinstance(e, ProduceBasePartition)]
                numbered.append(ProduceBaseTopic(name, bases))
            message = ProduceWithBaseSeqNumRequest(*head, numbered)
        return bytearray().join(frame(message.ID, message.encode()))
