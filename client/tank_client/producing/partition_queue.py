"""One partition's bundles on their way from a producer to the broker; pure.

A `PartitionQueue` keeps one partition's order. A bundle is *open* (takes messages), *sealed* (waits to be
sent), *in flight* (at most five; one without idempotence), and then acknowledged or given up. When a bundle
in flight fails for a temporary reason, nothing new is sent until all others in flight have their answers;
then all that are not acknowledged are sent again, in their order. With a producer id they keep their sequence
numbers, so that the broker recognizes repeats.

When a bundle is given up, those behind it must not be refused for the gap that it leaves:
- it is certainly not stored: the bundles behind it are not stored either (the broker refuses gaps); they are
  numbered anew;
- it may be stored: those behind it that were sent before are given up with it, for they may be stored, too;
  the rest goes on under a new producer id, which `needs_identity` asks for.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tank_client import errors
from tank_client.model import ProducerIdentity, Stored

RecordHeaders: TypeAlias = tuple[tuple[bytes, bytes | None], ...]
"""A message's headers as they are sent: names and values."""
SEQUENCE_MODULUS = 1 << 31
"""Sequence numbers of idempotent producers wrap here, as Kafka's do."""
MESSAGE_OVERHEAD_BYTES = 100
"""The memory of a message besides its key and value: the headers of bytes objects, and list entries."""


class Delivery(Protocol):
    """The future of a bundle: asyncio's or concurrent.futures'."""

    def done(self) -> bool:
        """Whether the delivery has an outcome, or was cancelled."""

    def set_result(self, result: Stored, /) -> None:
        """Completes the delivery: the bundle is stored."""

    def set_exception(self, exception: BaseException, /) -> None:
        """It is not stored, or its outcome is unknown."""

    @property
    def seen(self) -> bool:
        """Whether the program has looked at the outcome: awaited it, or asked for result or exception."""


@dataclass(slots=True, eq=False)
class PendingBundle:
    """Messages of one partition that travel together."""

    topic: str
    partition: int
    delivery: Delivery
    opened_ms: float
    order: int
    values: list[bytes | None] = field(default_factory=list)
    keys: list[bytes | None] | None = None
    timestamps: list[int] = field(default_factory=list)
    headers: dict[int, RecordHeaders] = field(default_factory=dict)
    """Of the messages that have some, by their index."""
    as_records: bool = False
    """Whether it is sent as a record batch, for a topic of Kafka's format; else as one of TANK's bundles."""
    size_bytes: int = 0
    """The size of keys, values and headers."""
    counted: int = 0
    """The number of messages, once the columns are gone."""
    batch: bytes | None = None
    """Encoded, a bundle with its length before it; the columns above are empty then."""
    max_timestamp_ms: int = 0
    sequence: int = -1
    """The producer's number of its first message; -1: none yet."""
    identity: ProducerIdentity | None = None
    maybe_stored: bool = False
    """Whether it was sent, and no answer said that it was not stored."""
    last_error: errors.TankError | None = None

    @property
    def messages(self) -> int:
        """The number of messages."""
        return self.counted or len(self.values)

    @property
    def memory_bytes(self) -> int:
        """The bundle's share of the producer's memory."""
        return self.size_bytes + self.messages * MESSAGE_OVERHEAD_BYTES


@dataclass(slots=True, eq=False)
class PartitionQueue:
    """One partition's bundles. Invariant: `in_flight`, then `again`, then `sealed`, then `open` is the
    messages' order, where `in_flight` and `again` interleave only while the queue is `recovering`."""

    topic: str
    partition: int
    idempotent: bool
    max_in_flight: int
    open: PendingBundle | None = None
    sealed: deque[PendingBundle] = field(default_factory=deque)
    in_flight: list[PendingBundle] = field(default_factory=list)
    again: list[PendingBundle] = field(default_factory=list)
    recovering: bool = False
    retry_at_ms: float = 0.0
    redirected_until_ms: float = 0.0
    """The end of the pause after a redirect: `retry_at_ms` is never less, even if a new leader becomes
    known.
    """
    failures: int = 0
    """The number of failures in a row; bundles that are in flight together fail together."""
    identity: ProducerIdentity | None = None
    next_sequence: int = 0
    retired_producer: int = 0
    """The producer id that this queue must not use again; 0: none."""
    _renumber_from: int | None = None
    _broken: bool = False

    @property
    def idle(self) -> bool:
        """Whether the queue is empty."""
        return not (self.open or self.sealed or self.in_flight or self.again)

    @property
    def needs_identity(self) -> bool:
        """Whether a bundle waits for a producer id."""
        return self.idempotent and self.identity is None and bool(self.sealed) and not self.recovering

    def seal(self) -> None:
        """Seals the open bundle, if there is one."""
        if self.open is not None:
            self.sealed.append(self.open)
            self.open = None

    def gap_can_close(self, bundle: PendingBundle) -> bool:
        """Whether a gap before this bundle is expected: an earlier bundle is not acknowledged yet, or was
        given up.
        """
        if self._renumber_from is not None or self._broken:
            return True
        return any(other.order < bundle.order for other in (*self.in_flight, *self.again))

    def next_to_send(self, now_ms: float) -> PendingBundle | None:
        """Returns the bundle to send now, with its sequence number; it counts as in flight from here on."""
        if self.recovering or not self.sealed or now_ms < self.retry_at_ms:
            return None
        if len(self.in_flight) >= self.max_in_flight or (self.idempotent and self.identity is None):
            return None
        bundle = self.sealed.popleft()
        if self.idempotent and bundle.sequence < 0:
            bundle.identity = self.identity
            bundle.sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + bundle.messages) % SEQUENCE_MODULUS
        self.in_flight.append(bundle)
        return bundle

    def unsend(self, bundle: PendingBundle) -> None:
        """Puts a bundle back that could not be given to a connection: it is the next to be sent."""
        self.in_flight.remove(bundle)
        self.sealed.appendleft(bundle)

    def acknowledged(self, bundle: PendingBundle) -> list[PendingBundle]:
        """Notes that the bundle is stored. Returns the bundles that are given up because of earlier failures
        (see `_end_recovery`).
        """
        self.in_flight.remove(bundle)
        self.failures = 0
        return self._end_recovery()

    def failed(
        self, bundle: PendingBundle, error: errors.TankError, *, retry: bool, retry_at_ms: float
    ) -> list[PendingBundle]:
        """Notes that a bundle in flight failed; `bundle.maybe_stored` is up to date. Returns the bundles that
        are given up, with the reason in `last_error`. Failures before the next bundle is sent count as one,
        and the first sets the time of the retry, because they most often have one cause.
        """
        self.in_flight.remove(bundle)
        bundle.last_error = error
        self.recovering = True
        if retry:
            if not self.again:
                self.failures += 1
                self.retry_at_ms = retry_at_ms
            self.again.append(bundle)
            return self._end_recovery()
        return [bundle, *self._given_up(bundle)]

    def forget_identity(self) -> None:
        """Takes a new producer id for bundles that are surely not stored, because the broker has forgotten
        this producer.
        """
        self._broken = True

    def expire(self, opened_before_ms: float) -> list[PendingBundle]:
        """Takes out, and returns, bundles that have waited too long and are not in flight."""
        late: list[PendingBundle] = []
        while self.sealed and self.sealed[0].opened_ms <= opened_before_ms:
            bundle = self.sealed.popleft()
            late.append(bundle)
            if bundle.sequence >= 0:
                self.recovering = True
                late += self._given_up(bundle)
        return late

    def abandon(self) -> list[PendingBundle]:
        """Takes out, and returns, all bundles."""
        self.seal()
        held = [*self.in_flight, *self.again, *self.sealed]
        self.in_flight.clear()
        self.again.clear()
        self.sealed.clear()
        self.recovering = False
        return held

    def _given_up(self, bundle: PendingBundle) -> list[PendingBundle]:
        if self.idempotent and bundle.sequence >= 0:
            if bundle.maybe_stored:
                self._broken = True
            elif (
                self._renumber_from is None
                or (self._renumber_from - bundle.sequence) % SEQUENCE_MODULUS < SEQUENCE_MODULUS // 2
            ):
                self._renumber_from = bundle.sequence
        return self._end_recovery()

    def _end_recovery(self) -> list[PendingBundle]:
        """Once nothing is in flight, puts bundles that are not acknowledged in front again, in their
        order.
        """
        if not self.recovering or self.in_flight:
            return []
        self.recovering = False
        self.again.sort(key=lambda bundle: bundle.order)
        self.sealed.extendleft(reversed(self.again))
        self.again.clear()
        given_up: list[PendingBundle] = []
        if self._broken:
            given_up = [bundle for bundle in self.sealed if bundle.maybe_stored]
            for bundle in given_up:
                self.sealed.remove(bundle)
            if self.identity is not None:
                self.retired_producer = self.identity.producer_id
            self.identity, self.next_sequence = None, 0
            self._number_anew()
        elif self._renumber_from is not None:
            self.next_sequence = self._renumber_from
            self._number_anew()
        self._broken, self._renumber_from = False, None
        return given_up

    def _number_anew(self) -> None:
        for bundle in self.sealed:
            bundle.sequence = -1
            bundle.identity = None
            bundle.maybe_stored = False
