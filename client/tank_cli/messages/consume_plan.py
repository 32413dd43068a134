"""Computes where `tank consume` begins and ends in each partition, before the first message is read."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_cli.shell.brokers.positions import At, LogPosition
from tank_cli.shell.exit_codes import CliError, ExitCode

if TYPE_CHECKING:
    from tank_client.model import CommittedPosition, Ends
    from tank_client.sync import Client

ENDLESS = 2**64 - 1


@dataclass(slots=True)
class Span:
    """The messages to read of one partition.

    `start`: the first number asked of the broker. `skip_below`: numbers below are read and not shown (the
    number asked for is not there yet). `from_ms`: messages before the first at or after this time are not
    shown. `last`: the last number shown. `until_ms`: the first message at or after this time, from number
    `until_from` on, ends it.
    """

    start: int
    skip_below: int = 0
    from_ms: int | None = None
    last: int = ENDLESS
    until_ms: int | None = None
    until_from: int = 0


@dataclass(slots=True, frozen=True)
class Plan:
    """The spans by partition, and warnings for the user."""

    spans: dict[int, Span]
    warnings: tuple[str, ...] = ()
    skip_damaged: bool = False
    """Whether to go on behind a bundle that cannot be read."""

    def live(self) -> dict[int, Span]:
        """The partitions that can have something to show."""
        return {partition: span for partition, span in self.spans.items() if span.start <= span.last}


def make_plan(
    client: "Client",
    topic: str,
    partitions: Iterable[int],
    begin: LogPosition,
    until: LogPosition | None,
    group: str | None,
    follow: bool,
) -> Plan:
    """Makes the plan; asks the broker for ends, times and positions. Without `follow` spans end at the
    present ends.
    """
    ends = client.admin.ends(topic, partitions)
    committed: Mapping[tuple[str, int], CommittedPosition] = {}
    if begin.at is At.COMMITTED:
        assert group is not None, "the command line was checked"
        committed = client.admin.fetch_positions(group, [topic])
    spans, warnings = {}, []
    for partition, reach in sorted(ends.items()):
        place = committed.get((topic, partition))
        span, warning = starting_span(f"{topic}/{partition}", begin, reach, place.number if place else None)
        spans[partition] = span
        if warning:
            warnings.append(warning)
    if begin.at is At.NUMBER and not follow:
        require_some(topic, begin.value, ends)
    if begin.at is At.TIME:
        found = client.admin.find_by_time(topic, dict.fromkeys(spans, begin.value))
        for partition, span in spans.items():
            span.start = found[partition].number
            span.from_ms = begin.value
    if until is not None and until.at is At.TIME:
        found = client.admin.find_by_time(topic, dict.fromkeys(spans, until.value))
        for partition, span in spans.items():
            span.until_ms, span.until_from = until.value, found[partition].number
    for partition, span in spans.items():
        if until is not None and until.at is At.NUMBER:
            span.last = until.value
        if not follow or (until is not None and until.at is At.END):
            span.last = min(span.last, ends[partition].high_water_mark)
    return Plan(spans, tuple(warnings))


def starting_span(
    place: str, begin: LogPosition, reach: "Ends", committed: int | None
) -> tuple[Span, str | None]:
    """Returns the span of one partition, and a warning when the number asked for has expired."""
    first, end = max(reach.first_available, 1), reach.high_water_mark + 1
    wanted = first
    if begin.at is At.END:
        wanted = end
    elif begin.at is At.BACK:
        wanted = max(first, end - begin.value)
    elif begin.at is At.NUMBER:
        wanted = begin.value
    elif begin.at is At.COMMITTED and committed is not None:
        wanted = committed
    if 0 < wanted < first:
        return Span(first), f"{place} begins at {first}: the messages from {wanted} on have expired."
    return Span(max(first, min(wanted, end)), skip_below=wanted), None


def require_some(topic: str, number: int, ends: Mapping[int, "Ends"]) -> None:
    """Raises CliError when the number is above the end of every partition."""
    reaches = max((reach.high_water_mark for reach in ends.values()), default=0)
    if number > reaches + 1:
        raise CliError(
            f"{topic} ends at {reaches}, before {number}: ask for a lower number, or wait with --follow.",
            ExitCode.OUT_OF_BOUNDS,
        )
