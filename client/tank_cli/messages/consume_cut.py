"""Selects the requested messages from the consumer's batches. Pure: batches in, columns out."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from tank_cli.messages.consume_plan import ENDLESS, Span
from tank_cli.shell.render import MessageColumns

if TYPE_CHECKING:
    from tank_client.model import Headers


class CutBatch(Protocol):
    """The part of `tank_client.consuming.batch.MessageBatch` that is used here."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def numbers(self) -> Sequence[int]: ...
    @property
    def timestamps_ms(self) -> Sequence[int]: ...
    @property
    def keys(self) -> Sequence[bytes | None]: ...
    @property
    def values(self) -> Sequence[bytes | None]: ...
    @property
    def headers(self) -> "Sequence[Headers]": ...


class Cutter:
    """Selects messages by the plan's spans and the number still wanted; `finished` when nothing more is to be
    shown.

    `positions`: the next number of each partition behind the messages handed on, for committing.
    """

    def __init__(self, spans: dict[int, Span], count: int | None) -> None:
        self._spans = dict(spans)
        self._wanted = ENDLESS if count is None else count
        self.positions: dict[int, int] = {}
        self.given = 0

    @property
    def finished(self) -> bool:
        """Whether every partition is at its end, or enough was given."""
        return not self._spans or self._wanted == 0

    def cut(self, batch: CutBatch) -> MessageColumns | None:
        """The batch's messages to show; None when there are none."""
        span = self._spans.get(batch.partition)
        if span is None or self._wanted == 0:
            return None
        numbers = batch.numbers
        begin = bisect_left(numbers, max(span.skip_below, span.start))
        end = bisect_right(numbers, span.last)
        if span.from_ms is not None:
            begin = first_at(batch.timestamps_ms, span.from_ms, begin, end)
            if begin < end:
                span.from_ms = None
        ended = bool(numbers) and numbers[-1] >= span.last
        if span.until_ms is not None:
            place = first_at(batch.timestamps_ms, span.until_ms, bisect_left(numbers, span.until_from), end)
            ended = ended or place < end
            end = place
        end = min(end, begin + self._wanted)
        if ended:
            del self._spans[batch.partition]
        if begin >= end:
            return None
        self._wanted -= end - begin
        self.given += end - begin
        self.positions[batch.partition] = numbers[end - 1] + 1
        return columns_of(batch, begin, end)


def columns_of(batch: CutBatch, begin: int, end: int) -> MessageColumns:
    """The columns of some of a batch's messages, as renderers take them."""
    return MessageColumns(
        batch.topic,
        batch.partition,
        batch.numbers[begin:end],
        batch.timestamps_ms[begin:end],
        batch.keys[begin:end],
        batch.values[begin:end],
        headers[begin:end] if any(headers := batch.headers) else None,
    )


def first_at(timestamps_ms: Sequence[int], time_ms: int, begin: int, end: int) -> int:
    """The first index from `begin` on whose time is at or after `time_ms`; `end` when there is none. Times
    need not rise.
    """
    return next((place for place in range(begin, end) if timestamps_ms[place] >= time_ms), max(begin, end))
