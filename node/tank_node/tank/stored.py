"""Stored batches of partitions that this broker leads, for sessions of other brokers (86 to 89)."""

from functools import partial
from typing import TYPE_CHECKING

from tank_node.limits import SIZED_PARTITIONS
from tank_node.stored import answers
from tank_node.stored.leader import appending
from tank_node.stored.leader.control import ControlAction, PartitionControl, control_here
from tank_node.stored.leader.measuring import extent_of
from tank_node.stored.leader.read_wait import ReadWait
from tank_node.stored.outcome import StoredOutcome, code_of
from tank_node.stored.results import Appended, Fetched, StoredWanted
from tank_node.stored.strategy import StoredStrategy
from tank_node.tank.errors import outcome_of
from tank_node.tank.redirect import check_mark
from tank_protos.generated.tank import (
    AppendStoredRequest,
    FetchStoredRequest,
    PartitionControlRequest,
    PartitionControlResponse,
    PartitionSizesRequest,
    PartitionSizesResponse,
)
from tank_protos.wire.errors import OutOfRange, WireError
from tank_protos.wire.message import Message

if TYPE_CHECKING:
    from tank_node.tank.session import TankSession


def fetch_stored(session: "TankSession", payload: memoryview) -> None:
    """Reads batches, and waits for some if it may. Raises WireError."""
    request = FetchStoredRequest.decode(payload)
    _check_sender(session, request.client_version)
    try:
        strategy = StoredStrategy(request.strategy)
    except ValueError:
        raise OutOfRange(f"there is no strategy {request.strategy}") from None
    wanted = StoredWanted(strategy, request.value, request.count, request.max_bytes, request.wait_ms)
    session.in_flight += 1  # the other broker bounds the bytes

    def told(found: Fetched) -> None:
        _answer(session, answers.fetched_answer(request.request_id, found), found.outcome)

    ReadWait(session.broker, (request.topic_id, request.partition), wanted, session, told).begin()


def append_stored(session: "TankSession", payload: memoryview) -> None:
    """Appends a batch. Raises WireError."""
    request = AppendStoredRequest.decode(payload)
    _check_sender(session, request.client_version)
    session.in_flight += 1
    request_id = request.request_id

    def told(result: Appended) -> None:
        if not session.closed:
            _answer(session, answers.appended_answer(request_id, result), result.outcome)

    batch = memoryview(request.batch)
    place = request.topic_id, request.partition
    appending.append_stored(session.broker, place, batch, request.format, told, request.timeout_ms)


def partition_control(session: "TankSession", payload: memoryview) -> None:
    """Flushes a partition, or deletes segments of it. Raises WireError."""
    request = PartitionControlRequest.decode(payload)
    _check_sender(session, request.client_version)
    try:
        control = PartitionControl(ControlAction(request.action), request.segments)
    except ValueError:
        raise OutOfRange(f"there is no action {request.action}") from None
    session.in_flight += 1

    def told(outcome: StoredOutcome) -> None:
        _answer(session, PartitionControlResponse(request.request_id, code_of(outcome)), outcome)

    control_here(session.broker, (request.topic_id, request.partition), control, session, told)


def partition_sizes(session: "TankSession", payload: memoryview) -> None:
    """Tells how much partitions hold. Raises WireError."""
    request = PartitionSizesRequest.decode(payload)
    _check_sender(session, request.client_version)
    if len(request.partitions) > SIZED_PARTITIONS:
        raise OutOfRange(
            f"sizes of {len(request.partitions)} partitions; {SIZED_PARTITIONS} may be asked for"
        )
    found = map(partial(extent_of, session.broker), [(p.topic_id, p.partition) for p in request.partitions])
    session.answer(PartitionSizesResponse(request.request_id, list(map(answers.size_of, found))))


def _check_sender(session: "TankSession", version: int) -> None:
    if not session.is_forwarder:
        raise WireError("a client sent a request that brokers alone send each other")
    check_mark(session, version)


def _answer(session: "TankSession", answer: Message, outcome: StoredOutcome) -> None:
    session.in_flight -= 1
    session.answer(answer, outcome_of(code_of(outcome)))
