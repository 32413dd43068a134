"""What a broker does for its partitions from time to time: retention, compaction, fsyncs under
flush=replicated, the checkpoint, and telling of replicas that can't be used."""

from collections.abc import Iterator

from tank_node.broker.broker import Broker
from tank_node.broker.scrubber import Scrubber
from tank_node.cluster.link import ChangeOutcome
from tank_node.log.errors import StorageError
from tank_node.log.log import LogState
from tank_node.partition.partition import Partition
from tank_node.replication.role import Role


class Maintenance:
    """Gives the partitions of a broker their turns. All time comes from the broker's tick."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._scrubber = Scrubber(broker)
        self._waiting: Iterator[Partition] = iter(())
        """Partitions that have not had their turn in this round."""

    def run(self) -> None:
        """Looks after partitions for `Limits.maintenance_slice_ms`; writes the checkpoint when all have had
        their turn. Call it every `Limits.maintenance_ms`."""
        broker = self._broker
        broker.begin_tick()
        broker.moved_away.ask()
        broker.look_at_volume()
        began_ms = broker.clock.monotonic_ms()
        while (partition := next(self._waiting, None)) is not None:
            self._look_at(partition)
            if broker.clock.monotonic_ms() - began_ms >= broker.limits.maintenance_slice_ms:
                return
        self._waiting = iter(list(broker.partitions()))
        self._report_unopened()
        broker.data_folder.write_checkpoint_with(broker.flusher)

    def scrub(self) -> None:
        """Checks a few of the stored batches. Call it every `Limits.scrub_ms`."""
        self._broker.begin_tick()
        self._scrubber.step()

    def look_at_rolled(self) -> None:
        """Retention for partitions that began a segment: a busy one must not wait for its turn."""
        for partition in self._broker.take_rolled():
            self._look_at(partition)

    def _look_at(self, partition: Partition) -> None:
        log, tick = partition.log, self._broker.tick
        if log.state is LogState.CLOSED:
            return
        state = log.state
        try:
            retain = partition.role is Role.LEADER
            log.maintain(tick.now_ms, partition.high_water_mark, self._broker.flusher, retain=retain)
        except StorageError as error:
            partition.note_error(error)
        if log.refilling and partition.role is Role.LEADER:  # nobody has more for it
            log.refilling, log.changed = False, True
        if log.state is not LogState.ACTIVE:  # also what a compaction found, or what is still in its set
            self._failed(partition)
        elif state is not LogState.ACTIVE:
            self._mended(partition)
        if not partition.flush_disk and log.synced < log.written and log.state is LogState.ACTIVE:
            waited_ms = tick.monotonic_ms - partition.sync_asked_ms
            if waited_ms >= (partition.flush_ms or self._broker.limits.replicated_sync_ms):
                partition.sync_asked_ms = tick.monotonic_ms
                self._broker.flusher.request(log, log.written)

    def _failed(self, partition: Partition) -> None:
        partition.note_state()
        self._broker.roles.failed(partition)

    def _mended(self, partition: Partition) -> None:
        """The only replica goes on with what is left of it, and all of that is committed."""
        partition.note_state()
        if partition.role is Role.LEADER and partition.leadership is None:
            partition.advance(partition.log.synced)
            partition.acks.answer(partition.high_water_mark)

    def _report_unopened(self) -> None:
        """Tells the controller, until its view shows that it knows, of replicas whose logs could not be
        opened after the registration, which did not say so."""
        broker = self._broker
        if not broker.roles.registered or not broker.roles.pushers.are_needed:
            return
        own = broker.link.view.broker_id
        failed = [
            (topic.view.topic_id, number)
            for topic in broker.topics.values()
            for number in topic.broken
            if topic.view.partitions[number].counts_on(own)
        ]
        most = broker.limits.changes_per_proposal
        for at in range(0, len(failed), most):
            broker.link.report_failed(failed[at : at + most], _noted)


def _noted(outcome: ChangeOutcome) -> None:
    """The view shows what came of it."""
