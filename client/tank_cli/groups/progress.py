"""How far consumer groups have read: their positions beside the ends of partitions."""

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tank_cli.shell.output import Json

if TYPE_CHECKING:
    from tank_client.model import CommittedPosition, Ends, Route
    from tank_client.sync import Client

AT_ONCE = 32
"""How many groups' positions are asked for at the same time."""


@dataclass(slots=True, frozen=True)
class PartitionProgress:
    """A group's progress in a partition.

    `position`: the next number that it reads; None: it has committed none. `ends`: None where the partition's
    leader can't be asked, or the topic is gone. `member`: the member that has the partition; empty: none has.
    """

    topic: str
    partition: int
    position: int | None
    ends: "Ends | None"
    committed_ms: int = 0
    member: str = ""

    @property
    def lag(self) -> int | None:
        """Messages between its position and the end; None: unknown."""
        if self.position is None or self.ends is None:
            return None
        return max(0, self.ends.high_water_mark + 1 - max(self.position, 1))

    @property
    def expired(self) -> int | None:
        """Messages that the group has not read, and that were deleted from the log; None: unknown."""
        if self.position is None or self.ends is None:
            return None
        return max(0, self.ends.first_available - max(self.position, 1))

    def json(self) -> dict[str, Json]:
        """The partition in the output of `tank lag` and `tank group describe`."""
        ends = self.ends
        return {
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "first_available": None if ends is None else ends.first_available,
            "high_water_mark": None if ends is None else ends.high_water_mark,
            "lag": self.lag,
            "expired": self.expired,
            "committed_ms": self.committed_ms,
        }


@dataclass(slots=True, frozen=True)
class GroupProgress:
    """A group's progress in all its partitions. `problem`: why its positions are unknown; empty: they are
    known.
    """

    group: str
    partitions: tuple[PartitionProgress, ...] = ()
    problem: str = ""

    @property
    def lag(self) -> int:
        """Messages that it has not read, over all partitions where this is known."""
        return sum(each.lag or 0 for each in self.partitions)

    @property
    def expired(self) -> int:
        """Messages that expired unread, likewise."""
        return sum(each.expired or 0 for each in self.partitions)

    @property
    def unknown(self) -> int:
        """How many partitions have an end that is unknown."""
        return sum(each.ends is None for each in self.partitions)

    @property
    def committed_ms(self) -> int:
        """The time of its last commit; 0: unknown."""
        return max((each.committed_ms for each in self.partitions), default=0)


def progress_of(
    client: "Client", servers: str, groups: Iterable[str], topics: Iterable[str] = ()
) -> list[GroupProgress]:
    """Returns the progress of each group in the named topics, or in all in which it has positions. A group
    whose coordinator does not answer in time has a `problem`.
    """
    from tank_cli.shell.brokers.described import known_ends

    wanted = list(topics) or None
    found = _positions(client, list(groups), wanted)
    kept = {route for positions in found.values() if not isinstance(positions, str) for route in positions}
    ends = known_ends(client, servers, kept)
    return [
        GroupProgress(group, problem=positions)
        if isinstance(positions, str)
        else GroupProgress(group, tuple(_partitions(positions, ends)))
        for group, positions in found.items()
    ]


def _positions(
    client: "Client", groups: list[str], topics: list[str] | None
) -> "dict[str, dict[Route, CommittedPosition] | str]":
    """Returns the positions of each group, or the reason why there are none."""
    from tank_client import errors

    def ask(group: str) -> "dict[Route, CommittedPosition] | str":
        try:
            return client.admin.fetch_positions(group, topics)
        except errors.TankError as error:
            if not error.retriable:
                raise
            return str(error)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        return dict(zip(groups, threads.map(ask, groups), strict=True))


def _partitions(
    positions: "Mapping[Route, CommittedPosition]", ends: "Mapping[Route, Ends]"
) -> Iterable[PartitionProgress]:
    for (topic, partition), place in sorted(positions.items()):
        reach = ends.get((topic, partition))
        yield PartitionProgress(topic, partition, place.number, reach, place.committed_ms)
