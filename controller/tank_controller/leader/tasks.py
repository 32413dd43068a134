"""The leading controller's own tasks: it restores preferred leaders, begins and ends moves, drains and
balances brokers, queries ends of logs, and deletes large streams. Pure; in bounded steps.

The tasks keep nothing over a change of leader. Each command is checked again when it is applied, so a command
that no longer fits the state is refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice

from tank_controller import limits
from tank_controller.commands.elections import Elections
from tank_controller.commands.reassignment import may_cancel, may_finish
from tank_controller.leader.balance import Balance, raised_factors
from tank_controller.leader.going_streams import going_on
from tank_controller.leader.log_ends import LogEndQueries, LogEndQuery
from tank_controller.leader.scaling import Scaling
from tank_controller.state.keys import partition_of, topic_of
from tank_controller.state.state import ClusterState
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True)
class Work:
    """The commands to propose and the queries to send now."""

    commands: list[pb.Command] = field(default_factory=list)
    asks: list[LogEndQuery] = field(default_factory=list)


class LeaderTasks:
    """One leader's tasks, for one term. Times in ms of a clock that never goes back."""

    def __init__(self, scaling: Scaling | None = None) -> None:
        """`scaling` has the wanted number of brokers; None: no number is wanted."""
        self._scaling = scaling or Scaling()
        self._scaling.begin_term()
        self._questions = LogEndQueries()
        self._balance = Balance()
        self._since: dict[int, tuple[int, bool, int]] = {}
        """By broker id: (epoch, whether it is fenced, since when it is so)."""
        self._next_ms = 0
        self._displaced: list[int] = []
        """Partitions (keys) that have yet to be looked at in this round."""
        self._leaving: dict[int, int] = {}
        """By leaving broker: the partition (key) at which the next look at its leaderships begins."""

    def tick(self, state: ClusterState, now_ms: int) -> Work:
        """The work that is due. Call it again only when the commands were applied or refused."""
        work = Work()
        if now_ms < self._next_ms:
            return work
        self._next_ms = now_ms + limits.LEADER_TASKS_EVERY_MS
        self._look_at_brokers(state, now_ms)
        work.commands, work.asks = self._questions.tick(state, now_ms)
        work.commands += (scaled := self._scaling.commands(state, now_ms))
        if to_elect := self._to_elect(state, now_ms):
            work.commands.append(pb.Command(elect_leader=pb.ElectLeader(partitions=to_elect)))
        moving = sorted(state.derived.moving)
        if finished := _refs(key for key in moving if may_finish(*state.find(key))):
            work.commands.append(pb.Command(finish_reassign=pb.FinishReassign(partitions=finished)))
        if stuck := self._stuck(state, moving, now_ms):
            work.commands.append(pb.Command(cancel_reassign=pb.CancelReassign(partitions=stuck)))
        work.commands += raised_factors(state)
        work.commands += going_on(state)
        # Brokers that these commands drain are not marked in `state` yet, so moves to them must wait for the
        # next tick.
        if not _marks_a_taker(state, scaled) and (moves := self._balance.moves(state, now_ms)):
            work.commands.append(pb.Command(reassign=pb.Reassign(partitions=moves)))
        return work

    @property
    def balanced(self) -> bool:
        """Whether the last look found loads and leaders as even as possible."""
        return self._balance.even

    def balance(self) -> None:
        """Makes the next tick look for uneven loads and leaders."""
        self._balance.look_again()

    def ends(self, broker_id: int, broker_epoch: int, answer: pb.LogEnds, now_ms: int) -> None:
        """A broker's answer to a LogEndQuery."""
        self._questions.take(broker_id, broker_epoch, answer.question, answer.ends, now_ms)

    def unreadable(self, topic_id: int, number: int) -> list[int]:
        """The brokers that can't read their log of a partition that waits for a lossy election."""
        return self._questions.unreadable(topic_id, number)

    def by_ends(self, state: ClusterState, command: pb.Command) -> pb.Command:
        """The command to propose for an operator's command, see `LogEndQueries.by_ends`. Raises Rejected."""
        return self._questions.by_ends(state, command)

    def may_stop(self, state: ClusterState, broker_id: int) -> bool:
        """Whether a broker that shuts down leads no partition that another could lead, now or soon."""
        if not state.derived.led[broker_id]:
            return True
        for key in state.held_by(broker_id):
            _, partition = state.find(key)
            if partition.leader != broker_id:
                continue
            for other in partition.replicas:
                broker = state.brokers[other]
                if other != broker_id and not broker.fenced and not broker.shutting_down:
                    return False
        return True

    def _look_at_brokers(self, state: ClusterState, now_ms: int) -> None:
        before, self._since = self._since, {}
        for broker in state.brokers.values():
            epoch, fenced, since_ms = before.get(broker.broker_id, (broker.epoch, broker.fenced, now_ms))
            same = (epoch, fenced) == (broker.epoch, broker.fenced)
            self._since[broker.broker_id] = broker.epoch, broker.fenced, since_ms if same else now_ms

    def _have_been(self, *, fenced: bool, since_ms: int) -> set[int]:
        """The brokers that have been fenced, or not fenced, since then."""
        return {each for each, seen in self._since.items() if seen[1] is fenced and seen[2] <= since_ms}

    def _stuck(self, state: ClusterState, moving: list[int], now_ms: int) -> list[pb.PartitionRef]:
        """The moves to brokers that leave or stay away: these moves would never end, and hold up others."""
        gone = self._have_been(fenced=True, since_ms=now_ms - limits.GONE_AFTER_MS)
        away = gone | {broker.broker_id for broker in state.brokers.values() if broker.draining}
        if not away:
            return []
        found = []
        for key in moving:
            topic, partition = state.find(key)
            lost = not away.isdisjoint(partition.adding)
            if lost and may_cancel(topic, partition) and not may_finish(topic, partition):
                found.append(key)
        return _refs(found)

    def _to_elect(self, state: ClusterState, now_ms: int) -> list[pb.PartitionRef]:
        """The partitions whose leader should change: to the preferred replica, or off a leaving broker."""
        elections = Elections(state)
        steady = self._have_been(fenced=False, since_ms=now_ms - limits.LEADERSHIP_SETTLES_MS)
        found = []
        for key in self._some_displaced(state):
            _, partition = state.find(key)
            best = elections.best(partition.in_sync)
            if best != partition.leader and (best in steady or state.brokers[partition.leader].steps_aside):
                found.append(key)
        for key in self._some_that_leave(state):
            _, partition = state.find(key)
            leader = state.brokers.get(partition.leader)
            if leader is None or not leader.steps_aside:
                continue
            if elections.best(partition.in_sync) != partition.leader:
                found.append(key)
        return _refs(dict.fromkeys(found))

    def _some_displaced(self, state: ClusterState) -> list[int]:
        """A bounded number of displaced partitions, each in its turn: while a broker is away there may be
        many that can't be mended."""
        displaced = state.derived.displaced
        if not self._displaced:
            self._displaced = sorted(displaced, reverse=True)
        some = self._displaced[-limits.MAX_PROBES_PER_TICK :]
        del self._displaced[-limits.MAX_PROBES_PER_TICK :]
        return [key for key in reversed(some) if key in displaced]

    def _some_that_leave(self, state: ClusterState) -> list[int]:
        """A bounded number of the partitions that brokers still lead which should not, each in its turn:
        partitions without another live replica can't be moved.
        """
        brokers = state.brokers.values()
        leaving = [b.broker_id for b in brokers if b.steps_aside and state.derived.led[b.broker_id]]
        share = max(1, limits.MAX_PROBES_PER_TICK // max(1, len(leaving)))
        some: list[int] = []
        for broker_id in leaving:
            held = state.held_by(broker_id)
            looked_at = list(islice(held.since(self._leaving.get(broker_id, 0)), share))
            some += looked_at
            self._leaving[broker_id] = looked_at[-1] + 1  # a broker that leads holds a partition
        self._leaving = {each: self._leaving[each] for each in leaving}
        return some


def _marks_a_taker(state: ClusterState, commands: Iterable[pb.Command]) -> bool:
    """Whether one of these commands marks a broker that takes replicas now; a fenced one takes none."""
    marked = (each.set_broker.broker_id for each in commands if each.HasField("set_broker"))
    return any(not state.brokers[broker_id].fenced for broker_id in marked)


def _refs(keys: Iterable[int]) -> list[pb.PartitionRef]:
    """References to these partitions, as many as a command may have."""
    named = [pb.PartitionRef(topic_id=topic_of(key), partition=partition_of(key)) for key in keys]
    return named[: limits.MAX_PARTITIONS_PER_COMMAND]
