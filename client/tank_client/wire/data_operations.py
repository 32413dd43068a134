"""Fetching and producing as operations, for each kind of broker; pure."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from tank_client import errors
from tank_client.model import Address, Features, FetchedChunk, Stored
from tank_client.wire.connection import TankAnswer, TankRequest
from tank_client.wire.operations import ClientOperation, Redirected, address_of, client_version, error_of, has
from tank_protos.bundle import as_batch
from tank_protos.error_codes import ConsumeFlag, ProduceError
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchedPartition,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProducePartition,
    ProduceRecordBatchesRequest,
    ProduceRecordBatchesResponse,
    ProduceRequest,
    ProduceResponse,
    ProduceTopic,
    RecordBatchesPartition,
    RecordBatchesPartitionResult,
    RecordBatchesTopic,
)
from tank_protos.wire.buffer import Buffer

MAX_PER_COUNT = 255
"""Topics in a consume request, and partitions in each of them: the counts are one byte."""
MAX_FETCH_BYTES = 64 << 20
"""The longest wait; brokers shorten longer ones to it."""


RECORD_BATCHES: Final = "produce_record_batches"
"""The message of brokers that take record batches, and send those of topics of Kafka's format as they are."""
_TAKES_RECORD_BATCHES: Final = 2
"""The flag of a consume request for it."""


class Want(NamedTuple):
    """One partition of a fetch."""

    topic: str
    partition: int
    number: int
    max_bytes: int


class PartitionAnswer(NamedTuple):
    """The result of a fetch for one partition: a chunk (possibly empty) or an error."""

    topic: str
    partition: int
    result: FetchedChunk | errors.TankError


def split_wants(wants: Sequence[Want]) -> list[list[Want]]:
    """Splits the wants into groups that each fit one request: 255 topics of 255 partitions."""
    groups: list[list[Want]] = []
    counts: dict[str, int] = {}
    for want in sorted(wants, key=lambda want: want.topic):
        count = counts.get(want.topic, 0)
        if not groups or count == MAX_PER_COUNT or (not count and len(counts) == MAX_PER_COUNT):
            groups.append([])
            counts, count = {}, 0
        groups[-1].append(want)
        counts[want.topic] = count + 1
    return groups


def consume_request(
    server: Features,
    wants: Sequence[Want],
    max_wait_ms: int,
    min_bytes: int,
    client_id: str,
    *,
    takes_records: bool = False,
) -> ConsumeRequest:
    """One request for all `wants`, which `split_wants` has made to fit. `takes_records`: record batches come
    as they are stored, where the broker can do so; else they come as bundles."""
    topics: dict[str, list[ConsumePartition]] = {}
    for topic, partition, number, max_bytes in wants:
        topics.setdefault(topic, []).append(
            ConsumePartition(partition=partition, sequence_number=number, fetch_size=max_bytes)
        )
    return ConsumeRequest(
        client_version=client_version(server),
        client_id=client_id,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        flags=_TAKES_RECORD_BATCHES if takes_records and has(server, RECORD_BATCHES) else 0,
        topics=[ConsumeTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def read_consume(answer: ConsumeResponse, wants: Sequence[Want]) -> list[PartitionAnswer]:
    """Reads the answer: one entry for each want. Raises ProtocolViolation when it does not fit the
    request.
    """
    asked = {(want.topic, want.partition): want for want in wants}
    answers: list[PartitionAnswer] = []
    offset = 0
    for topic in answer.topics:
        if topic.unknown:
            for want in [want for want in asked.values() if want.topic == topic.name]:
                del asked[want.topic, want.partition]
                answers.append(PartitionAnswer(want.topic, want.partition, errors.UnknownTopic(topic.name)))
            continue
        for entry in topic.partitions:
            wanted = asked.pop((topic.name, entry.partition), None)
            if wanted is None:
                raise errors.ProtocolViolation(
                    f"{topic.name}/{entry.partition} was answered and not asked for"
                )
            length = entry.chunk_length
            if offset + length > len(answer.chunks):
                raise errors.ProtocolViolation(
                    "the chunks are shorter than the header of a consume answer says"
                )
            chunk = memoryview(answer.chunks)[offset : offset + length]
            offset += length
            answers.append(PartitionAnswer(topic.name, entry.partition, _entry(wanted, entry, chunk)))
    if asked:
        raise errors.ProtocolViolation(f"{len(asked)} of the partitions asked for are not in the answer")
    return answers


def _entry(want: Want, entry: FetchedPartition, chunk: memoryview) -> FetchedChunk | errors.TankError:
    topic, partition = want.topic, want.partition
    flag = entry.flag
    if flag in (ConsumeFlag.DATA, ConsumeFlag.SPARSE):
        base = entry.base_sequence_number if flag == ConsumeFlag.DATA else 0
        return FetchedChunk(base, entry.high_water_mark, chunk, flag == ConsumeFlag.SPARSE)
    if flag == ConsumeFlag.RECORD_BATCHES:
        mark, first = entry.high_water_mark, entry.first_available
        return FetchedChunk(0, mark, chunk, first_available=first, holds_records=True)
    if flag == ConsumeFlag.OUT_OF_BOUNDS:
        return errors.OutOfBounds(topic, partition, want.number, entry.first_available, entry.high_water_mark)
    if flag == ConsumeFlag.OTHER_LEADER:
        return Redirected(address_of(entry.leader_ipv4, entry.leader_port))
    if flag == ConsumeFlag.NO_LEADER:
        return errors.NoLeader(f"{topic}/{partition} has no leader now")
    if flag == ConsumeFlag.NOT_OPENED:
        return errors.StorageFailure(
            f"{topic}/{partition}: the broker could not open the partition; look at its log"
        )
    if flag == ConsumeFlag.UNKNOWN_PARTITION:
        return errors.UnknownPartition(topic, partition)
    raise errors.ProtocolViolation(f"unknown flag {flag:#04x} in a consume answer")


def fetch(
    want: Want, max_wait_ms: int, client_id: str, *, takes_records: bool = False
) -> ClientOperation[FetchedChunk]:
    """Fetches raw bundles of one partition, or record batches; see `consume_request`."""

    def read(answer: ConsumeResponse, server: Features) -> FetchedChunk:
        result = read_consume(answer, [want])[0].result
        if isinstance(result, errors.TankError):
            raise result
        return result

    return ClientOperation(
        name=f"fetch {want.topic}/{want.partition}",
        build=lambda server: consume_request(
            server, [want], max_wait_ms, 0, client_id, takes_records=takes_records
        ),
        answer=lambda server: ConsumeResponse,
        read=read,
        route=(want.topic, want.partition),
        wait_ms=max_wait_ms,
    )


class BundleToStore(NamedTuple):
    """One bundle, with its length before it, and what makes a repeat recognizable; or, with `holds_records`,
    one record batch, see `tank_protos.kafka.produced_batch`."""

    topic: str
    partition: int
    batch: Buffer
    producer_id: int = 0
    producer_epoch: int = 0
    sequence: int = 0
    max_timestamp_ms: int = 0
    required_acks: int = 0
    ack_timeout_ms: int = 0
    holds_records: bool = False


ProduceAnswer: TypeAlias = ProduceResponse | IdempotentProduceResponse | ProduceRecordBatchesResponse


def produce_request(
    server: Features, bundle: BundleToStore, client_id: str
) -> tuple[TankRequest, type[TankAnswer]]:
    """Returns the request that stores the bundle, and the type of its answer: our own message where the
    broker knows it (its answer has the numbers), else TANK's. Raises FeatureMissing for a record batch that a
    broker of an older version can't take, because no bundle holds it."""
    if bundle.holds_records:
        if has(server, RECORD_BATCHES):
            return _record_batch_request(bundle, client_id), ProduceRecordBatchesResponse
        bundle = _as_bundle(server, bundle)
    if has(server, "idempotent_produce"):
        return IdempotentProduceRequest(
            client_id=client_id,
            required_acks=bundle.required_acks,
            ack_timeout_ms=bundle.ack_timeout_ms,
            producer_id=bundle.producer_id,
            producer_epoch=bundle.producer_epoch,
            topics=[
                IdempotentTopic(
                    name=bundle.topic,
                    partitions=[
                        IdempotentPartition(
                            partition=bundle.partition,
                            sequence=bundle.sequence,
                            max_timestamp_ms=bundle.max_timestamp_ms,
                            bundle=memoryview(bundle.batch),
                        )
                    ],
                )
            ],
        ), IdempotentProduceResponse
    if bundle.producer_id:
        raise errors.FeatureMissing(
            "idempotent produce",
            server.version,
            "produce without a producer id, and expect repeats after a lost answer",
        )
    return ProduceRequest(
        client_version=client_version(server),
        client_id=client_id,
        required_acks=bundle.required_acks,
        ack_timeout_ms=bundle.ack_timeout_ms,
        topics=[
            ProduceTopic(
                name=bundle.topic,
                partitions=[ProducePartition(partition=bundle.partition, bundle=memoryview(bundle.batch))],
            )
        ],
    ), ProduceResponse


def _record_batch_request(batch: BundleToStore, client_id: str) -> ProduceRecordBatchesRequest:
    entry = RecordBatchesPartition(batch.partition, batch.sequence, memoryview(batch.batch))
    return ProduceRecordBatchesRequest(
        client_id=client_id,
        required_acks=batch.required_acks,
        ack_timeout_ms=batch.ack_timeout_ms,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        topics=[RecordBatchesTopic(batch.topic, [entry])],
    )


def _as_bundle(server: Features, batch: BundleToStore) -> BundleToStore:
    """The same messages as a bundle: during an upgrade the next leader may be of the version before."""
    from tank_protos.kafka import produced_batch
    from tank_protos.kafka.errors import InvalidRecords

    try:
        made = produced_batch.as_bundle(batch.batch)
    except InvalidRecords:
        raise errors.FeatureMissing(
            "headers, null values, and keys that are empty or longer than 255 bytes",
            server.version,
            "update all brokers first",
        ) from None
    return batch._replace(batch=made, holds_records=False)


def read_produce(answer: ProduceAnswer, bundle: BundleToStore) -> Stored | errors.TankError:
    """Reads whether and where the bundle is stored. Raises ProtocolViolation when the answer does not fit the
    request.
    """
    topic, partition = bundle.topic, bundle.partition
    if isinstance(answer, IdempotentProduceResponse | ProduceRecordBatchesResponse):
        if len(answer.topics) != 1 or len(answer.topics[0].partitions) != 1:
            raise errors.ProtocolViolation("a produce answer with another number of entries than the request")
        result = answer.topics[0].partitions[0]
        if result.error == ProduceError.OTHER_LEADER:
            known = result.leader_host and result.leader_port
            return Redirected(Address(result.leader_host, result.leader_port) if known else None)
        words = result.message if isinstance(result, RecordBatchesPartitionResult) else ""
        if words:
            words = f"{topic}/{partition}: {words}"
        return error_of(result.error, topic, partition, words) or Stored(result.first, result.last)
    if len(answer.results) != 1:
        raise errors.ProtocolViolation("a produce answer with another number of entries than the request")
    plain = answer.results[0]
    if plain.error == ProduceError.OTHER_LEADER:
        return Redirected(address_of(plain.leader_ipv4, plain.leader_port))
    return error_of(plain.error, topic, partition) or Stored(0, 0)


def produce(bundle: BundleToStore, client_id: str) -> ClientOperation[Stored]:
    """Stores one bundle; repeatable only when it has a producer id."""

    def answer(server: Features) -> type[TankAnswer]:
        if bundle.holds_records and has(server, RECORD_BATCHES):
            return ProduceRecordBatchesResponse
        return IdempotentProduceResponse if has(server, "idempotent_produce") else ProduceResponse

    def read(message: ProduceAnswer, server: Features) -> Stored:
        result = read_produce(message, bundle)
        if isinstance(result, errors.TankError):
            raise result
        return result

    return ClientOperation(
        name=f"produce to {bundle.topic}/{bundle.partition}",
        build=lambda server: produce_request(server, bundle, client_id)[0],
        answer=answer,
        read=read,
        route=(bundle.topic, bundle.partition),
        repeatable=bundle.producer_id != 0,
        wait_ms=bundle.ack_timeout_ms,
    )


def to_store(
    topic: str,
    partition: int,
    bundle: Buffer,
    *,
    producer_id: int = 0,
    producer_epoch: int = 0,
    sequence: int = 0,
    max_timestamp_ms: int = 0,
    holds_records: bool = False,
) -> BundleToStore:
    """A bundle without its length prefix, or a record batch, as one to store."""
    return BundleToStore(
        topic,
        partition,
        bundle if holds_records else as_batch(bundle),
        producer_id,
        producer_epoch,
        sequence,
        max_timestamp_ms,
        holds_records=holds_records,
    )
