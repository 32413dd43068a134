"""Queries before a lossy election: the broker of every replica is asked for the end of its log. Pure.

A broker has one query at a time, and one answer to all of it. A replica that is missing in the answer can't
lead now, and is queried again a little later. While such a replica is eligible, the partition waits, because
a restart may bring its disk back. An operator may end the wait; then the replica with the greatest known end
leads. A query without an answer is repeated under its number, so that a second answer isn't taken for the
answer to the next query.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tank_controller import limits
from tank_controller.commands.outcome import Rejected
from tank_controller.commands.partitions import waits_for_ends
from tank_controller.state.keys import key_of, partition_of, topic_of
from tank_controller.state.model import PartitionState
from tank_controller.state.state import ClusterState
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class LogEndQuery:
    """A query to one broker for the ends of its replicas' logs."""

    broker_id: int
    broker_epoch: int
    question: int
    """The query's number, which the answer repeats."""
    partitions: tuple[tuple[int, int], ...]
    """The partitions, as (topic id, partition)."""


@dataclass(slots=True)
class _Question:
    number: int
    broker_epoch: int
    keys: tuple[int, ...]
    asked_ms: int


@dataclass(slots=True)
class _Case:
    """A partition that waits for a lossy election."""

    since_ms: int
    ends: dict[int, pb.ReplicaEnd] = field(default_factory=dict)
    """The ends that brokers answered, by broker id."""
    unusable_ms: dict[int, int] = field(default_factory=dict)
    """By broker id: when the broker answered without this replica, which it may be able to open later."""


class LogEndQueries:
    """The leading controller's queries, and the answers so far."""

    def __init__(self) -> None:
        self._cases: dict[int, _Case] = {}
        self._open: dict[int, _Question] = {}
        """By broker id."""
        self._asked = 0
        """The number of the last query."""
        self._round: list[int] = []
        """Partitions (keys) that have yet to be looked at in this round."""

    def tick(self, state: ClusterState, now_ms: int) -> tuple[list[pb.Command], list[LogEndQuery]]:
        """Returns the elections for which enough ends are known, and the queries for the others."""
        self._choose(state, now_ms)
        for broker_id, question in list(self._open.items()):
            broker = state.brokers.get(broker_id)
            # that process has ended, and will not answer
            ended = broker is None or broker.epoch != question.broker_epoch
            if ended or self._cases.keys().isdisjoint(question.keys):
                del self._open[broker_id]
        elections: list[pb.Command] = []
        missing: dict[int, list[int]] = {}
        for key, case in sorted(self._cases.items()):
            _, partition = state.find(key)
            _forget_old_answers(state, case)
            silent = _silent(state, partition, case, now_ms)
            for broker_id in silent:
                missing.setdefault(broker_id, []).append(key)
            waited = now_ms - case.since_ms >= limits.WAIT_FOR_ENDS_MS
            if not silent or (waited and not set(silent) & set(partition.eligible)):
                elections.extend(_election(key, partition, case))
        return elections, list(self._asks(state, missing, now_ms))

    def unreadable(self, topic_id: int, number: int) -> list[int]:
        """The brokers whose last answer was that they can't read their replica of this partition."""
        case = self._cases.get(key_of(topic_id, number))
        return [] if case is None else sorted(each for each, end in case.ends.items() if end.unusable)

    def by_ends(self, state: ClusterState, command: pb.Command) -> pb.Command:
        """The command to propose in place of an operator's command.

        An unclean election of one partition becomes a lossy one where ends are known: the replica with the
        greatest end leads, and replicas without an answer are given up. It stays unclean while no usable end
        is known, and only replicas that were behind have yet to answer. All other commands stay as they are.
        Raises Rejected for an unclean election of several partitions.
        """
        elect = command.elect_leader
        if elect.kind != pb.ElectLeader.UNCLEAN or not elect.partitions:
            return command
        if len(elect.partitions) > 1:  # an election of several partitions can't go by the ends of their logs
            message = (
                "an unclean election is for one partition, because it depends on the ends of its "
                "replicas' logs: elect them one by one"
            )
            raise Rejected(ErrorCode.INVALID_REQUEST, message)
        (ref,) = elect.partitions
        partition = state.partition(ref.topic_id, ref.partition)
        if partition is None or not waits_for_ends(state, partition):
            return command
        case = self._cases.get(key_of(ref.topic_id, ref.partition))
        known = {} if case is None else {each: case.ends[each] for each in sorted(case.ends)}
        usable = any(not end.unusable for end in known.values())
        silent = {each for each in partition.replicas if each not in known and not state.brokers[each].fenced}
        only_behind = bool(silent) and silent.isdisjoint(partition.eligible)
        if not known or (only_behind and not usable):
            return command
        given_up = [
            pb.ReplicaEnd(broker_id=each, broker_epoch=state.brokers[each].epoch, unusable=True)
            for each in partition.eligible
            if each in silent and usable
        ]
        lossy = pb.ElectLossy(
            topic_id=ref.topic_id, partition=ref.partition, ends=[*known.values(), *given_up]
        )
        return pb.Command(elect_lossy=lossy, now_ms=command.now_ms)

    def _choose(self, state: ClusterState, now_ms: int) -> None:
        """Chooses a bounded number of partitions to query; partitions that have waited too long make room for
        others.
        """
        doubtful = state.derived.doubtful
        for key, case in list(self._cases.items()):
            in_vain = now_ms - case.since_ms >= limits.CASE_IN_VAIN_MS and len(doubtful) > len(self._cases)
            if in_vain or key not in doubtful or not waits_for_ends(state, state.find(key)[1]):
                del self._cases[key]
        if not self._round:
            self._round = sorted(doubtful, reverse=True)
        probes = limits.MAX_PROBES_PER_TICK
        while self._round and probes and len(self._cases) < limits.MAX_PARTITIONS_PER_COMMAND:
            key = self._round.pop()
            probes -= 1
            if key in doubtful and key not in self._cases and waits_for_ends(state, state.find(key)[1]):
                self._cases[key] = _Case(now_ms)

    def take(
        self, broker_id: int, broker_epoch: int, number: int, ends: Sequence[pb.LogEnd], now_ms: int
    ) -> None:
        """Takes a broker's answer to the query of this number. Partitions beyond the query are ignored."""
        question = self._open.get(broker_id)
        if question is None or (question.broker_epoch, question.number) != (broker_epoch, number):
            return
        del self._open[broker_id]
        said = {key_of(end.topic_id, end.partition & 0xFFFF): end for end in ends}
        for key in question.keys:
            if (case := self._cases.get(key)) is None:
                continue
            end = said.get(key)
            if end is None:
                case.unusable_ms[broker_id] = now_ms
            case.ends[broker_id] = pb.ReplicaEnd(
                broker_id=broker_id,
                broker_epoch=broker_epoch,
                epoch_at_end=0 if end is None else end.epoch_at_end,
                end=0 if end is None else end.end,
                unusable=end is None,
                damaged=end is not None and end.damaged,
            )

    def _asks(self, state: ClusterState, missing: dict[int, list[int]], now_ms: int) -> Iterable[LogEndQuery]:
        for broker_id, keys in sorted(missing.items()):
            question = self._open.get(broker_id)
            if question is None:
                self._asked += 1
                question = self._open[broker_id] = _Question(
                    self._asked, state.brokers[broker_id].epoch, tuple(keys), now_ms
                )
            elif now_ms - question.asked_ms >= limits.ASK_ENDS_AGAIN_MS:
                question.asked_ms = now_ms
            else:
                continue
            partitions = tuple((topic_of(key), partition_of(key)) for key in question.keys)
            yield LogEndQuery(broker_id, question.broker_epoch, question.number, partitions)


def _forget_old_answers(state: ClusterState, case: _Case) -> None:
    """Drops the answers of earlier processes."""
    for broker_id, end in list(case.ends.items()):
        broker = state.brokers.get(broker_id)
        if broker is None or broker.epoch != end.broker_epoch:
            del case.ends[broker_id]


def _silent(state: ClusterState, partition: PartitionState, case: _Case, now_ms: int) -> list[int]:
    """The live brokers of replicas whose ends are not known; one that can't read its replica is queried again
    after a while.
    """

    def has_said(broker_id: int) -> bool:
        end = case.ends.get(broker_id)
        if end is None:
            return False
        return not end.unusable or now_ms - case.unusable_ms[broker_id] < limits.ASK_ENDS_AGAIN_MS

    return [each for each in partition.replicas if not has_said(each) and not state.brokers[each].fenced]


def _election(key: int, partition: PartitionState, case: _Case) -> list[pb.Command]:
    if any(case.ends[broker_id].unusable for broker_id in partition.eligible):
        return []  # the partition waits until a replica can be opened after all, or an operator decides
    ends = [case.ends[broker_id] for broker_id in sorted(case.ends)]
    lossy = pb.ElectLossy(topic_id=topic_of(key), partition=partition_of(key), ends=ends)
    return [pb.Command(elect_lossy=lossy)]
