"""Encoded answers to Metadata, which clients share while the cluster's metadata stays the same.

When a broker stops, all clients ask at once for the new leaders, and most of them ask alike. An answer with
10,000 partitions costs 45 ms in plain Python.
"""

from typing import Final, NamedTuple

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared

MIN_BYTES: Final = 16 * 1024
"""Shorter answers are not kept: they are made in a millisecond or two."""


class MetadataAsked(NamedTuple):
    """All that an answer depends on, beside the view."""

    version: int
    is_outside: bool
    body: bytes
    """The body of the request."""
    lost: tuple[int, ...] = ()
    """The brokers that are listed although they are fenced."""


class MetadataAnswers:
    """The answers that are kept, of one state of the view."""

    __slots__ = ("_bodies", "_index", "_most_bytes", "size_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._index = 0
        self._bodies: dict[MetadataAsked, bytes] = {}
        self.size_bytes = 0
        """The bytes of all kept answers and their requests."""

    def find(self, index: int, asked: MetadataAsked) -> bytes | None:
        """Returns the answer's body, if it was kept while the view was at this index."""
        return self._bodies.get(asked) if index == self._index else None

    def keep(self, index: int, asked: MetadataAsked, body: bytes) -> None:
        """Keeps an answer's body that was made with the view at this index, in place of those of earlier
        states, and of the oldest ones if there are too many."""
        if index != self._index:
            self._bodies.clear()
            self._index, self.size_bytes = index, 0
        size = len(asked.body) + len(body)
        if len(body) < MIN_BYTES or size > self._most_bytes or asked in self._bodies:
            return
        while self.size_bytes + size > self._most_bytes:
            oldest = next(iter(self._bodies))
            self.size_bytes -= len(oldest.body) + len(self._bodies.pop(oldest))
        self._bodies[asked] = body
        self.size_bytes += size


def answers_of(broker: Broker) -> MetadataAnswers:
    """Returns the answers that the broker's sessions share."""
    return shared(broker, MetadataAnswers, _new_answers)


def _new_answers(broker: Broker) -> MetadataAnswers:
    return MetadataAnswers(broker.limits.kept_metadata_bytes)
