"""The answers that a leader of a broker cell gets, and its in-sync set."""

from tank_node.partition.waiters import ProducerStamp
from tank_protos.error_codes import ErrorCode
from tests.support.clients.produce import batch_of
from tests.support.nodes.broker_cell import BrokerCell, CellNode, Told


def append(
    node: CellNode,
    value: bytes,
    told: Told,
    token: int,
    producer: ProducerStamp | None = None,
    timeout_ms: int = 0,
) -> None:
    node.broker.begin_tick()
    batch = memoryview(batch_of(value))
    node.partition().append(batch, told, token, producer=producer, timeout_ms=timeout_ms)
    node.broker.end_tick()


def errors(told: Told) -> list[ErrorCode]:
    return [error for _, (error, _, _) in sorted(told.told.items())]


def members(cell: BrokerCell) -> tuple[int, ...]:
    return cell.topics["a"].partitions[0].in_sync
