"""Leader epochs that were heard in a push before this node's view had them: whether and how long they are
believed.

A leader pushes only after its election was committed. So a view with everything that was committed when the
push came must have that epoch; if it doesn't, no leader was given the epoch, and the claim is refuted. While
the controllers can't be asked for such a view, the epoch stays believed. See
docs/decisions/0023-believed-epochs.md.
"""

import logging
from collections.abc import Callable
from typing import NamedTuple

from tank_node.cluster.link import ControllerLink
from tank_node.limits import BELIEF_MS
from tank_node.metrics import Metrics
from tank_node.partition.partition import Partition

logger = logging.getLogger(__name__)


class Claim(NamedTuple):
    """A leader epoch above the view's, and the process that pushed in it."""

    leader_epoch: int
    heard_ms: int
    """When the push came (monotonic)."""
    broker_id: int
    broker_epoch: int

    @property
    def text(self) -> str:
        """A sentence for operators."""
        return (
            f"it believes leader epoch {self.leader_epoch}, which broker {self.broker_id} pushed in and the "
            "view doesn't have, until the controllers can be asked"
        )


class Beliefs:
    """The leader epochs that the partitions of one node know from pushes alone."""

    def __init__(
        self,
        link: ControllerLink,
        metrics: Metrics,
        view_epoch: Callable[[Partition], int | None],
        give_up: Callable[[Partition], None],
    ) -> None:
        """view_epoch: returns a partition's leader epoch in the view; None when it is no longer here.
        give_up: gives a partition the role that the view says."""
        self._link = link
        self._metrics = metrics
        self._view_epoch = view_epoch
        self._give_up = give_up
        self._claims: dict[Partition, Claim] = {}
        """The newest claim of each partition, until the view has an epoch as high."""
        self._distrusted: set[tuple[int, int]] = set()
        """(broker id, broker epoch) of processes with a refuted claim, whose further claims are not believed.
        `tick` removes those that are not in the view."""
        self._asks = False

    def accept(self, partition: Partition, claim: Claim, replicas: tuple[int, ...]) -> bool:
        """Decides whether a claim is believed; if so, the partition takes over the epoch. replicas: the
        partition's brokers in the view. Claims of other brokers, and of distrusted processes, are not
        believed."""
        if claim.broker_id not in replicas or (claim.broker_id, claim.broker_epoch) in self._distrusted:
            self._metrics.refused["unknown_leader_epoch"] += 1
            return False
        self._claims[partition] = claim
        partition.believe(claim.leader_epoch)
        return True

    def held(self, now_ms: int) -> dict[Partition, Claim]:
        """The claims that are older than BELIEF_MS, so that the view should have their epochs by now."""
        if not self._claims:
            return {}
        return {each: claim for each, claim in self._claims.items() if now_ms - claim.heard_ms >= BELIEF_MS}

    def tick(self, now_ms: int) -> None:
        """Drops claims that the view has caught up with, and asks for a current view to judge older ones.
        Call it some 20 times a second."""
        if not self._claims:
            return
        for partition in list(self._claims):
            epoch = self._view_epoch(partition)
            if epoch is None or epoch >= partition.leader_epoch:
                del self._claims[partition]
        due = [each for each in self._claims.items() if now_ms - each[1].heard_ms >= BELIEF_MS]
        if not due or self._asks or not self._link.connected:
            return
        brokers = self._link.view.brokers.values()
        self._distrusted &= {(broker.broker_id, broker.epoch) for broker in brokers}
        self._asks = True
        self._link.requests.await_view(lambda known: self._judge(due, known=known))

    def _judge(self, due: list[tuple[Partition, Claim]], *, known: bool) -> None:
        """Judges claims. known: whether the view has everything that was committed when the claims came."""
        self._asks = False
        if not known:
            return
        for partition, claim in due:
            epoch = self._view_epoch(partition)
            if epoch is None or epoch >= claim.leader_epoch:
                continue
            self._distrusted.add((claim.broker_id, claim.broker_epoch))
            if self._claims.get(partition) is claim:  # a later claim may be true, and is judged later
                del self._claims[partition]
                self._refute(partition, claim, epoch)

    def _refute(self, partition: Partition, claim: Claim, epoch: int) -> None:
        self._metrics.refuted_epochs += 1
        log = partition.log
        logger.error(
            "%s/%d: broker %d pushed in leader epoch %d, which the controllers have given to no leader: the "
            "view's epoch %d counts again; look at what runs as broker %d",
            partition.topic_name,
            partition.number,
            claim.broker_id,
            claim.leader_epoch,
            epoch,
            claim.broker_id,
        )
        # An ended leadership stays ended; `Roles` decides by the log whether this replica leads in that epoch
        # again.
        partition.leader_epoch = epoch
        partition.follower = None  # its connection is not the leader's
        if log.epochs and log.epochs[-1][0] > epoch:
            log.spoiled(f"it has batches of leader epoch {log.epochs[-1][0]}, which no leader was given")
        self._give_up(partition)
