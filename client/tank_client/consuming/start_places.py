"""Where a consumer begins in each partition."""

from collections.abc import Mapping

from tank_client import errors
from tank_client.admin import Admin
from tank_client.consuming.reading_plan import ReadingPlan
from tank_client.model import END, Ends, Route
from tank_client.settings import AtTime, OutOfBoundsPolicy, StartAt


class StartPlaces:
    """Finds the numbers that a plan means."""

    def __init__(self, admin: Admin, plan: ReadingPlan) -> None:
        self._admin = admin
        self._plan = plan

    async def routes(self) -> list[Route]:
        """All partitions that the plan names, or that its topics have now. Raises UnknownTopic."""
        topics = self._plan.topics
        if isinstance(topics, dict):
            return [(topic, partition) for topic, partitions in topics.items() for partition in partitions]
        counts = await self._admin.partition_counts(topics)
        return [(name, partition) for name in topics for partition in range(counts[name])]

    async def of_member(self, routes: list[Route]) -> tuple[dict[Route, int], frozenset[Route]]:
        """The numbers for partitions that a group assigned: its positions, and `start` where it has none.
        Also returns the partitions in which it has a position."""
        assert self._plan.group is not None
        kept = await self._admin.fetch_positions(self._plan.group, sorted({topic for topic, _ in routes}))
        starts = {route: kept[route].number for route in routes if route in kept}
        missing = [route for route in routes if route not in kept]
        known = frozenset(starts)
        return starts | (await self.resolve(missing) if missing else {}), known

    async def resolve(self, routes: list[Route]) -> dict[Route, int]:
        """The number that `start` means for each partition."""
        wanted = {route: self._wanted(route) for route in routes}
        starts = {route: start for route, start in wanted.items() if isinstance(start, int)}
        starts |= {route: 0 for route, start in wanted.items() if start is StartAt.FIRST}
        if any(start is StartAt.COMMITTED for start in wanted.values()):
            starts |= await self._committed(
                [route for route, start in wanted.items() if start is StartAt.COMMITTED]
            )
        times: dict[str, dict[int, int]] = {}
        for (topic, partition), start in wanted.items():
            if isinstance(start, AtTime):
                times.setdefault(topic, {})[partition] = start.timestamp_ms
        for topic, asked in times.items():
            found = await self._admin.find_by_time(topic, asked)
            starts |= {(topic, partition): place.number for partition, place in found.items()}
        # From here on the end is a number: after a lost answer, a second question for the end would skip the
        # messages between.
        ends = [route for route, start in wanted.items() if start is StartAt.END or starts.get(route) == END]
        if ends:
            starts |= {route: end.high_water_mark + 1 for route, end in (await self.ends(ends)).items()}
        return starts

    async def ends(self, routes: list[Route]) -> dict[Route, Ends]:
        """The partitions' ends now."""
        return await self._admin.await_ends(dict.fromkeys(routes))

    def _wanted(self, route: Route) -> StartAt | AtTime | int:
        start = self._plan.start
        if isinstance(start, Mapping):
            if route not in start:
                raise errors.InvalidArgument(f"start names no place for {route[0]}/{route[1]}")
            start = start[route]
        if isinstance(start, str):
            try:
                return StartAt(start)
            except ValueError:
                raise errors.InvalidArgument(
                    f"start={start!r}: use 'first', 'end', 'committed', a number or AtTime(time)"
                ) from None
        if isinstance(start, StartAt | AtTime | int):
            return start
        raise errors.InvalidArgument(f"start={start!r}: use 'first', 'end', 'committed', a number or AtTime")

    async def _committed(self, routes: list[Route]) -> dict[Route, int]:
        group = self._plan.group
        if group is None:
            raise errors.InvalidArgument(
                "start='committed' needs a group: client.consumer(..., group='name')"
            )
        kept = await self._admin.fetch_positions(group, sorted({topic for topic, _ in routes}))
        starts = {route: kept[route].number for route in routes if route in kept}
        missing = [route for route in routes if route not in kept]
        if not missing:
            return starts
        policy = self._plan.settings.out_of_bounds
        if policy is OutOfBoundsPolicy.ERROR:
            topic, partition = missing[0]
            raise errors.NoPosition(
                f"group {group!r} has committed no position for {topic}/{partition}: "
                "begin at 'first' or 'end', or choose out_of_bounds 'earliest' or 'latest'"
            )
        if policy is OutOfBoundsPolicy.EARLIEST:
            return starts | dict.fromkeys(missing, 0)
        return starts | {route: end.high_water_mark + 1 for route, end in (await self.ends(missing)).items()}
