"""Moves of existing replicas: off draining brokers, onto new brokers, apart over racks; the order in which
replicas are preferred as leaders; and more replicas of internal topics. Pure; a bounded step at a time.

Every step improves something (fewer replicas to drain, one rack more, more even loads or leaderships), and
only partitions whose replicas are all in sync are moved to balance. So the moves come to an end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tank_controller import limits
from tank_controller.commands.levels import is_internal
from tank_controller.state.keys import key_of, partition_of, topic_of
from tank_controller.state.model import NO_BROKER, PartitionState, TopicState
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb
from tank_protos.wire.names import INTERNAL_TOPICS

_MAX_STUCK = 20
"""How many brokers without a possible move a tick looks at; the next tick goes on behind them."""


@dataclass(slots=True)
class _Plan:
    """The moves of one tick, and the loads after them."""

    state: ClusterState
    load: dict[int, int]
    """The number of replicas of each broker that takes replicas, without those that are moving away."""
    arriving: dict[int, int]
    """The number of moves to each broker."""
    room: int
    """How many more moves may begin."""
    probes: int
    """How many more partitions may be looked at."""
    first_key: int
    """The partition (key) at which the look at a broker's partitions begins; it wraps around."""
    moves: dict[int, tuple[int, ...]] = field(default_factory=dict)
    """New replicas by key."""
    stopped_at: int = 0
    """The next partition (key) when no more could be looked at; 0 after a complete look."""

    def move(self, key: int, partition: PartitionState, old: int, new: int) -> None:
        """Replaces broker `old` by `new` in one partition."""
        replicas = self.moves.get(key, partition.replicas)
        self.moves[key] = tuple(new if each == old else each for each in replicas)
        self.load[new] += 1
        self.arriving[new] = self.arriving.get(new, 0) + 1
        if old in self.load:
            self.load[old] -= 1
        self.room -= 1

    def add(self, key: int, partition: PartitionState, new: int) -> None:
        """Gives one partition a replica more."""
        self.moves[key] = (*self.moves.get(key, partition.replicas), new)
        self.load[new] += 1
        self.arriving[new] = self.arriving.get(new, 0) + 1
        self.room -= 1

    def takes(self, broker_id: int) -> bool:
        """Whether the broker may get one more replica now."""
        if self.state.brokers[broker_id].no_room:
            return False
        if self.arriving.get(broker_id, 0) >= limits.MAX_MOVING_TO_BROKER:
            return False
        return self.load[broker_id] < limits.MAX_REPLICAS_PER_BROKER

    def probe(self) -> bool:
        """Whether another partition may be looked at in this tick."""
        self.probes -= 1
        return self.probes >= 0

    def held_by(self, broker_id: int) -> Iterator[int]:
        """The broker's partitions, as many as this tick may still look at."""
        for key in self.state.held_by(broker_id).since(self.first_key):
            if not self.probe():
                self.stopped_at = self.stopped_at or key
                return
            yield key


class Balance:
    """The moves that one leader proposes in one term."""

    def __init__(self) -> None:
        self.even = False
        """Whether the last look found nothing to improve, and nothing has moved since."""
        self._rest_until_ms = 0
        self._brokers: frozenset[int] = frozenset()
        """The brokers that took replicas at the last call."""
        self._round: list[int] = []
        """Topics whose racks have yet to be looked at in this round, the next one last."""
        self._next_partition = 0
        self._first_key = 0
        """The partition (key) at which the last tick stopped; the next tick goes on there."""

    def look_again(self) -> None:
        """Makes the next call look at everything again."""
        self.even = False
        self._rest_until_ms = 0
        self._round, self._next_partition = [], 0

    def moves(self, state: ClusterState, now_ms: int) -> list[pb.Placed]:
        """The moves to propose now."""
        takers = frozenset(b.broker_id for b in state.brokers.values() if not (b.fenced or b.leaves))
        if not takers:
            return []
        plan = _plan(state, takers, self._first_key)
        self._drain(plan)
        _add_to_internal(plan)
        if takers != self._brokers:
            self._brokers = takers
            self.look_again()
        if now_ms >= self._rest_until_ms and not plan.moves:
            round_is_over = self._spread_racks(plan)
            self._even_loads(plan)
            if not plan.moves:
                plan.moves.update(_even_leaders(plan))
            self._first_key = plan.stopped_at
            all_seen = round_is_over and plan.probes > 0
            if not plan.moves and all_seen and not state.derived.moving:
                self._rest_until_ms = now_ms + limits.BALANCED_FOR_MS
                self.even = True
        if plan.moves:
            self.even = False
        return [
            pb.Placed(topic_id=topic_of(key), partition=partition_of(key), replicas=replicas)
            for key, replicas in plan.moves.items()
        ]

    def _drain(self, plan: _Plan) -> None:
        """Moves replicas off draining brokers, whether or not the other replicas are in sync."""
        for broker in plan.state.brokers.values():
            if not broker.draining:
                continue
            for key in plan.state.held_by(broker.broker_id):
                if plan.room <= 0 or not plan.probe():
                    return
                _, partition = plan.state.find(key)
                if partition.moves or partition.leader == NO_BROKER:
                    continue
                taken = plan.moves.get(key, partition.replicas)
                if new := _pick(plan, taken, broker.broker_id):
                    plan.move(key, partition, broker.broker_id, new)

    def _spread_racks(self, plan: _Plan) -> bool:
        """Moves replicas that share a rack to racks without one. Returns True at the end of a round."""
        racks = {plan.state.brokers[broker_id].rack for broker_id in plan.load}
        if len(racks) < 2:
            return True
        if not self._round:
            self._round = sorted(plan.state.topics, reverse=True)
        for key, partition in self._next_partitions(plan):
            if plan.room <= 0:
                return False
            rack_of = {each: plan.state.brokers[each].rack for each in partition.replicas}
            used = set(rack_of.values())
            if len(used) == len(rack_of) or not racks - used or not _is_whole(partition):
                continue
            shared = [each for each in rack_of if list(rack_of.values()).count(rack_of[each]) > 1]
            old = max(shared, key=lambda each: (plan.load.get(each, 0), each))
            new = _pick(plan, partition.replicas, old)
            if new and plan.state.brokers[new].rack not in used:
                plan.move(key, partition, old, new)
        return not self._round

    def _next_partitions(self, plan: _Plan) -> Iterator[tuple[int, PartitionState]]:
        while self._round:
            topic = plan.state.topics.get(self._round[-1])
            if topic is None or self._next_partition >= len(topic.partitions):
                self._round.pop()
                self._next_partition = 0
                continue
            if not plan.probe():
                return
            number = self._next_partition
            self._next_partition += 1
            yield topic.topic_id << 16 | number, topic.partitions[number]

    def _even_loads(self, plan: _Plan) -> None:
        """Moves replicas from the most to the least loaded brokers."""
        stuck: set[int] = set()
        slack = max(2, sum(plan.load.values()) // len(plan.load) // 20)
        while plan.room > 0 and plan.probes > 0:
            donors = [each for each in plan.load if each not in stuck]
            takers = [each for each in plan.load if plan.takes(each)]
            if not donors or not takers:
                return
            old = max(donors, key=lambda each: (plan.load[each], each))
            new = min(takers, key=lambda each: (plan.load[each], each))
            if plan.load[old] - plan.load[new] < slack:
                return
            if not _move_one(plan, old, new):
                stuck.add(old)
                if len(stuck) == _MAX_STUCK:
                    return


def raised_factors(state: ClusterState) -> list[pb.Command]:
    """The commands that raise internal topics' factors to the numbers of replicas that all partitions have.
    Not before: with the factor rises how many replicas must be in sync."""
    found = []
    for topic in _internal_topics(state):
        if any(partition.moves for partition in topic.partitions):
            continue
        factor = min(len(partition.replicas) for partition in topic.partitions)
        if factor > topic.replication_factor:
            alter = pb.AlterTopic(topic_id=topic.topic_id, replication_factor=factor)
            found.append(pb.Command(alter_topic=alter))
    return found


def _internal_topics(state: ClusterState) -> Iterator[TopicState]:
    for name in sorted(INTERNAL_TOPICS):
        topic = state.topic(name)
        if topic is not None and is_internal(state, topic):
            yield topic


def _add_to_internal(plan: _Plan) -> None:
    """Gives partitions of internal topics more replicas, as brokers join: what the first broker alone has
    kept must not stay on it alone. `raised_factors` raises the topics' factors afterwards."""
    wanted = min(len(plan.load), limits.DEFAULT_REPLICATION_FACTOR)
    for topic in _internal_topics(plan.state):
        for number, partition in enumerate(topic.partitions):
            key = key_of(topic.topic_id, number)
            if partition.moves or partition.leader == NO_BROKER or key in plan.moves:
                continue
            for _ in range(len(partition.replicas), wanted):
                new = _pick(plan, plan.moves.get(key, partition.replicas), NO_BROKER)
                if new == NO_BROKER or plan.room <= 0:
                    break
                plan.add(key, partition, new)


def _plan(state: ClusterState, takers: frozenset[int], first_key: int) -> _Plan:
    load = {broker_id: len(state.held_by(broker_id)) for broker_id in sorted(takers)}
    arriving: dict[int, int] = {}
    for key in state.derived.moving:
        _, partition = state.find(key)
        for broker_id in partition.adding:
            arriving[broker_id] = arriving.get(broker_id, 0) + 1
        for broker_id in partition.removing:
            if broker_id in load:
                load[broker_id] -= 1
    room = limits.MAX_MOVING - len(state.derived.moving)
    return _Plan(state, load, arriving, room, limits.MAX_PROBES_PER_TICK, first_key)


def _pick(plan: _Plan, replicas: tuple[int, ...], old: int) -> int:
    """The least loaded broker to replace `old`; 0 when there is none, or when it has enough moves
    under way.
    """
    brokers = plan.state.brokers
    taken = {each: brokers[each].rack for each in replicas if each != old}
    racks = set(taken.values())
    free = [each for each in plan.load if each not in replicas]
    if not free:
        return NO_BROKER
    best = min(free, key=lambda each: (brokers[each].rack in racks, plan.load[each], each))
    return best if plan.takes(best) else NO_BROKER


def _move_one(plan: _Plan, old: int, new: int) -> bool:
    """Moves one partition from `old` to `new`, if one can move without harm; returns whether it did."""
    brokers = plan.state.brokers
    for key in plan.held_by(old):
        _, partition = plan.state.find(key)
        if key in plan.moves or new in partition.replicas or not _is_whole(partition):
            continue
        racks = {brokers[each].rack for each in partition.replicas if each != old}
        if brokers[new].rack not in racks or brokers[old].rack in racks:
            plan.move(key, partition, old, new)
            return True
    return False


def _even_leaders(plan: _Plan) -> dict[int, tuple[int, ...]]:
    """New orders of the same replicas, so that each broker is preferred about as often as the others."""
    state = plan.state
    preferred = {each: state.derived.preferred[each] for each in plan.load}
    swaps: dict[int, tuple[int, ...]] = {}
    slack = max(2, sum(preferred.values()) // len(preferred) // 10)
    for old in sorted(preferred, key=lambda each: (-preferred[each], each)):
        if preferred[old] - min(preferred.values()) < slack:
            break
        for key in plan.held_by(old):
            if len(swaps) >= limits.MAX_MOVING:
                return swaps
            _, partition = state.find(key)
            if partition.replicas[0] != old or key in swaps or not _is_whole(partition):
                continue
            others = [each for each in partition.replicas[1:] if each in preferred]
            new = min(others, key=lambda each: (preferred[each], each), default=NO_BROKER)
            if new == NO_BROKER or preferred[old] - preferred[new] < slack:
                continue
            swaps[key] = (new, *(each for each in partition.replicas if each != new))
            preferred[old] -= 1
            preferred[new] += 1
    return swaps


def _is_whole(partition: PartitionState) -> bool:
    """Whether all its replicas are in sync and stay where they are."""
    return not partition.moves and len(partition.in_sync) == len(partition.replicas)
