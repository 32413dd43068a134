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
    heap = [(broker.replicas, broker.broker_id) for broker in brokers.values()]
    heapq.heapify(heap)
    racks = len({broker.rack for broker in brokers.values()})
    return [_place_one(heap, brokers, replication_factor, racks) for _ in range(partitions)]


def _place_one(
    heap: list[tuple[int, int]], brokers: Mapping[int, Candidate], replication_factor: int, racks: int
) -> tuple[int, ...]:
    chosen: list[Candidate] = []
    passed_over: list[Candidate] = []
    used_racks: set[str] = set()
    while len(used_racks) < min(racks, replication_factor):
        _, broker_id = heapq.heappop(heap)
        broker = brokers[broker_id]
        (passed_over if broker.rack in used_racks else chosen).append(broker)
        used_racks.add(broker.rack)
    missing = replication_factor - len(chosen)
    chosen += passed_over[:missing]
    returned = passed_over[missing:] if missing else passed_over
    while len(chosen) < replication_factor:
        chosen.append(brokers[heapq.heappop(heap)[1]])
    leader = min(chosen, key=lambda broker: (broker.leaders, broker.broker_id))
    leader.leaders += 1
    for broker in chosen:
        broker.replicas += 1
    for broker in (*chosen, *returned):
        heapq.heappush(heap, (broker.replicas, broker.broker_id))
    followers = sorted(broker.broker_id for broker in chosen if broker is not leader)
    return (leader.broker_id, *followers)
