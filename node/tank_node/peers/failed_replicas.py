"""This broker's replicas that have failed, until the controllers know."""

from tank_node.broker.broker import Broker
from tank_node.cluster.link import ChangeOutcome
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role


class FailedReplicas:
    """Reports failed replicas to the controllers, again and again until they don't count on them any more."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._partitions: dict[Partition, None] = {}
        """The failed replicas, kept until they are sound, deleted or closed: a leader's proposal that is
        under way may put one into an in-sync set again."""
        self._reported_ms = 0
        """When the last report was sent, by the monotonic clock; 0: a replica is not reported yet."""

    def note(self, partition: Partition) -> None:
        """Adds a replica that failed, is damaged, or can't lead."""
        if partition not in self._partitions:
            self._partitions[partition] = None
            self._reported_ms = 0

    def report(self, now_ms: int) -> None:
        """Reports the failed replicas, and after `propose_again_ms` again those on which the controllers
        still count, by the view."""
        limits, link = self._broker.limits, self._broker.link
        if not self._partitions or now_ms - self._reported_ms < limits.propose_again_ms:
            return
        self._reported_ms = now_ms
        own = link.view.broker_id
        failed: list[tuple[int, int]] = []
        for partition in list(self._partitions):
            log, placed = partition.log, self._broker.placed(partition)
            counts = placed is not None and placed.counts_on(own)
            is_sound = log.state is LogState.ACTIVE and not log.is_impaired
            if placed is None or log.state is LogState.CLOSED:
                del self._partitions[partition]
            elif is_sound and (partition.role is not Role.NONE or not counts):
                del self._partitions[partition]  # it was refilled, or another replica leads in its place
            elif counts:
                failed.append((log.topic_id, partition.number))
        most = limits.changes_per_proposal
        for at in range(0, len(failed), most):
            link.requests.report_failed(failed[at : at + most], _noted)


def _noted(outcome: ChangeOutcome) -> None:
    """Does nothing: the view shows whether the controllers took the report."""
