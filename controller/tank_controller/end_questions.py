"""Before a lossy election: every replica's broker is asked where its log ends. Pure.

A broker has one question at a time, and its answer is to all of it: a replica that the answer leaves out has
nothing to lead with. A question without an answer is asked again as it was.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tank_controller import limits
from tank_controller.cluster_state import ClusterState
from tank_controller.partition_commands import waits_for_ends
from tank_controller.partition_keys import key_of, partition_of, topic_of
from tank_controller.state_parts import PartitionState
from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class Ask:
    """A broker that is to say where replicas end."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[tuple[int, int], ...]
    """(topic id, partition)."""


@dataclass(slots=True)
class _Question:
    broker_epoch: int
    keys: tuple[int, ...]
    asked_ms: int


@dataclass(slots=True)
class _Case:
    """A partition that waits for a lossy election."""

    since_ms: int
    ends: dict[int, pb.ReplicaEnd] = field(default_factory=dict)
    """By broker id."""


class EndQuestions:
    """What the leading controller asked, and was told."""

    def __init__(self) -> None:
        self._cases: dict[int, _Case] = {}
        self._open: dict[int, _Question] = {}
        """By broker id."""

    def tick(self, state: ClusterState, now_ms: int) -> tuple[list[pb.Command], list[Ask]]:
        """Elections for which enough is known, and what to ask for the others."""
        waiting = [
            key for key in sorted(state.derived.leaderless) if waits_for_ends(state, state.find(key)[1])
        ]
        self._cases = {key: self._cases.get(key) or _Case(now_ms) for key in waiting}
        for broker_id, question in list(self._open.items()):
            broker = state.brokers.get(broker_id)
            if broker is None or broker.epoch != question.broker_epoch:
                del self._open[broker_id]  # that process will not answer
        elections: list[pb.Command] = []
        missing: dict[int, list[int]] = {}
        for key in waiting[: limits.MAX_PARTITIONS_PER_COMMAND]:
            _, partition = state.find(key)
            case = self._cases[key]
            silent = self._silent(state, partition, case)
            for broker_id in silent:
                missing.setdefault(broker_id, []).append(key)
            waited = now_ms - case.since_ms >= limits.WAIT_FOR_ENDS_MS
            if not silent or (waited and not set(silent) & set(partition.eligible)):
                elections.extend(_election(key, case))
        return elections, list(self._asks(state, missing, now_ms))

    def take(self, broker_id: int, broker_epoch: int, ends: Sequence[pb.LogEnd]) -> None:
        """A broker's answer. What it wasn't asked is passed over."""
        question = self._open.get(broker_id)
        if question is None or question.broker_epoch != broker_epoch:
            return
        del self._open[broker_id]
        said = {key_of(end.topic_id, end.partition & 0xFFFF): end for end in ends}
        for key in question.keys:
            if (case := self._cases.get(key)) is None:
                continue
            end = said.get(key)
            case.ends[broker_id] = pb.ReplicaEnd(
                broker_id=broker_id,
                broker_epoch=broker_epoch,
                epoch_at_end=0 if end is None else end.epoch_at_end,
                end=0 if end is None else end.end,
                unusable=end is None,
                damaged=end is not None and end.damaged,
            )

    def _silent(self, state: ClusterState, partition: PartitionState, case: _Case) -> list[int]:
        """The brokers that live, hold a replica, and have not said where it ends."""
        silent = []
        for broker_id in partition.replicas:
            broker = state.brokers[broker_id]
            end = case.ends.get(broker_id)
            if not broker.fenced and (end is None or end.broker_epoch != broker.epoch):
                silent.append(broker_id)
        return silent

    def _asks(self, state: ClusterState, missing: dict[int, list[int]], now_ms: int) -> Iterable[Ask]:
        for broker_id, keys in sorted(missing.items()):
            question = self._open.get(broker_id)
            if question is None:
                question = self._open[broker_id] = _Question(
                    state.brokers[broker_id].epoch, tuple(keys), now_ms
                )
            elif now_ms - question.asked_ms >= limits.ASK_ENDS_AGAIN_MS:
                question.asked_ms = now_ms
            else:
                continue
            partitions = tuple((topic_of(key), partition_of(key)) for key in question.keys)
            yield Ask(broker_id, question.broker_epoch, partitions)


def _election(key: int, case: _Case) -> list[pb.Command]:
    ends = [case.ends[broker_id] for broker_id in sorted(case.ends)]
    if all(end.unusable for end in ends):
        return []  # it waits: for an operator, or for another disk
    lossy = pb.ElectLossy(topic_id=topic_of(key), partition=partition_of(key), ends=ends)
    return [pb.Command(elect_lossy=lossy)]
