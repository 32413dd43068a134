"""Leader epochs that were heard in a push before the view had them: how long they are believed, and of whom.

A leader pushes after its own view says that it leads, so its election was committed before. A view that holds
all that was committed when the push came knows that election, too. Where such a view doesn't have the epoch,
it was never given to a leader: the claim is refuted, by the controllers and not by the clock. While the
controllers can't be asked the epoch stays believed: it may be the only word of an election.
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
    """A leader epoch above the view's, as a leader's process pushed it."""

    leader_epoch: int
    heard_ms: int
    """Monotonic."""
    broker_id: int
    broker_epoch: int

    @property
    def text(self) -> str:
        """For people: what is believed, and what ends it."""
        return (
            f"it believes leader epoch {self.leader_epoch}, which broker {self.broker_id} pushed in and the "
            "view doesn't have, until the controllers can be asked"
        )


class Beliefs:
    """Of one node: the epochs that its partitions know by pushes alone."""

    def __init__(
        self,
        link: ControllerLink,
        metrics: Metrics,
        view_epoch: Callable[[Partition], int | None],
        give_up: Callable[[Partition], None],
    ) -> None:
        """view_epoch: a partition's leader epoch in the view; None: it isn't here any more. give_up: brings a
        partition back to what the view says."""
        self._link = link
        self._metrics = metrics
        self._view_epoch = view_epoch
        self._give_up = give_up
        self._claims: dict[Partition, Claim] = {}
        """The newest of each partition, until the view has an epoch as high."""
        self._distrusted: set[tuple[int, int]] = set()
        """(broker id, broker epoch) of processes whose claim was refuted: their next ones wait for the view.
        Bounded by the brokers of the view: see `tick`."""
        self._asks = False

    def accept(self, partition: Partition, claim: Claim, replicas: tuple[int, ...]) -> bool:
        """Whether the claim is believed, which the partition then knows. replicas: the brokers that hold the
        partition, as the view says. Others, and processes that were refuted before, wait for the view."""
        if claim.broker_id not in replicas or (claim.broker_id, claim.broker_epoch) in self._distrusted:
            self._metrics.refused["unknown_leader_epoch"] += 1
            return False
        self._claims[partition] = claim
        partition.believe(claim.leader_epoch)
        return True

    def held(self, now_ms: int) -> dict[Partition, Claim]:
        """Partitions that have known an epoch by a push alone for so long that the view should have it."""
        if not self._claims:
            return {}
        return {each: claim for each, claim in self._claims.items() if now_ms - claim.heard_ms >= BELIEF_MS}

    def tick(self, now_ms: int) -> None:
        """Some 20 times a second: the view may have caught up, or has had the time to."""
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
        self._link.await_view(lambda known: self._judge(due, known=known))

    def _judge(self, due: list[tuple[Partition, Claim]], *, known: bool) -> None:
        """The view holds all that was committed after these claims came, if it is `known` to."""
        self._asks = False
        if not known:
            return
        for partition, claim in due:
            epoch = self._view_epoch(partition)
            if epoch is None or epoch >= claim.leader_epoch:
                continue
            self._distrusted.add((claim.broker_id, claim.broker_epoch))
            if self._claims.get(partition) is claim:  # a later one may be true, and is asked about next
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
        # What it was as a leader stays ended; its log says whether it may lead in that epoch again (`Roles`).
        partition.leader_epoch = epoch
        partition.follower = None  # its connection is of nobody's leader
        if log.epochs and log.epochs[-1][0] > epoch:
            log.spoiled(f"it has batches of leader epoch {log.epochs[-1][0]}, which no leader was given")
        self._give_up(partition)
