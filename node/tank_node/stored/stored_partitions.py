"""Partitions, wherever they are led, for sessions that make their protocol's messages of stored batches."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from tank_node.broker.broker import Broker
from tank_node.broker.shared_parts import shared
from tank_node.limits import CACHED_SIZES
from tank_node.segment.record import FORMAT_KAFKA, FORMAT_TANK
from tank_node.session import Session
from tank_node.stored.append_call import AppendCall
from tank_node.stored.append_lines import AppendLines
from tank_node.stored.control_call import ControlCall
from tank_node.stored.fetch_call import FetchCall
from tank_node.stored.leader.control import ControlAction, PartitionControl
from tank_node.stored.leader.measuring import extent_of
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Appended, Fetched, PartitionExtent, Place, StoredWanted
from tank_node.stored.sizes_call import SizesCall
from tank_protos.topic_settings import LogFormat
from tank_protos.wire.buffer import Buffer


class StoredPartitions:
    """What the sessions of one broker do with stored batches. All calls come within a tick of the broker.

    Each request goes to the partition's leader, which may be this broker, and waits for a leader as long as
    `Limits.stored_leader_wait_ms` says. `sender` is the client's connection, which is held back while too
    much is on its way; `done` is called once, perhaps during the call, but not after `sender` was closed.
    """

    __slots__ = ("_broker", "_lines", "_sizes")

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._lines = AppendLines()
        self._sizes: dict[Place, tuple[int, PartitionExtent]] = {}
        """When each partition was measured (monotonic, ms), and what it held."""

    def append(
        self,
        place: Place,
        batch: Buffer,
        sender: Session,
        done: Callable[[Appended], None],
        timeout_ms: int = 0,
    ) -> None:
        """Appends a batch in the form in which the topic stores it; DONE when the high-water mark has passed
        it. It is never sent twice, and appends of one connection to one partition keep their order.

        timeout_ms: how long the leader waits for replicas; 0: the default. `batch` must stay valid until the
        end of the tick; numbers are written into it if it can be changed, else into a copy.
        """
        topic = self._broker.link.view.topic_by_id(place[0])
        if topic is None:
            done(Appended(StoredOutcome.UNKNOWN_TOPIC))
            return
        is_kafka = topic.settings.log_format is LogFormat.KAFKA
        given = FORMAT_KAFKA if is_kafka else FORMAT_TANK, memoryview(batch)
        AppendCall(self._broker, self._lines, (sender.serial, place), given, done, timeout_ms).begin(sender)

    def fetch(
        self, place: Place, wanted: StoredWanted, sender: Session, done: Callable[[Fetched], None]
    ) -> None:
        """Reads batches; DONE without any when there is nothing."""
        FetchCall(self._broker, place, wanted, sender, done).begin()

    def flush(
        self, place: Place, sender: Session, done: Callable[[StoredOutcome], None], *, waits: bool = True
    ) -> None:
        """Has the leader fsync the partition; DONE when its disk and all in-sync replicas have what the log
        holds now. Without `waits` it is DONE when it has begun."""
        action = ControlAction.FLUSH if waits else ControlAction.BEGIN_FLUSH
        ControlCall(self._broker, place, PartitionControl(action), sender, done).begin()

    def delete_segments(
        self, place: Place, count: int, sender: Session, done: Callable[[StoredOutcome], None]
    ) -> None:
        """Deletes the `count` oldest sealed segments, or as many as lie wholly at or below the high-water
        mark; DONE when the deletion outlives the leader's end."""
        control = PartitionControl(ControlAction.DELETE_SEGMENTS, count)
        ControlCall(self._broker, place, control, sender, done).begin()

    def sizes(
        self,
        places: Iterable[Place],
        sender: Session,
        done: Callable[[Mapping[Place, PartitionExtent]], None],
        *,
        is_new: bool = False,
    ) -> None:
        """Tells how much partitions hold: those that other brokers lead as it was at most
        `Limits.stored_sizes_ms` ago, those that this one leads as it is now; is_new: all as it is now. Those
        whose leader is unknown, or hasn't answered in time, are left out."""
        now_ms = self._broker.tick.monotonic_ms
        known: dict[Place, PartitionExtent] = {}
        wanted = []
        for place in places:
            cached = self._sizes.get(place)
            if not is_new and cached is not None and now_ms - cached[0] < self._broker.limits.stored_sizes_ms:
                here = extent_of(self._broker, place)
                known[place] = here if isinstance(here, PartitionExtent) else cached[1]
            else:
                wanted.append(place)
        if wanted:
            SizesCall(self._broker, sender, partial(self._measured, known, done)).begin(wanted)
        else:
            done(known)

    def _measured(
        self,
        known: dict[Place, PartitionExtent],
        done: Callable[[Mapping[Place, PartitionExtent]], None],
        found: Mapping[Place, PartitionExtent],
    ) -> None:
        now_ms = self._broker.tick.monotonic_ms
        if len(self._sizes) + len(found) > CACHED_SIZES:
            self._sizes.clear()
        for place, extent in found.items():
            self._sizes[place] = now_ms, extent
        done({**known, **found})


def stored_partitions(broker: Broker) -> StoredPartitions:
    """The one object of this broker; made at the first call."""
    return shared(broker, StoredPartitions, StoredPartitions)
