"""The replicas of a node that can't go on, until the controller knows it."""

from tank_node.broker.broker import Broker
from tank_node.cluster.link import ChangeOutcome
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role


class FailedReplicas:
    """Reports them. The replicator's."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._partitions: dict[Partition, None] = {}
        """Those that were noted, until they are sound, gone, or closed: a proposal that is under way may take
        one in again."""
        self._reported_ms = 0
        """When; monotonic. 0: something is new."""

    def note(self, partition: Partition) -> None:
        """This one failed, is damaged, or can't lead."""
        if partition not in self._partitions:
            self._partitions[partition] = None
            self._reported_ms = 0

    def report(self, now_ms: int) -> None:
        """Tells of them, and every two seconds again of those on which the view counts."""
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
                del self._partitions[partition]  # it was filled anew, or others do what it could not
            elif counts:
                failed.append((log.topic_id, partition.number))
        most = limits.changes_per_proposal
        for at in range(0, len(failed), most):
            link.report_failed(failed[at : at + most], _noted)


def _noted(outcome: ChangeOutcome) -> None:
    """The view shows what came of it."""
