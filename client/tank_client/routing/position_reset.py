"""Where a reset puts a group's positions."""

from collections.abc import Iterable, Mapping

from tank_client import errors
from tank_client.model import END, FIRST, CommittedPosition, Ends, Route
from tank_client.routing.by_leader import find_times, wait_for_ends
from tank_client.routing.calls import Calls
from tank_client.settings import AtTime, StartAt


async def new_positions(
    calls: Calls, routes: Iterable[Route], to: StartAt | AtTime | int | str
) -> dict[Route, int]:
    """The number of each partition that `to` means, within what the partition holds. Raises
    InvalidArgument."""
    wanted = list(routes)
    if isinstance(to, AtTime):
        times: dict[str, dict[int, int]] = {}
        for topic, partition in wanted:
            times.setdefault(topic, {})[partition] = to.timestamp_ms
        numbers: dict[Route, int] = {}
        for topic, asked in times.items():
            found = await find_times(calls, topic, asked)
            numbers |= {(topic, partition): place.number for partition, place in found.items()}
    else:
        numbers = dict.fromkeys(wanted, number_of(to))
    return within(numbers, await wait_for_ends(calls, dict.fromkeys(wanted), 0)) if wanted else {}


async def moved_positions(
    calls: Calls, group: str, routes: Iterable[Route], kept: Mapping[Route, CommittedPosition], by: int
) -> dict[Route, int]:
    """The committed positions, moved by that many numbers within what the partitions hold. Raises
    NoPosition."""
    wanted = list(routes)
    for topic, partition in wanted:
        if (topic, partition) not in kept:
            raise errors.NoPosition(f"group {group!r} has committed no position for {topic}/{partition}")
    numbers = {route: max(kept[route].number + by, FIRST) for route in wanted}
    return within(numbers, await wait_for_ends(calls, dict.fromkeys(wanted), 0)) if wanted else {}


def number_of(to: StartAt | int | str) -> int:
    """FIRST, END or the number itself. Raises InvalidArgument."""
    if to in (StartAt.FIRST, StartAt.FIRST.value):
        return FIRST
    if to in (StartAt.END, StartAt.END.value):
        return END
    if isinstance(to, int) and 0 <= to <= END:
        return to
    raise errors.InvalidArgument(f"to={to!r}: use 'first', 'end', a number or AtTime(time)")


def within(numbers: Mapping[Route, int], ends: Mapping[Route, Ends]) -> dict[Route, int]:
    """The numbers, each moved into what its partition holds: from its first message to behind its last."""
    return {
        route: min(max(number, ends[route].first_available, 1), ends[route].high_water_mark + 1)
        for route, number in numbers.items()
    }
