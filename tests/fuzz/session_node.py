"""A whole node in memory: broker, disk, clock and a controller that answers late; no sockets, no threads."""

import logging
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, TypeVar

from tank_node.broker.broker import Broker
from tank_node.broker.maintenance import Maintenance
from tank_node.cluster.link import (
    CommitOutcome,
    GroupsOutcome,
    NewTopic,
    Position,
    PositionsOutcome,
    ProducerOutcome,
    TopicAlteration,
    TopicOutcome,
)
from tank_node.coordinators.machine.group_settings import GroupSettings
from tank_node.disk import Disk
from tank_node.limits import KIB, Limits
from tank_node.metrics import Metrics
from tank_node.store.data_folder import DataFolder
from tank_node.store.flusher import Flusher
from tank_protos.error_codes import ErrorCode
from tank_protos.topic_settings import SettingError
from tests.support.controllers.instant_controller import InstantController
from tests.support.manual_clock import ManualClock
from tests.support.storage.fault_disk import FaultDisk

TOPICS: Final = ("gold", "multi", "tail", "sparse")
"""What the seeds speak of."""

WITNESS: Final = "witness"
"""A topic of nobody but the client that does nothing wrong."""

PARTITIONS: Final = 4
MOST_PARTITIONS: Final = 16
"""A topic of 65530 partitions is no bad input, only a slow one."""

ROOMY: Final = Limits(receive_bytes=64 * KIB, arena_bytes=256 * KIB)
TIGHT: Final = Limits(
    receive_bytes=16 * KIB,
    arena_bytes=64 * KIB,
    frame_bytes=12 * KIB,
    bundle_bytes=1 * KIB,
    request_bytes=2 * KIB,
    produce_entries=20,
    in_flight=6,
    waits_per_partition=3,
    wait_entries=8,
    all_wait_entries=20,
    unsent_bytes=2 * KIB,
)
"""So small that every bound is met."""

T = TypeVar("T")


class LateController(InstantController):
    """Answers at once or later, in any order; refuses topics with many partitions, so that the fuzzer's time
    goes into frames."""

    def __init__(self, chance: Random) -> None:
        super().__init__()
        self.late_share = 0.0
        self._chance = chance
        self._late: list[Callable[[], None]] = []

    def settle(self, share: float = 1.0) -> None:
        """Gives some of the answers that are due."""
        due = [call for call in self._late if self._chance.random() < share]
        self._late = [call for call in self._late if call not in due]
        self._chance.shuffle(due)
        for call in due:
            call()

    def _later(self, done: Callable[[T], None]) -> Callable[[T], None]:
        if self._chance.random() < self.late_share:
            return lambda outcome: self._late.append(lambda: done(outcome))
        return done

    def create_topic(self, topic: NewTopic, done: Callable[[TopicOutcome], None]) -> None:
        done = self._later(done)
        if topic.partitions > MOST_PARTITIONS:
            return done(TopicOutcome(ErrorCode.INVALID_PARTITIONS, "too many"))
        return super().create_topic(topic, done)

    def alter_topic(self, change: TopicAlteration, done: Callable[[TopicOutcome], None]) -> None:
        done = self._later(done)
        if change.partitions > MOST_PARTITIONS:
            return done(TopicOutcome(ErrorCode.INVALID_PARTITIONS, "too many"))
        try:
            return super().alter_topic(change, done)
        except SettingError as error:
            return done(TopicOutcome(ErrorCode.INVALID_SETTING, str(error)))

    def delete_topic(self, name: str, done: Callable[[TopicOutcome], None]) -> None:
        super().delete_topic(name, self._later(done))

    def init_producer(self, name: str, generation: int, done: Callable[[ProducerOutcome], None]) -> None:
        super().init_producer(name, generation, self._later(done))

    def commit_positions(
        self, group: str, positions: Sequence[Position], done: Callable[[CommitOutcome], None]
    ) -> None:
        super().commit_positions(group, positions, self._later(done))

    def fetch_positions(
        self, group: str, topics: Sequence[str], done: Callable[[PositionsOutcome], None]
    ) -> None:
        super().fetch_positions(group, topics, self._later(done))

    def list_groups(self, done: Callable[[GroupsOutcome], None]) -> None:
        super().list_groups(self._later(done))

    def await_view(self, done: Callable[[bool], None], *, of_client: bool = False) -> None:
        super().await_view(self._later(done), of_client=of_client)


class InlineFlusher(Flusher):
    """Syncs without threads: what is posted waits for `settle`."""

    def __init__(self, disk: Disk) -> None:
        self.posted: list[Callable[[], None]] = []
        super().__init__(disk, self.posted.append)

    def _submit(self, job: Callable[[], None]) -> None:
        self._idle -= 1
        job()

    def _remove(self, job: Callable[[], None]) -> None:
        job()  # the disk in memory knows one thread

    def settle(self) -> None:
        while self.posted:
            self.posted.pop(0)()


class BugLog(logging.Handler):
    """Collects what the node logs as an error. A broker that only had bad clients logs none; a full disk is
    worth a line, and only a bug of ours comes with its traceback."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.bugs: list[str] = []
        self.errors: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        line = logging.Formatter().format(record)
        (self.bugs if record.exc_info else self.errors).append(line)


class Node:
    """A broker over a disk in memory. `breathe` is what happens between two ticks of a server."""

    def __init__(self, chance: Random, limits: Limits) -> None:
        self.limits = limits
        self.disk, self.clock, self.metrics = FaultDisk(), ManualClock(), Metrics()
        self.controller = LateController(chance)
        self.flusher = InlineFlusher(self.disk)
        folder = DataFolder.open(
            "/data", self.disk, self.clock, new_uuid=lambda: "0" * 32, boot_id=lambda: "boot"
        )
        self.broker = Broker(folder, self.controller, self.flusher, self.clock, limits, self.metrics)
        self.broker.open()
        self.broker.groups = GroupSettings(topic_partitions=2, initial_delay_ms=0)
        self.maintenance = Maintenance(self.broker)
        self.disk_was_full = False
        self.add_topics()

    def add_topics(self) -> None:
        """Again, too, because strangers delete them. Half of them wait for the disk."""
        late, self.controller.late_share = self.controller.late_share, 0.0
        for at, topic in enumerate((*TOPICS, WITNESS)):
            if topic not in self.broker.topics:
                flush = {"flush": "replicated"} if at % 2 else {}
                self.controller.add(topic, PARTITIONS, **flush)
        self.controller.late_share = late

    def fill_disk(self, full: bool) -> None:
        """From now on nothing can be written, or everything again."""
        self.disk.capacity_bytes = self.disk.used_bytes if full else None
        self.disk_was_full = self.disk_was_full or full

    def end_tick(self, *, sync: bool) -> None:
        """Writes, and answers; with `sync`, the disk is done, too."""
        self.broker.end_tick()
        if sync:
            self.flusher.settle()
        self.broker.deadlines.expire()
        if self.broker.rolled:
            self.maintenance.look_at_rolled()

    def rest(self, milliseconds: int) -> None:
        """Nobody sends anything for a while: waits end, logs are maintained."""
        self.clock.pass_ms(milliseconds)
        self.broker.begin_tick()
        self.broker.deadlines.expire()
        self.broker.give_up_late()
        self.maintenance.run()
        self.end_tick(sync=True)
