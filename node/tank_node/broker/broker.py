"""The topics and partitions of this node, and the tick that they share.

The server calls `begin_tick`, hands frames to sessions, and calls `end_tick`: this writes each partition with
new appends once, moves high-water marks, wakes long polls, and answers producers. Single-threaded; all I/O
goes through the logs.
"""

import logging
from collections.abc import Callable, Iterator

from tank_node.broker.deadlines import FAILED, Deadlines
from tank_node.broker.forwarding import Forwarding
from tank_node.broker.lost_brokers import LostBrokers
from tank_node.broker.removed_partitions import RemovalReason, beyond, delete_purged, is_of_earlier
from tank_node.broker.replica_ends import ends_of
from tank_node.broker.replica_removal import ReplicaRemoval
from tank_node.broker.topic_waits import TopicWaits
from tank_node.broker.unpacking import Unpacking
from tank_node.client_facts import ServedClient
from tank_node.clock import Clock
from tank_node.cluster.link import ControllerLink
from tank_node.cluster.view import NO_LEADER, ChangeKind, PartitionView, TopicChange, TopicView
from tank_node.limits import Limits
from tank_node.log.log import LogState, PartitionLog
from tank_node.log.settings import LogSettings
from tank_node.metrics import Metrics
from tank_node.partition.beliefs import Beliefs
from tank_node.partition.follower import Followers
from tank_node.partition.follower_reads import may_show
from tank_node.partition.partition import Partition
from tank_node.partition.refusal import Refusal
from tank_node.partition.roles import Roles
from tank_node.partition.waiters import Tick
from tank_node.refusal_log import RefusalLog
from tank_node.replication.role import Role
from tank_node.segment.errors import DiskFull, StorageError
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_node.store.usage import FolderUsage, measure_strays, usage_of
from tank_node.surroundings import Surroundings
from tank_node.volume import Volume
from tank_protos import feature_levels
from tank_protos.topic_settings import FlushPolicy
from tank_protos.wire.names import INTERNAL_TOPICS

logger = logging.getLogger(__name__)


class Topic:
    """A topic of the view, with its partitions on this node."""

    __slots__ = ("broken", "log_settings", "name", "partitions", "view")

    def __init__(self, view: TopicView) -> None:
        self.name = view.name
        self.view = view
        self.log_settings: dict[int, LogSettings] = {}
        """What the view's settings are for logs with so many copies."""
        self.partitions: dict[int, Partition] = {}
        self.broken: dict[int, str] = {}
        """Reasons why logs could not be opened, by partition."""

    def absence(self, number: int) -> Refusal:
        """Why a partition is not in `partitions`, as the answer to a client."""
        if number in self.broken:
            return Refusal.STORAGE
        if number >= len(self.view.partitions):
            return Refusal.UNKNOWN_PARTITION
        led = self.view.partitions[number].leader != NO_LEADER
        return Refusal.OTHER_LEADER if led else Refusal.NO_LEADER


class Broker:
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
        self.metrics = metrics
        self.tick: Tick[Partition] = Tick()
        self.deadlines = Deadlines(self.tick, metrics)
        self.topic_waits = TopicWaits(self.deadlines)
        self.lost_brokers = LostBrokers(self.tick, self.topic_waits, limits)
        self.unpacking = Unpacking(self.deadlines, self.tick, limits.tick_unpacked_bytes)
        self.refusals = RefusalLog(metrics)
        """The log of refused input, of clients and peers, and of failed writes."""
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
        self.shared: dict[type, object] = {}
        """What all sessions share of each protocol, by class; see `shared_parts`."""
        self.groups: object = None
        """The coordinator of consumer groups, made at its first use, see `coordinators.groups`."""
        self.has_all_positions = False
        """Whether the controllers have said that they hold no positions of groups. They get none any more."""
        self.wake: Callable[[], None] = _nothing
        """Makes a tick end soon, and look at the deadlines. For work that begins outside of a tick; the
        server sets it."""
        self.clients: Callable[[int, int], list[ServedClient]] = _no_clients
        """Returns the connections of clients with greater numbers than the first argument, at most as many as
        the second says, the oldest first. The server sets it."""
        self.surroundings = Surroundings()
        self.topics: dict[str, Topic] = {}
        self.started_ms = clock.now_ms()
        self.started_monotonic_ms = clock.monotonic_ms()
        self.opening_ms = 0
        self._strays: dict[str, int] = {}
        self._by_log: dict[PartitionLog, Partition] = {}
        self.rolled: list[Partition] = []
        """Partitions that began a segment: retention runs for them as soon as the tick's answers are sent."""
        self.replica_removal = ReplicaRemoval(link, self._delete_replica)
        self.volume = Volume()
        flusher.listener = self.on_synced
        flusher.observe = metrics.fsync_latency.add
        data_folder.files.close_deleted = flusher.close_file
        data_folder.removal.run = flusher.remove

    def open(self) -> None:
        """Opens the logs of all topics in the view, and follows the view's changes from now on. Call it once,
        before the server starts."""
        began_ms = self.clock.monotonic_ms()
        self.begin_tick()
        views = list(self.link.view.topics())
        delete_purged(self.data_folder, views)
        strays = self.data_folder.set_aside_unknown({view.topic_id for view in views})
        self._strays = measure_strays(self.data_folder, strays)
        self.link.on_registered(self.take_part)
        for view in views:
            self.take_in(view)
        self.replica_removal.ask()
        self.look_at_volume()
        self.link.on_change(self._on_change)
        self.link.on_ends_asked(lambda asked: ends_of(self.partition_by_id, asked))
        self.opening_ms = self.clock.monotonic_ms() - began_ms

    def partitions(self) -> Iterator[Partition]:
        """All partitions that are open on this node."""
        for topic in self.topics.values():
            yield from topic.partitions.values()

    def is_internal(self, topic_name: str) -> bool:
        """Whether brokers keep their own records in the topic: no client writes it. Before feature level
        `feature_levels.KAFKA` a topic of such a name is a user's."""
        return topic_name in INTERNAL_TOPICS and self.link.view.feature_level >= feature_levels.KAFKA

    def usage(self) -> FolderUsage:
        """The sizes of what the data folder holds now."""
        return usage_of(self.data_folder, self._strays)

    # --- ticks -----------------------------------------------------------------------------------

    def begin_tick(self) -> None:
        """Reads the clocks, once for all requests of the tick."""
        tick = self.tick
        tick.now_ms = self.clock.now_ms()
        tick.monotonic_us = self.clock.monotonic_us()
        tick.monotonic_ms = tick.monotonic_us // 1000
        tick.unpacked_bytes = 0

    def end_tick(self) -> None:
        """Writes the tick's appends, moves high-water marks, wakes waiting requests, then answers
        producers."""
        if self.tick.early:
            self._work_early()
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
            logger.exception("a bug of ours: pushing to followers failed; the tick goes on, please report it")

    def do_early(self, work: Callable[[], None]) -> None:
        """Has this work done before the writes of the tick, or of one that ends soon."""
        self.tick.early.append(work)
        self.wake()

    def _work_early(self) -> None:
        early, self.tick.early = self.tick.early, []
        for work in early:
            try:
                work()
            except Exception:
                logger.exception("a bug of ours: a tick's work is not done; others go on, please report it")

    def _written(self, partition: Partition) -> None:
        log = partition.log
        segments = log.segments.list
        if segments and segments[-1] is not partition.active_segment:
            partition.active_segment = segments[-1]
            self.rolled.append(partition)
        leadership = partition.leadership
        if partition.flush_disk:
            self.flusher.request(log, log.tail.last)
            if leadership is not None:
                leadership.written()
            return
        if leadership is not None:
            leadership.written()
        elif partition.role is Role.LEADER:
            partition.advance(log.tail.last)
        if 0 < partition.flush_messages <= log.tail.last - log.synced:
            self.flusher.request(log, log.tail.last)

    def answer_late(self) -> None:
        """Makes the answers that were put off until this tick had written."""
        late, self.tick.late = self.tick.late, []
        for answer in late:
            try:
                answer.make()
            except Exception:
                logger.exception(
                    "a bug of ours: a fetch is not answered; its connection is closed, the others go on, "
                    "please report it"
                )
                answer.asked_by.hang_up(FAILED)

    def on_synced(self, log: PartitionLog) -> None:
        """The flusher's listener: an fsync of this log has ended or failed."""
        partition = self._by_log.get(log)
        if partition is None:
            return
        self.begin_tick()
        try:
            self._take_over_sync(partition, log)
        except Exception:
            _report_bug(partition)

    def _take_over_sync(self, partition: Partition, log: PartitionLog) -> None:
        if log.health.state is not LogState.ACTIVE:
            if not partition.refusal:
                name, number = partition.topic_name, partition.number
                logger.error("%s/%d takes no more writes: %s", name, number, log.reason)
            partition.note_state()
            self.roles.failed(partition)
        if partition.leadership is not None:
            partition.leadership.synced()
            partition.acknowledge_written()
        elif partition.role is Role.LEADER:
            if partition.flush_disk:
                partition.advance(log.synced)
                partition.acks.answer(partition.high_water_mark)
        elif partition.follower is not None:
            partition.follower.synced()
        partition.start.is_safer()

    # --- deadlines -------------------------------------------------------------------------------

    def give_up_late(self) -> None:
        """Answers producers whose timeout passed before their messages were committed. Call `begin_tick`
        first."""
        for partition in self.partitions():
            if not partition.acks.is_empty:
                partition.acks.give_up_late(self.tick.monotonic_ms)

    def take_rolled(self) -> list[Partition]:
        """Returns the partitions that began a segment since the last call."""
        rolled, self.rolled = self.rolled, []
        return rolled

    def close(self) -> None:
        """Makes all logs durable, and writes the clean checkpoint. Call it after the server has stopped."""
        self.end_tick()
        self.roles.pushers.close()
        self.flusher.close()
        for partition in self.partitions():
            partition.log.high_water_mark = partition.high_water_mark
        self.data_folder.close()

    # --- topics ----------------------------------------------------------------------------------

    def take_part(self) -> None:
        """Takes roles and pushes once this process's registration is committed, in the view and in the data
        folder; till then the controllers keep it fenced. Call it now and then."""
        if self.roles.registered or not self.link.broker_epoch:
            return
        self.begin_tick()
        recorded = self.data_folder.mark_registered(self.link.broker_epoch)
        self.link.hold_back(on=not recorded)
        if not recorded:
            return
        self.roles.registered = True
        for topic in list(self.topics.values()):
            self.take_in(topic.view)
        self.replica_removal.ask()

    def partition_by_id(self, topic_id: int, number: int) -> Partition | None:
        """The open replica of this topic and partition; None where there is none."""
        topic = self._topic_by_id(topic_id)
        return None if topic is None else topic.partitions.get(number)

    def _topic_by_id(self, topic_id: int) -> Topic | None:
        """A topic that was deleted and created again under its name has another id, and other replicas."""
        view = self.link.view.topic_by_id(topic_id)
        topic = None if view is None else self.topics.get(view.name)
        return None if topic is None or topic.view.topic_id != topic_id else topic

    def placed(self, partition: Partition) -> PartitionView | None:
        """The partition in the view: its leader, replicas and epochs. None when its topic is gone."""
        view = self.link.view.topic_by_id(partition.log.topic_id)
        if view is None or partition.number >= len(view.partitions):
            return None
        return view.partitions[partition.number]

    def may_show(self, partition: Partition) -> bool:
        """Whether clients that prefer this broker may read this replica, which follows."""
        return may_show(partition, self.placed(partition), self.link)

    def _view_epoch(self, partition: Partition) -> int | None:
        """The partition's leader epoch in the view; None when the replica is no longer open here."""
        placed = self.placed(partition) if self._by_log.get(partition.log) is partition else None
        return None if placed is None else placed.leader_epoch

    def _follow_view(self, partition: Partition) -> None:
        """Gives a partition the role that the view says, after a leader epoch that it knew from a push alone
        was refuted (see `Beliefs`)."""
        partition.note_state()
        self.take_in(self.topics[partition.topic_name].view, (partition.number,))
        self.roles.failed(partition)

    def _on_failure(self, partition: Partition, error: StorageError) -> None:
        said = f"partition {partition.topic_name}/{partition.number}: {error}"
        if partition.log.health.state is LogState.ACTIVE:
            # A full disk, or no free descriptor: each write fails until that ends.
            self.refusals.say(error.reason, said, self.tick.monotonic_ms, logging.ERROR)
        else:
            logger.error("%s", said)
        if isinstance(error, DiskFull) and self.volume.refused_a_write():
            self.link.say_room(self.volume.room)
        self.roles.failed(partition)

    def look_at_volume(self) -> None:
        """Measures the volume's free space, and tells the controllers when its `Room` has changed."""
        folder = self.data_folder
        try:
            space = folder.disk.space(folder.path)
        except OSError:  # `store.usage`, which asks for the metrics, logs it
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
            self.take_in(change.topic, change.partitions)
            self.replica_removal.ask()
        self.topic_waits.changed(change.topic.name)

    def take_in(self, view: TopicView, changed: tuple[int, ...] = ()) -> None:
        """Opens this node's partitions of a topic where they aren't open, and applies settings and roles to
        all. changed: the partitions to look at; empty: all of them."""
        topic = self.topics.get(view.name)
        if topic is not None and topic.view.topic_id != view.topic_id:
            self._drop(topic)
            topic = None
        if topic is None:
            topic = self.topics[view.name] = Topic(view)
        if topic.view.settings_text != view.settings_text:
            changed = ()
            topic.log_settings.clear()
        topic.view = view
        for number in beyond(self.data_folder, view, topic.partitions, topic.broken):
            self._remove(topic, number, RemovalReason.REMOVED)
        flush_disk = (view.settings.flush or self.default_flush) is FlushPolicy.DISK
        broker_id = self.link.view.broker_id
        there = [view.partitions[number] for number in changed if number < len(view.partitions)]
        for placed in there if changed else view.partitions:
            if broker_id not in placed.replicas:
                self._let_go(topic, placed)
                continue
            self.replica_removal.keep(view.topic_id, placed.partition)
            # While a topic's only replica moves to another broker there are two: damage is refilled, not
            # mended.
            copies = max(view.replication_factor, len({*placed.replicas, *placed.in_sync}))
            settings = topic.log_settings.get(copies)
            if settings is None:
                settings = topic.log_settings[copies] = LogSettings.from_topic(view.settings, copies)
            if placed.first_epoch and not self._remove_earlier(topic, placed, settings):
                continue
            partition = topic.partitions.get(placed.partition)
            if partition is None:
                partition = self._open(topic, placed.partition, settings)
                if partition is None:
                    continue
            elif partition.log.tail.settings is not settings:
                partition.log.apply_settings(settings)
            partition.flush_messages = view.settings.flush_messages
            partition.flush_ms = view.settings.flush_ms
            partition.found.batches.walks = view.settings.validate_bundles
            self.roles.assign(partition, view, placed, flush_disk=flush_disk)
            if flush_disk and partition.log.synced < partition.log.tail.written:
                # Writes from before flush=disk was set, on followers too: the next append may be far off.
                self.flusher.request(partition.log, partition.log.tail.written)

    def _let_go(self, topic: Topic, placed: PartitionView) -> None:
        """Ends this node's replica of a partition that the view gives to other brokers. Its data is deleted
        when `ReplicaRemoval` allows it."""
        number = placed.partition
        partition = topic.partitions.get(number)
        if partition is not None:  # this answers all waiting requests: clients look for the leader
            role = Role.NONE if placed.leader == NO_LEADER else Role.FOLLOWER
            partition.become(role, placed.leader_epoch)
        topic_id = topic.view.topic_id
        if self.roles.registered and (topic_id, number) in self.data_folder.logs:
            self.replica_removal.add(topic_id, number)

    def _delete_replica(self, topic_id: int, number: int) -> None:
        """Deletes a replica that no leader counts on any more."""
        topic = self._topic_by_id(topic_id)
        if topic is not None:  # else it was deleted, with all its replicas
            self.begin_tick()
            self._remove(topic, number, RemovalReason.MOVED)

    def _remove_earlier(self, topic: Topic, placed: PartitionView, settings: LogSettings) -> bool:
        """Deletes the replica here of an earlier partition, which was removed. False: it is still there."""
        partition = topic.partitions.get(placed.partition) or self._open(topic, placed.partition, settings)
        is_earlier = partition is not None and is_of_earlier(partition.log, placed)
        return not is_earlier or self._remove(topic, placed.partition, RemovalReason.REMOVED)

    def _remove(self, topic: Topic, number: int, why: RemovalReason) -> bool:
        """Forgets a replica, and deletes its data. False: it can't be; if REMOVED, it is tried again."""
        logger.info("%s/%d %s: its data here is deleted", topic.name, number, why.value)
        if (partition := topic.partitions.pop(number, None)) is not None:
            partition.remove()
            del self._by_log[partition.log]
        topic.broken.pop(number, None)
        gone = self.data_folder.delete_partition(topic.view.topic_id, number)
        if not gone and why is RemovalReason.REMOVED:
            topic.broken[number] = "the data of a partition that was removed can't be deleted"
        return gone

    def _open(self, topic: Topic, number: int, settings: LogSettings) -> Partition | None:
        try:
            log = self.data_folder.open_log(topic.view.topic_id, number, settings)
        except StorageError as error:
            topic.broken[number] = str(error)
            self.metrics.storage_errors += 1
            logger.error("partition %s/%d can't be opened: %s", topic.name, number, error)
            return None
        partition = Partition(
            topic.name, number, log, tick=self.tick, limits=self.limits, metrics=self.metrics,
            refusals=self.refusals, on_failure=self._on_failure,
        )  # fmt: skip
        topic.partitions[number] = partition
        topic.broken.pop(number, None)
        self._by_log[log] = partition
        return partition

    def _drop(self, topic: Topic) -> None:
        """Forgets a deleted topic, and deletes its folders."""
        del self.topics[topic.name]
        for partition in topic.partitions.values():
            partition.remove()
            del self._by_log[partition.log]
        self.data_folder.delete_topic(topic.view.topic_id)


def _nothing() -> None:
    """Does nothing."""


def _no_clients(after: int, most: int) -> list[ServedClient]:
    """A broker without a server has no clients."""
    return []


def _report_bug(partition: Partition) -> None:
    """Logs an unexpected exception of one partition: the tick goes on for the others."""
    logger.exception("%s/%d: a bug of ours, please report it", partition.topic_name, partition.number)
