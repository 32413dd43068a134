"""Which topics and partitions live on this node, the tick that they share, and everybody's deadlines.

The server calls `begin_tick`, hands frames to sessions, and calls `end_tick`: then each partition that
was appended to is written once, high-water marks move, long polls wake, and producers are answered.
Single-threaded; no I/O but through the log.
"""

import logging
from collections.abc import Iterator, Sequence

from tank_node.broker.forwarding import Forwarding
from tank_node.broker.replica_removal import MovedAway
from tank_node.broker.wait_list import WaitList
from tank_node.clock import Clock
from tank_node.cluster.link import ControllerLink, ReplicaEnd
from tank_node.cluster.view import NO_LEADER, ChangeKind, PartitionView, TopicChange, TopicView
from tank_node.limits import Limits
from tank_node.log.epoch_history import epoch_at
from tank_node.log.errors import DiskFull, StorageError
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.metrics import Metrics
from tank_node.partition.beliefs import Beliefs
from tank_node.partition.follower import Followers
from tank_node.partition.follower_reads import may_show
from tank_node.partition.partition import Partition
from tank_node.partition.roles import Roles
from tank_node.refusal_log import RefusalLog
from tank_node.replication.role import Role
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.store.usage import FolderUsage, measure_strays, usage_of
from tank_node.surroundings import Surroundings
from tank_node.volume import Volume
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import FlushPolicy

logger = logging.getLogger(__name__)


class Topic:
    """A topic as it lives here."""

    __slots__ = ("broken", "name", "partitions", "view")

    def __init__(self, view: TopicView) -> None:
        self.name = view.name
        self.view = view
        self.partitions: dict[int, Partition] = {}
        self.broken: dict[int, str] = {}
        """Partitions whose log could not be opened, with the reason."""

    def absence(self, number: int) -> ErrorCode:
        """Why there is no such partition in `partitions`."""
        if number in self.broken:
            return ErrorCode.STORAGE
        if number >= len(self.view.partitions):
            return ErrorCode.UNKNOWN_PARTITION
        led = self.view.partitions[number].leader != NO_LEADER
        return ErrorCode.OTHER_LEADER if led else ErrorCode.NO_LEADER


class Broker(WaitList):
    """All partitions of this node. Built by the composition root, before the server."""

    def __init__(
        self,
        data_folder: DataFolder,
        link: ControllerLink,
        flusher: Flusher,
        clock: Clock,
        limits: Limits,
        metrics: Metrics,
        default_flush: FlushPolicy = FlushPolicy.DISK,
    ) -> None:
        super().__init__(metrics)
        self.refusals = RefusalLog(metrics)
        """Of all that clients and peers send it, and of writes that fail."""
        self.data_folder = data_folder
        self.link = link
        self.flusher = flusher
        self.clock = clock
        self.limits = limits
        self.default_flush = default_flush
        self.roles = Roles(link, limits)
        beliefs = Beliefs(link, metrics, self._view_epoch, self._follow_view)
        self.followers = Followers(link, flusher, self.partition_by_id, beliefs)
        self.forwarding = Forwarding()
        self.surroundings = Surroundings()
        self.topics: dict[str, Topic] = {}
        self.started_ms = clock.now_ms()
        self.started_monotonic_ms = clock.monotonic_ms()
        self.opening_ms = 0
        self._strays: dict[str, int] = {}
        self._by_log: dict[PartitionLog, Partition] = {}
        self.rolled: list[Partition] = []
        """Partitions that began a segment: retention looks at them as soon as the answers are out."""
        self.moved_away = MovedAway(link, self._delete_replica)
        self.volume = Volume()
        flusher.listener = self.on_synced
        flusher.observe = metrics.fsync_latency.add
        data_folder.files.close_deleted = flusher.close_file
        data_folder.removal.run = flusher.remove

    def open(self) -> None:
        """Opens the logs of all topics in the view and follows its changes from now on. Call it once,
        before the server starts."""
        began_ms = self.clock.monotonic_ms()
        self.begin_tick()
        views = list(self.link.view.topics())
        strays = self.data_folder.set_aside_unknown({view.topic_id for view in views})
        self._strays = measure_strays(self.data_folder, strays)
        self.link.on_registered(self._on_registered)
        for view in views:
            self._take_in(view)
        self.moved_away.ask()
        self.look_at_volume()
        self.link.on_change(self._on_change)
        self.link.on_ends_asked(self._ends)
        self.opening_ms = self.clock.monotonic_ms() - began_ms

    def partitions(self) -> Iterator[Partition]:
        """All partitions that are open here."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def usage(self) -> FolderUsage:
        """What the data folder takes up now."""
        return usage_of(self.data_folder, self._strays)

    # --- ticks -----------------------------------------------------------------------------------

    def begin_tick(self) -> None:
        """Reads the clocks, once for all requests of the tick."""
        tick = self.tick
        tick.now_ms = self.clock.now_ms()
        tick.monotonic_us = self.clock.monotonic_us()
        tick.monotonic_ms = tick.monotonic_us // 1000

    def end_tick(self) -> None:
        """Writes what was appended, moves the marks, wakes those who wait, then answers the producers."""
        touched = self.tick.touched
        if not touched and not self.tick.late:
            return
        self.tick.touched = []
        for partition in touched:
            try:
                if partition.write():
                    self._written(partition)
            except Exception:
                _report_bug(partition)
        self.answer_late()
        for partition in touched:
            try:
                partition.acknowledge()
            except Exception:
                _report_bug(partition)
        try:
            self.roles.pushers.push()
        except Exception:
            logger.exception("followers were not pushed to, by a bug of ours; the tick goes on")

    def _written(self, partition: Partition) -> None:
        log = partition.log
        if log.segments and log.segments[-1] is not partition.active_segment:
            partition.active_segment = log.segments[-1]
            self.rolled.append(partition)
        leadership = partition.leadership
        if partition.flush_disk:
            self.flusher.request(log, log.last)
            if leadership is not None:
                leadership.written()
            return
        if leadership is not None:
            leadership.written()
        elif partition.role is Role.LEADER:
            partition.advance(log.last)
        if 0 < partition.flush_messages <= log.last - log.synced:
            self.flusher.request(log, log.last)

    def on_synced(self, log: PartitionLog) -> None:
        """An fsync of this log ended, well or not. The flusher's listener."""
        partition = self._by_log.get(log)
        if partition is None:
            return
        self.begin_tick()
        try:
            self._take_over_sync(partition, log)
        except Exception:
            _report_bug(partition)

    def _take_over_sync(self, partition: Partition, log: PartitionLog) -> None:
        if log.state is not LogState.ACTIVE:
            if not partition.refusal:
                name, number = partition.topic_name, partition.number
                logger.error("%s/%d takes no more writes: %s", name, number, log.reason)
            partition.note_state()
            self.roles.failed(partition)
        if partition.leadership is not None:
            partition.leadership.synced()
        elif partition.role is Role.LEADER:
            if partition.flush_disk:
                partition.advance(log.synced)
                partition.acks.answer(partition.high_water_mark)
        elif partition.follower is not None:
            partition.follower.synced()

    # --- deadlines -------------------------------------------------------------------------------

    def give_up_late(self) -> None:
        """Answers producers whose time is over before their data was safe. Call `begin_tick` first."""
        for partition in self.partitions():
            if partition.acks.waiting:
                partition.acks.give_up_late(self.tick.monotonic_ms)

    def take_rolled(self) -> list[Partition]:
        """The partitions that began a segment since the last call."""
        rolled, self.rolled = self.rolled, []
        return rolled

    def close(self) -> None:
        """After the server has stopped: makes everything durable and writes the clean checkpoint."""
        self.end_tick()
        self.roles.pushers.close()
        self.flusher.close()
        for partition in self.partitions():
            partition.log.high_water_mark = partition.high_water_mark
        self.data_folder.close()

    # --- topics ----------------------------------------------------------------------------------

    def _on_registered(self) -> None:
        """The registration of this process is committed, and the view has it: orders are taken from now
        on."""
        self.begin_tick()
        self.data_folder.told(self.link.broker_epoch)
        self.roles.registered = True
        for topic in list(self.topics.values()):
            self._take_in(topic.view)
        self.moved_away.ask()

    def partition_by_id(self, topic_id: int, number: int) -> Partition | None:
        """The replica that is open here; of a topic made again under its name it is another one."""
        view = self.link.view.topic_by_id(topic_id)
        topic = None if view is None else self.topics.get(view.name)
        return None if topic is None or topic.view.topic_id != topic_id else topic.partitions.get(number)

    def placed(self, partition: Partition) -> PartitionView | None:
        """Who holds it, as the view says now; None when its topic is gone."""
        view = self.link.view.topic_by_id(partition.log.topic_id)
        if view is None or partition.number >= len(view.partitions):
            return None
        return view.partitions[partition.number]

    def may_show(self, partition: Partition) -> bool:
        """Whether this replica, which doesn't lead, may be read by clients that prefer it."""
        return may_show(partition, self.placed(partition), self.link)

    def _view_epoch(self, partition: Partition) -> int | None:
        """The leader epoch of the view; None: this replica is not the one that is open here."""
        placed = self.placed(partition) if self._by_log.get(partition.log) is partition else None
        return None if placed is None else placed.leader_epoch

    def _follow_view(self, partition: Partition) -> None:
        """What it knew by a push alone was not so: all is as the view says."""
        partition.note_state()
        self._take_in(self.topics[partition.topic_name].view, (partition.number,))
        self.roles.failed(partition)

    def _ends(self, asked: Sequence[tuple[int, int]]) -> list[ReplicaEnd]:
        """Where these replicas' logs end: before a lossy election the controller asks all who may lead."""
        found = []
        for topic_id, number in asked:
            partition = self.partition_by_id(topic_id, number)
            if partition is not None and partition.log.state in (LogState.ACTIVE, LogState.DAMAGED):
                log, end = partition.log, partition.log.written
                if log.state is LogState.DAMAGED:  # the records behind this were checked by nobody
                    end = min(end, log.recovery_point)
                found.append(ReplicaEnd(topic_id, number, epoch_at(log.epochs, end), end, log.is_impaired))
        return found

    def _on_failure(self, partition: Partition, error: StorageError) -> None:
        said = f"partition {partition.topic_name}/{partition.number}: {error}"
        if (
            partition.log.state is LogState.ACTIVE
        ):  # each write fails, until there is room, or files are closed
            self.refusals.say(error.reason, said, self.tick.monotonic_ms, logging.ERROR)
        else:
            logger.error("%s", said)
        if isinstance(error, DiskFull) and self.volume.refused_a_write():
            self.link.say_room(self.volume.room)
        self.roles.failed(partition)

    def look_at_volume(self) -> None:
        """Tells the controllers when the volume's room has changed."""
        folder = self.data_folder
        try:
            space = folder.disk.space(folder.path)
        except OSError:  # said where people ask for it
            space = None
        if self.volume.look(space):
            self.link.say_room(self.volume.room)

    def _on_change(self, change: TopicChange) -> None:
        self.begin_tick()
        if change.kind is ChangeKind.DELETED:
            topic = self.topics.get(change.topic.name)
            if topic is not None and topic.view.topic_id == change.topic.topic_id:
                self._drop(topic)
        else:
            self._take_in(change.topic, change.partitions)
            self.moved_away.ask()

    def _take_in(self, view: TopicView, changed: tuple[int, ...] = ()) -> None:
        """Opens what a topic has here and isn't open, and applies its settings to the rest. changed: the
        partitions that are new or different; none are named: look at all."""
        topic = self.topics.get(view.name)
        if topic is not None and topic.view.topic_id != view.topic_id:
            self._drop(topic)
            topic = None
        if topic is None:
            topic = self.topics[view.name] = Topic(view)
        if topic.view.settings_text != view.settings_text:
            changed = ()
        topic.view = view
        flush_disk = (view.settings.flush or self.default_flush) is FlushPolicy.DISK
        broker_id = self.link.view.broker_id
        for placed in [view.partitions[number] for number in changed] if changed else view.partitions:
            if broker_id not in placed.replicas:
                self._let_go(topic, placed)
                continue
            self.moved_away.keep(view.topic_id, placed.partition)
            # While the only replica moves there is another: what is damaged is filled anew, never mended.
            copies = max(view.replication_factor, len({*placed.replicas, *placed.in_sync}))
            settings = LogSettings.from_topic(view.settings, copies)
            partition = topic.partitions.get(placed.partition)
            if partition is None:
                partition = self._open(topic, placed.partition, settings)
                if partition is None:
                    continue
            else:
                partition.log.apply_settings(settings)
            partition.flush_messages = view.settings.flush_messages
            partition.flush_ms = view.settings.flush_ms
            partition.found.walks = view.settings.validate_bundles
            self.roles.assign(partition, view, placed, flush_disk=flush_disk)
            if flush_disk and partition.log.synced < partition.log.written:
                # What was written while it was not, on followers too: nobody may append for a long time.
                self.flusher.request(partition.log, partition.log.written)

    def _let_go(self, topic: Topic, placed: PartitionView) -> None:
        """Others hold this partition: what of it is here, or was found on the disk, goes when it may."""
        number = placed.partition
        partition = topic.partitions.get(number)
        if partition is not None:  # who waits is told where to go on
            role = Role.NONE if placed.leader == NO_LEADER else Role.FOLLOWER
            partition.follow(role, placed.leader_epoch)
        topic_id = topic.view.topic_id
        if self.roles.registered and (topic_id, number) in self.data_folder.logs:
            self.moved_away.add(topic_id, number)

    def _delete_replica(self, topic_id: int, number: int) -> None:
        """Nobody counts on it any more."""
        view = self.link.view.topic_by_id(topic_id)
        topic = None if view is None else self.topics.get(view.name)
        if topic is None or topic.view.topic_id != topic_id:
            return  # the topic is gone, and all that was here of it
        self.begin_tick()
        partition = topic.partitions.pop(number, None)
        if partition is not None:
            partition.remove()
            del self._by_log[partition.log]
        logger.info("%s/%d was moved away: its data is deleted", topic.name, number)
        self.data_folder.delete_partition(topic_id, number)

    def _open(self, topic: Topic, number: int, settings: LogSettings) -> Partition | None:
        try:
            log = self.data_folder.open_log(topic.view.topic_id, number, settings)
        except StorageError as error:
            topic.broken[number] = str(error)
            self.metrics.storage_errors += 1
            logger.error("partition %s/%d can't be opened: %s", topic.name, number, error)
            return None
        partition = Partition(
            topic.name,
            number,
            log,
            tick=self.tick,
            limits=self.limits,
            metrics=self.metrics,
            refusals=self.refusals,
            on_failure=self._on_failure,
        )
        topic.partitions[number] = partition
        topic.broken.pop(number, None)
        self._by_log[log] = partition
        return partition

    def _drop(self, topic: Topic) -> None:
        """Forgets a deleted topic; its folders go too."""
        del self.topics[topic.name]
        for partition in topic.partitions.values():
            partition.remove()
            del self._by_log[partition.log]
        self.data_folder.delete_topic(topic.view.topic_id)


def _report_bug(partition: Partition) -> None:
    """What goes wrong with one partition is not to hurt the others, nor their clients."""
    logger.exception("%s/%d: a bug of ours", partition.topic_name, partition.number)
