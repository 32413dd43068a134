"""Where replicas of new partitions go. Pure: the same state gives the same placement on every controller."""

from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

Load = tuple[int, int]
"""(number of replicas that it holds, broker id): in this order the least loaded broker comes first."""


@dataclass(slots=True)
class _Seat:
    rack: str
    load: Load


@dataclass(slots=True)
class Spread:
    """Brokers by load within racks, and racks by their least loaded broker.

    Placing a replica looks at few brokers, and a changed load moves one broker: with a thousand brokers or
    racks, a search for each replica would be too slow.
    """

    _seats: dict[int, _Seat] = field(default_factory=dict)
    _racks: dict[str, list[Load]] = field(default_factory=dict)
    """The brokers of each rack, sorted; no rack is empty."""
    _heads: list[tuple[Load, str]] = field(default_factory=list)
    """Each rack's least loaded broker; sorted."""
    _touched: set[int] = field(default_factory=set)
    """Brokers whose load has perhaps changed since `refresh`."""

    def touch(self, brokers: Iterable[int]) -> None:
        """Notes that these brokers may have changed; `refresh` looks at them."""
        self._touched.update(brokers)

    def refresh(self, seat_of: Callable[[int], tuple[str, int] | None]) -> None:
        """Looks at the brokers that changed. `seat_of` gives (rack, replicas), or None for a broker that
        takes nothing."""
        for broker_id in self._touched:
            self._remove(broker_id)
            if (seat := seat_of(broker_id)) is not None:
                self._add(broker_id, *seat)
        self._touched.clear()

    def __len__(self) -> int:
        return len(self._seats)

    def __contains__(self, broker_id: int) -> bool:
        return broker_id in self._seats

    def pick(self, taken: Mapping[int, str]) -> int:
        """The least loaded broker that is not in `taken` (broker id -> rack), in a rack that `taken` lacks if
        there is one. Returns 0 when there is none.
        """
        racks = set(taken.values())
        for (_, broker_id), rack in self._heads:
            if rack not in racks:
                return broker_id
        free = (
            next((load for load in self._racks[rack] if load[1] not in taken), None)
            for rack in racks & self._racks.keys()
        )
        return min((load for load in free if load is not None), default=(0, 0))[1]

    def place(self, count: int, replication_factor: int, leads: Mapping[int, int]) -> list[tuple[int, ...]]:
        """Chooses replicas for new partitions, the preferred leader first, and counts them as load.

        The preferred leader is the replica whose broker leads least, by `leads` and the partitions placed in
        this call. There must be `replication_factor` brokers.
        """
        assert 1 <= replication_factor <= len(self._seats)
        added: dict[int, int] = {}
        placed = []
        for _ in range(count):
            taken: dict[int, str] = {}
            while len(taken) < replication_factor:
                broker_id = self.pick(taken)
                taken[broker_id] = self._seats[broker_id].rack
            for broker_id in taken:
                self._grow(broker_id)
            leader = min((leads.get(each, 0) + added.get(each, 0), each) for each in taken)[1]
            added[leader] = added.get(leader, 0) + 1
            placed.append((leader, *sorted(taken.keys() - {leader})))
        return placed

    def _grow(self, broker_id: int) -> None:
        rack, load = self._seats[broker_id].rack, self._seats[broker_id].load
        self._remove(broker_id)
        self._add(broker_id, rack, load[0] + 1)
        self._touched.add(broker_id)  # the load is a plan until the partition exists

    def _add(self, broker_id: int, rack: str, replicas: int) -> None:
        load = replicas, broker_id
        self._seats[broker_id] = _Seat(rack, load)
        loads = self._racks.setdefault(rack, [])
        if not loads or load < loads[0]:
            self._change_head(rack, loads[0] if loads else None, load)
        insort(loads, load)

    def _remove(self, broker_id: int) -> None:
        seat = self._seats.pop(broker_id, None)
        if seat is None:
            return
        loads = self._racks[seat.rack]
        at = bisect_left(loads, seat.load)
        del loads[at]
        if at == 0:
            self._change_head(seat.rack, seat.load, loads[0] if loads else None)
        if not loads:
            del self._racks[seat.rack]

    def _change_head(self, rack: str, old: Load | None, new: Load | None) -> None:
        if old is not None:
            del self._heads[bisect_left(self._heads, (old, rack))]
        if new is not None:
            insort(self._heads, (new, rack))


def spread_of(brokers: Collection[tuple[int, str, int]]) -> Spread:
    """A spread over these brokers: (id, rack, replicas)."""
    spread = Spread()
    spread.touch(broker_id for broker_id, _, _ in brokers)
    seats = {broker_id: (rack, replicas) for broker_id, rack, replicas in brokers}
    spread.refresh(seats.get)
    return spread
