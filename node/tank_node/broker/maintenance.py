"""A broker's work for its partitions at intervals: retention, compaction, fsyncs under flush=replicated, the
checkpoint, and reports of failed replicas."""

from collections.abc import Iterator

from tank_node.broker.broker import Broker
from tank_node.broker.scrubber import Scrubber
from tank_node.cluster.link import ChangeOutcome
from tank_node.log.cleaning.maintenance import maintain
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role
from tank_node.segment.errors import StorageError


class Maintenance:
    """Gives the partitions of a broker their turns, one after another. All time comes from the broker's
    tick."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._scrubber = Scrubber(broker)
        self._waiting: Iterator[Partition] = iter(())
        """Partitions whose turn in this round is still to come."""
        self._opens_ms = broker.tick.monotonic_ms + broker.limits.reopen_ms
        """When partitions that could not be opened are tried again."""

    def run(self) -> None:
        """Maintains partitions for `Limits.maintenance_slice_ms`; writes the checkpoint when all have had
        their turn. Call it every `Limits.maintenance_ms`."""
        broker = self._broker
        broker.begin_tick()
        broker.take_part()
        broker.replica_removal.ask()
        broker.look_at_volume()
        began_ms = broker.clock.monotonic_ms()
        while (partition := next(self._waiting, None)) is not None:
            self._look_at(partition)
            if broker.clock.monotonic_ms() - began_ms >= broker.limits.maintenance_slice_ms:
                return
        self._waiting = iter(list(broker.partitions()))
        self._open_missing()
        self._report_unopened()
        broker.data_folder.write_checkpoint_with(broker.flusher)

    def scrub(self) -> None:
        """Checks a few stored batches. Call it every `Limits.scrub_ms`."""
        self._broker.begin_tick()
        self._scrubber.step()

    def look_at_rolled(self) -> None:
        """Maintains the partitions that began a segment at once: a busy one can't wait for its turn."""
        for partition in self._broker.take_rolled():
            self._look_at(partition)

    def _look_at(self, partition: Partition) -> None:
        log, tick = partition.log, self._broker.tick
        if log.state is LogState.CLOSED:
            return
        state = log.state
        try:
            retain = partition.role is Role.LEADER
            forgets = log.settings.compact and self._all_in_sync(partition)
            flusher = self._broker.flusher
            maintain(log, tick.now_ms, partition.high_water_mark, flusher, retain=retain, forgets=forgets)
        except StorageError as error:
            partition.note_error(error)
        if log.health.refilling and partition.role is Role.LEADER:
            log.end_refill()  # no replica has more messages than a leader
        if log.state is not LogState.ACTIVE:  # reported every turn, until it has left its in-sync set
            self._failed(partition)
        elif state is not LogState.ACTIVE:
            self._mended(partition)
        if not partition.flush_disk and log.synced < log.written and log.state is LogState.ACTIVE:
            waited_ms = tick.monotonic_ms - partition.sync_asked_ms
            if waited_ms >= (partition.flush_ms or self._broker.limits.replicated_sync_ms):
                partition.sync_asked_ms = tick.monotonic_ms
                self._broker.flusher.request(log, log.written)

    def _all_in_sync(self, partition: Partition) -> bool:
        """Whether every replica has all that is below the mark, by the view. A follower's view must be as new
        as its mark: the mark may have passed what a replica lacks that left the in-sync set since."""
        broker = self._broker
        placed = broker.placed(partition)
        if placed is None or len(placed.in_sync) != len(placed.replicas):
            return False
        return partition.role is Role.LEADER or broker.may_show(partition)

    def _failed(self, partition: Partition) -> None:
        partition.note_state()
        self._broker.roles.failed(partition)

    def _mended(self, partition: Partition) -> None:
        """Goes on with a replica that `maintain` mended. The only replica of a partition keeps the messages
        that are left, and all of them count as committed."""
        partition.note_state()
        if partition.role is Role.LEADER and partition.leadership is None:
            partition.advance(partition.log.synced)
            partition.acks.answer(partition.high_water_mark)

    def _open_missing(self) -> None:
        """Tries again to open partitions that could not be opened: a lack of descriptors or of space passes,
        and no change of the view may come for a long time."""
        broker = self._broker
        now_ms = broker.tick.monotonic_ms
        if now_ms < self._opens_ms:
            return
        self._opens_ms = now_ms + broker.limits.reopen_ms
        for topic in list(broker.topics.values()):
            if topic.broken:
                broker.take_in(topic.view, tuple(topic.broken))

    def _report_unopened(self) -> None:
        """Reports replicas whose logs could not be opened since the registration. It repeats a report until
        the view shows that no leader counts on the replica."""
        broker = self._broker
        if not broker.roles.registered or not broker.roles.pushers.are_needed:
            return
        own = broker.link.view.broker_id
        failed = [
            (topic.view.topic_id, number)
            for topic in broker.topics.values()
            for number in topic.broken
            if number < len(topic.view.partitions) and topic.view.partitions[number].counts_on(own)
        ]
        most = broker.limits.changes_per_proposal
        for at in range(0, len(failed), most):
            broker.link.requests.report_failed(failed[at : at + most], _noted)


def _noted(outcome: ChangeOutcome) -> None:
    """Ignores the outcome: the view shows it."""
