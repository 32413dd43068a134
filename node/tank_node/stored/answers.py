"""Leaders' answers about stored batches: as other brokers get them, and as they read them. Pure."""

from tank_node.broker.forwarding import UnexpectedAnswer
from tank_node.segment.record import FORMAT_KAFKA, FORMAT_TANK
from tank_node.stored.outcome import StoredOutcome, code_of, outcome_of_code
from tank_node.stored.results import Appended, BatchAsStored, Fetched, PartitionExtent
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    AppendStoredResponse,
    FetchedBatch,
    FetchStoredResponse,
    PartitionControlResponse,
    PartitionSize,
    PartitionSizesResponse,
)


def fetched_answer(request_id: int, found: Fetched) -> FetchStoredResponse:
    """The answer to a read."""
    batches = [
        FetchedBatch(batch.first, batch.messages, batch.append_ms, len(batch.data)) for batch in found.batches
    ]
    return FetchStoredResponse(
        request_id,
        code_of(found.outcome),
        FORMAT_TANK if found.is_bundles else FORMAT_KAFKA,
        found.start,
        found.mark,
        found.log_start,
        found.next,
        batches,
        b"".join(batch.data for batch in found.batches),
    )


def read_fetched(payload: bytes) -> Fetched:
    """What another broker has read. Raises WireError."""
    answer = FetchStoredResponse.decode(payload)
    data = memoryview(answer.data)
    if sum(batch.length for batch in answer.batches) != len(data):
        raise UnexpectedAnswer("the lengths of batches don't fit their bytes")
    if answer.format not in (FORMAT_TANK, FORMAT_KAFKA):
        raise UnexpectedAnswer(f"batches of format {answer.format}")
    batches, at = [], 0
    for batch in answer.batches:
        stop = at + batch.length
        batches.append(BatchAsStored(batch.first, batch.messages, batch.append_ms, data[at:stop]))
        at = stop
    return Fetched(
        outcome_of_code(answer.error),
        answer.start,
        answer.mark,
        answer.log_start,
        answer.next,
        answer.format == FORMAT_TANK,
        batches,
    )


def appended_answer(request_id: int, result: Appended) -> AppendStoredResponse:
    """The answer to an append."""
    return AppendStoredResponse(request_id, code_of(result.outcome), result.first, result.last)


def read_appended(payload: bytes) -> Appended:
    """What became of an append at another broker. Raises WireError."""
    answer = AppendStoredResponse.decode(payload)
    outcome = outcome_of_code(answer.error)
    if not outcome and not 0 < answer.first <= answer.last:
        raise UnexpectedAnswer(f"numbers {answer.first} to {answer.last} of an append")
    return Appended(outcome, answer.first, answer.last)


def read_controlled(payload: bytes) -> StoredOutcome:
    """What became of a flush or a deletion at another broker. Raises WireError."""
    return outcome_of_code(PartitionControlResponse.decode(payload).error)


def size_of(found: PartitionExtent | StoredOutcome) -> PartitionSize:
    """A partition's part of the answer about sizes."""
    if isinstance(found, StoredOutcome):
        return PartitionSize(code_of(found))
    return PartitionSize(ErrorCode.NONE, found.first, found.mark, found.size_bytes, found.segments)


def read_sizes(payload: bytes, count: int) -> list[PartitionExtent | None]:
    """The extents that another broker has told, for as many partitions as it was asked for; None: it doesn't
    know one. Raises WireError."""
    answer = PartitionSizesResponse.decode(payload)
    if len(answer.sizes) != count:
        raise UnexpectedAnswer(f"{len(answer.sizes)} sizes of {count} partitions")
    return [
        None if each.error else PartitionExtent(each.first, each.mark, each.size_bytes, each.segments)
        for each in answer.sizes
    ]
