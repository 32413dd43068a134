"""Where replicas of new partitions go. Pure: the same state gives the same placement on every controller."""

import heapq
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class Candidate:
    """A broker that may take replicas, with what it holds already."""

    broker_id: int
    rack: str
    replicas: int = 0
    leaders: int = 0


def place(
    brokers: Mapping[int, Candidate], partitions: int, replication_factor: int
) -> list[tuple[int, ...]]:
    """Replicas for each new partition, the preferred leader first. The candidates' loads grow with it.

    The least loaded brokers come first, but a rack that has a replica of the partition only when no other is
    left. The leader is the one that leads least. There must be `replication_factor` brokers.
    """
    assert 1 <= replication_factor <= len(brokers)
    racks: _Racks = {}
    for broker in brokers.values():
        racks.setdefault(broker.rack, []).append((broker.replicas, broker.broker_id))
    for heap in racks.values():
        heapq.heapify(heap)
    return [_place_one(racks, brokers, replication_factor) for _ in range(partitions)]


_Racks = dict[str, list[tuple[int, int]]]
"""For each rack a heap of (replicas, broker id): among a thousand brokers a search would be too slow."""


def _place_one(racks: _Racks, brokers: Mapping[int, Candidate], replication_factor: int) -> tuple[int, ...]:
    chosen: list[Candidate] = []
    used: set[str] = set()
    while len(chosen) < replication_factor:
        free = [rack for rack, heap in racks.items() if heap and rack not in used]
        rack = min(free or [rack for rack, heap in racks.items() if heap], key=lambda rack: racks[rack][0])
        used.add(rack)
        chosen.append(brokers[heapq.heappop(racks[rack])[1]])
    leader = min(chosen, key=lambda broker: (broker.leaders, broker.broker_id))
    leader.leaders += 1
    for broker in chosen:
        broker.replicas += 1
        heapq.heappush(racks[broker.rack], (broker.replicas, broker.broker_id))
    followers = sorted(broker.broker_id for broker in chosen if broker is not leader)
    return (leader.broker_id, *followers)
