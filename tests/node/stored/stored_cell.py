"""Three brokers, and sessions that read and append stored batches at any of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from time import sleep
from typing import Final

from tank_node.limits import Limits
from tank_node.partition.partition import Partition
from tank_node.peers.forward_session import ForwardSession
from tank_node.session import Session
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.results import Appended, Fetched, Place, StoredWanted
from tank_node.stored.stored_partitions import StoredPartitions, stored_partitions
from tank_node.stored.strategy import StoredStrategy
from tank_protos import bundle
from tank_protos.feature_levels import IGGY
from tank_protos.kafka import record_batch
from tank_protos.kafka.records import KafkaRecord, placed_deltas
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, CellNode, PipeEnd

PLACE: Final[Place] = (10, 0)
"""Partition 0 of topic "a"."""
KAFKA_PLACE: Final[Place] = (11, 0)
"""Partition 0 of topic "k", which stores record batches."""
EVERYTHING: Final = 1_000_000


def records_of(*values: bytes) -> bytes:
    """A record batch of these values, from before the cell's clock began."""
    made = [KafkaRecord(None, value, index, index) for index, value in enumerate(values)]
    return record_batch.encode(made, base_timestamp_ms=1_600_000_000_000)


def cell_of(folder: Path, brokers: int = 3, limits: Limits | None = None, min_insync: int = 1) -> BrokerCell:
    """Brokers of which the first one leads both topics."""
    cell = BrokerCell(folder, brokers, limits)
    for node in cell.nodes.values():
        node.controller.view.feature_level = IGGY
    cell.create("a", flush="replicated", min_insync=min_insync)
    cell.create("k", flush="replicated", log_format="kafka")
    cell.run(300)
    return cell


class StoredClient:
    """A session at one broker, and what it was told, in the order in which it was told."""

    def __init__(self, node: CellNode) -> None:
        self.node = node
        self.session = Session()
        self.appended: list[Appended] = []
        self.fetched: list[Fetched] = []
        self.outcomes: list[StoredOutcome] = []
        self.told: list[str] = []
        """The names of appends, as they were answered."""

    @property
    def _stored(self) -> StoredPartitions:
        return stored_partitions(self.node.broker)

    def _tick(self, call: Callable[[], None]) -> None:
        self.node.broker.begin_tick()
        call()
        self.node.broker.end_tick()

    def append(self, *values: bytes, place: Place = PLACE, timeout_ms: int = 0) -> None:
        made = records_of(*values) if place[0] == KAFKA_PLACE[0] else batch_of(*values)
        self.append_bytes(made, place, values[0].decode(), timeout_ms)

    def append_bytes(self, batch: bytes, place: Place = PLACE, name: str = "", timeout_ms: int = 0) -> None:
        """As a session does: the bytes are good until the tick's end alone."""
        buffer = bytearray(batch)

        def done(result: Appended) -> None:
            self.appended.append(result)
            self.told.append(name)

        self._tick(
            lambda: self._stored.append(place, memoryview(buffer), self.session, done, timeout_ms=timeout_ms)
        )
        buffer[:] = bytes(len(buffer))

    def fetch(
        self,
        strategy: StoredStrategy = StoredStrategy.FIRST,
        value: int = 0,
        count: int = EVERYTHING,
        max_bytes: int = 0,
        wait_ms: int = 0,
        place: Place = PLACE,
    ) -> None:
        wanted = StoredWanted(strategy, value, count, max_bytes, wait_ms)
        self._tick(lambda: self._stored.fetch(place, wanted, self.session, self.fetched.append))

    def flush(self, *, waits: bool = True, place: Place = PLACE) -> None:
        self._tick(lambda: self._stored.flush(place, self.session, self.outcomes.append, waits=waits))

    def delete_segments(self, count: int, place: Place = PLACE) -> None:
        self._tick(lambda: self._stored.delete_segments(place, count, self.session, self.outcomes.append))

    def now_fetched(self, *arguments: object, **named: object) -> Fetched:
        """Reads, and returns what was found after some time."""
        self.fetch(*arguments, **named)  # type: ignore[arg-type]
        self.node.cell.run(200)
        return self.fetched.pop()


def values_of(found: Fetched, count: int = EVERYTHING) -> list[bytes]:
    """The wanted messages of a read, as a session makes them."""
    return [value for _, value in numbered(found)][:count]


def numbers_of(found: Fetched, count: int = EVERYTHING) -> list[int]:
    return [number for number, _ in numbered(found)][:count]


def numbered(found: Fetched) -> list[tuple[int, bytes]]:
    messages: list[tuple[int, bytes]] = []
    for each in found.batches:
        data = memoryview(each.data)
        if found.is_bundles:
            (one,) = bundle.bundles(data)
            messages += [(m.sequence_number, bytes(m.value)) for m in bundle.decode(one, each.first)]
            continue
        header = record_batch.verify(data)
        columns = record_batch.columns_of(data, header, 1 << 24)
        deltas = placed_deltas(columns.offset_deltas, header.last_offset_delta)
        for delta, value in zip(deltas, columns.values, strict=True):
            messages.append((header.base_offset + delta + 1, bytes(value or b"")))
    return [(number, value) for number, value in messages if number >= found.start]


def stored_values(node: CellNode, place: Place = PLACE) -> list[bytes]:
    """Everything in a replica's log, committed or not."""
    from tank_node.stored.leader.reading import read_stored

    partition = replica(node, place)
    mark = partition.high_water_mark
    try:
        partition.high_water_mark = partition.log.written
        wanted = StoredWanted(StoredStrategy.FIRST, 0, EVERYTHING)
        return values_of(read_stored(partition, wanted))
    finally:
        partition.high_water_mark = mark


def replica(node: CellNode, place: Place = PLACE) -> Partition:
    found = node.broker.partition_by_id(*place)
    assert found is not None
    return found


def line_pipe(node: CellNode, leader: int) -> tuple[PipeEnd, PipeEnd]:
    """Both ends of the connection on which a broker forwards requests to another one."""
    ((near, far),) = [
        (near, far)
        for one, other, near, far in node.cell.pipes
        if (one, other) == (node.broker_id, leader)
        and isinstance(near.session, ForwardSession)
        and not near.closed
    ]
    return near, far


def told_outcomes(client: StoredClient, count: int) -> list[StoredOutcome]:
    """The outcomes of so many requests. What is written into checkpoints is written by threads, whose time is
    not that of the cell."""
    for _ in range(120):
        if len(client.outcomes) >= count:
            break
        client.node.cell.run(50)
        sleep(0.02)
    return client.outcomes


def outcomes(client: StoredClient) -> Sequence[StoredOutcome]:
    return [result.outcome for result in client.appended]
