"""Produce (1, 5) to partitions that other brokers lead: sends each leader its part of the request, and joins
the answers into one. See docs/decisions/0012-forwarding.md.
"""

from typing import TYPE_CHECKING, Final

from tank_node.broker.forwarding import FORWARDED_VERSION, Forwarded, UnexpectedAnswer, by_topic
from tank_node.partition.refusal import Refusal
from tank_node.tank.errors import error_code
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
    from tank_node.partition.waiters import Completion
    from tank_node.tank.session import TankSession

_ANSWERS: Final = {
    int(error_code(refusal)): refusal
    for refusal in (
        Refusal.NONE,
        Refusal.UNKNOWN_PARTITION,
        Refusal.STORAGE,
        Refusal.NOT_ACKNOWLEDGED_IN_TIME,
        Refusal.NOT_ENOUGH_REPLICAS,
        Refusal.NUMBER_TAKEN,
        Refusal.NO_LEADER,
    )
}
"""The refusal that each result byte of a leader stands for. An answer has one byte for each bundle."""
_UNKNOWN_TOPIC = bytes([ErrorCode.UNKNOWN_TOPIC])


class ForwardedProduce(Forwarded):
    """The bundles of a request that go to one leader, in their order."""

    def __init__(
        self,
        session: "TankSession",
        reply: "Completion",
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
        """The leader epoch of each partition, by topic and number, when the client's request came."""
        self._counts = counts
        """The number of bundles of each topic in the frame."""
        self._tokens = tokens

    def may_be_sent(self) -> bool:
        """Whether every partition still has the same leader epoch. Else a later leader may have stored
        bundles already that the client sent after these."""
        return all(
            leader_epoch_of(self._session, *partition) == epoch for partition, epoch in self._epochs.items()
        )

    def answered(self, payload: memoryview) -> None:
        results = self._results(payload[4:])
        self._over()
        for token, refusal in zip(self._tokens, results, strict=True):
            self._reply.complete(token, refusal, 0, 0)

    def _results(self, told: memoryview) -> list[Refusal]:
        """The refusal of each bundle. Raises UnexpectedAnswer when the answer doesn't match the bundles."""
        results: list[Refusal] = []
        at = 0
        for count in self._counts:
            if told[at : at + 1] == _UNKNOWN_TOPIC:
                # One byte for the whole topic: that broker's view is behind, or ahead. Nothing was stored.
                results += [Refusal.NO_LEADER] * count
                at += 1
                continue
            of_topic = told[at : at + count]
            if len(of_topic) != count:
                raise UnexpectedAnswer("fewer results than bundles")
            if wrong := set(of_topic) - _ANSWERS.keys():
                raise UnexpectedAnswer(f"unknown result {min(wrong):#x}")
            results += [_ANSWERS[error] for error in of_topic]
            at += count
        if at != len(told):
            raise UnexpectedAnswer("more results than bundles")
        return results

    def failed(self, *, sent: bool) -> None:
        self._over()
        refusal = Refusal.NOT_ACKNOWLEDGED_IN_TIME if sent else Refusal.NO_LEADER
        for token in self._tokens:
            self._reply.complete(token, refusal, 0, 0)

    def _over(self) -> None:
        self._session.asked_bytes -= self.size_bytes


class ProduceParts:
    """Collects the bundles of one request that go to other brokers, while the request is read."""

    __slots__ = ("_parts", "_request")

    def __init__(self, request: ProduceRequest | ProduceWithBaseSeqNumRequest) -> None:
        self._request = request
        self._parts: dict[int, list[tuple[int, str, ProducePartition | ProduceBasePartition]]] = {}
        """By leader: token, topic and bundle of each."""

    def add(
        self, leader: int, token: int, topic: str, entry: ProducePartition | ProduceBasePartition
    ) -> None:
        """Adds a bundle for this leader."""
        self._parts.setdefault(leader, []).append((token, topic, entry))

    def send(self, session: "TankSession", reply: "Completion") -> None:
        """Sends each leader its part, with copies of the bundles. `reply` gets the result of each bundle."""
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
