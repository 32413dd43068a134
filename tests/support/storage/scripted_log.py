"""One partition of `scripted_broker`, in memory."""

from dataclasses import dataclass, field

from tank_protos.bundle import bundles, decode, read_header
from tank_protos.error_codes import ErrorCode


@dataclass
class Log:
    """One partition in memory."""

    batches: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(first, last, batch with its length before it)"""
    first_available: int = 1
    high_water_mark: int | None = None
    """None: everything is committed."""
    producers: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    """id -> (epoch, sequence, first, last) of its last five bundles"""

    @property
    def last(self) -> int:
        return self.batches[-1][1] if self.batches else 0

    @property
    def committed(self) -> int:
        return self.last if self.high_water_mark is None else self.high_water_mark

    def append(self, batch: bytes) -> tuple[int, int]:
        header = read_header(next(bundles(batch)))
        first = header.first if header.sparse else self.last + 1
        last = header.last if header.sparse else self.last + header.messages
        self.batches.append((first, last, batch))
        return first, last

    def append_once(self, batch: bytes, producer: int, epoch: int, sequence: int) -> tuple[int, int, int]:
        """(error, first, last)"""
        if sequence and producer not in self.producers:
            return ErrorCode.UNKNOWN_PRODUCER, 0, 0
        known = self.producers.setdefault(producer, [])
        messages = read_header(next(bundles(batch))).messages
        for _, first_sequence, first, last in known:
            if first_sequence == sequence and last - first + 1 == messages:
                return ErrorCode.NONE, first, last
        expected = 0 if not known else (known[-1][1] + known[-1][3] - known[-1][2] + 1) % 2**31
        if 0 < (expected - sequence) % 2**31 < 2**30:
            return ErrorCode.NONE, 0, 0  # stored long ago, and its numbers are forgotten
        if sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE, 0, 0
        first, last = self.append(batch)
        known.append((epoch, sequence, first, last))
        del known[:-5]
        return ErrorCode.NONE, first, last

    def values(self) -> list[bytes]:
        """The contents of all messages, in order."""
        return [
            message.value
            for first, _, batch in self.batches
            for bundle in bundles(batch)
            for message in decode(bundle, first)
        ]
