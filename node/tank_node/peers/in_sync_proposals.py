"""Proposes in-sync sets to the controllers, for the partitions that this broker leads."""

import logging
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.cluster.link import ChangeOutcome, InSyncChange
from tank_node.partition.leader import PartitionLeader

logger = logging.getLogger(__name__)


class InSyncProposals:
    """Computes the in-sync set of each watched partition, and proposes it when it should change. A proposal
    is sent again until the view shows its outcome."""

    __slots__ = ("_asked", "_limits", "_link", "_metrics", "_watched")

    def __init__(self, broker: Broker) -> None:
        self._link = broker.link
        self._limits = broker.limits
        self._metrics = broker.metrics
        self._watched: dict[PartitionLeader, None] = {}
        """The partitions whose set may have to change as time passes."""
        self._asked: dict[PartitionLeader, tuple[object, int, int]] = {}
        """The proposed set of each partition, when it was last sent, and how often."""

    def watch(self, leadership: PartitionLeader) -> None:
        """Begins to check this partition: a replica may have to join or leave its set."""
        self._watched[leadership] = None

    def forget(self, leadership: PartitionLeader) -> None:
        """Forgets a partition that this broker doesn't lead any more."""
        self._watched.pop(leadership, None)
        self._asked.pop(leadership, None)

    def propose(self, now_ms: int) -> None:
        """Sends the proposals that are due, those of many partitions in one command."""
        changes: list[InSyncChange] = []
        asked: list[tuple[PartitionLeader, int]] = []
        for leadership in list(self._watched):
            try:
                change = self._change(leadership, now_ms)
            except Exception:
                name = leadership.partition.topic_name
                logger.exception(
                    "%s/%d: a bug of ours keeps its in-sync set as it is", name, leadership.number
                )
                del self._watched[leadership]
                continue
            if change is not None:
                changes.append(change)
                asked.append((leadership, self._asked[leadership][2]))
            elif leadership.is_quiet:
                del self._watched[leadership]
        most = self._limits.changes_per_proposal
        for at in range(0, len(changes), most):
            part = changes[at : at + most]
            self._link.requests.propose_in_sync(part, partial(self._judged, part, asked[at : at + most]))

    def _change(self, leadership: PartitionLeader, now_ms: int) -> InSyncChange | None:
        """Returns the proposal to send for one partition now, for the first time or again; None: none is
        due."""
        in_sync = leadership.in_sync
        limits = self._limits
        proposal = in_sync.proposed
        times = 1
        if proposal is None:
            proposal = in_sync.propose(
                now_ms, limits.replica_lag_ms, self._link.broker_epoch, self._epoch_of, self._may_join
            )
            if proposal is None:
                return None
            leadership.count_members()
        else:
            before, sent_ms, times = self._asked[leadership]
            if before is proposal and now_ms - sent_ms < limits.propose_again_ms:
                return None
            times = times + 1 if before is proposal else 1
        self._asked[leadership] = proposal, now_ms, times
        return InSyncChange(
            leadership.topic_id,
            leadership.number,
            leadership.leader_epoch,
            in_sync.partition_epoch,
            proposal,
        )

    def _judged(
        self, changes: list[InSyncChange], asked: list[tuple[PartitionLeader, int]], outcome: ChangeOutcome
    ) -> None:
        """Takes the controllers' answer. The view shows which proposals were accepted. A refusal counts only
        when it answers the last time that the proposal was sent."""
        for change, (leadership, times), result in zip(changes, asked, outcome.results, strict=False):
            last = self._asked.get(leadership)
            if result and last is not None and last[2] == times and last[0] is change.in_sync:
                logger.info(
                    "the in-sync set %s of %s/%d was refused: %s",
                    [broker_id for broker_id, _ in change.in_sync],
                    leadership.partition.topic_name,
                    leadership.number,
                    result.name,
                )
                self._metrics.in_sync_refusals[result.name.lower()] += 1
                leadership.in_sync.refused(change.partition_epoch)
                leadership.count_members()
                self.watch(leadership)

    def _epoch_of(self, broker_id: int) -> int:
        broker = self._link.view.brokers.get(broker_id)
        return 0 if broker is None else broker.epoch

    def _may_join(self, broker_id: int) -> bool:
        broker = self._link.view.brokers.get(broker_id)
        return broker is not None and not (broker.fenced or broker.draining or broker.shutting_down)
