"""Compiled functions beside the plain ones whose place they take: the same value, or the same error.

Each function gets what its callers may give it, good and bad, in buffers that end where their bytes end.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

from fastcrc.crc32 import iscsi as crc32c

from tank_protos import bundle, kernel
from tank_protos.bundle import arrow, cut
from tank_protos.bundle.decoding import Message, unpacked
from tank_protos.iggy import polled_messages, sent_messages
from tank_protos.iggy.eras import ERAS
from tank_protos.kafka import produce_run as kafka_run
from tank_protos.kafka import record_batch, records, transcode
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.errors import InvalidRecords
from tank_protos.kafka.record_batch import RecordBatchHeader
from tank_protos.storage import produce_run, record_run
from tank_protos.storage.index_record import RECORD
from tank_protos.wire import varint
from tank_protos.wire.errors import InvalidBundle, WireError
from tests.fuzz import mutate, random_bundles, random_iggy, random_records
from tests.fuzz.random_bundles import exact

TWINNED: Final = (
    *(bundle, arrow, cut, produce_run, record_run, kafka_run, records, record_batch, transcode),
    *(polled_messages, sent_messages),
)
"""Importing them puts all pairs into `kernel.PAIRS`."""

ELSEWHERE: Final = frozenset(("gathered_columns",))
"""Twins that other targets try, each against a reader of its own: run those under both kernels."""

_ODD_SHARE: Final = 0.2
_COVERED_FROM: Final = 21
"""Where the bytes begin that a record batch's checksum covers."""
_PREFIX: Final = b"\x00\x00\x00\x00\x00\x00\x01\x04gold\x01\x00\x00"
"""From the client id to the partition: a produce's bytes before its bundle."""

Call = Callable[[Callable[..., Any]], Any]
"""Calls the function that it is given, with arguments made anew: some are changed by who gets them."""


def twins(chance: Random) -> None:
    """One call of one function, both ways."""
    pair = chance.choice(kernel.PAIRS)
    name = pair.plain.__name__
    if name in ELSEWHERE:
        return
    call = DRIVERS[name](chance)
    plain, compiled = _outcome(pair.plain, call), _outcome(pair.compiled, call)
    assert plain == compiled, f"{name}: plain {plain}, compiled {compiled}"


def _outcome(function: Callable[..., Any], call: Call) -> object:
    """What came out, in a form that can be compared."""
    try:
        return call(function)
    except WireError as error:
        return type(error), error.reason, str(error)


def _read_header(chance: Random) -> Call:
    data, before = random_bundles.bad(chance), chance.choice((0, 0, 1, 5))
    offset = before if chance.random() < 0.9 else before + len(data) + chance.randrange(-2, 9)
    return lambda read_header: read_header(exact(bytes(before) + data), max(offset, 0))


def _validate(chance: Random) -> Call:
    data = bundle.as_batch(random_bundles.bad(chance))
    if chance.random() < 0.3:
        data = mutate.payload(chance, data, data)
    walk = chance.random() < 0.5
    return lambda validate: validate(exact(data), walk)


def _message_set(chance: Random) -> tuple[bundle.BundleHeader, bytes, int]:
    """A header that was read, and the unpacked set that it may or may not be right about."""
    while True:
        data = random_bundles.bad(chance)
        try:
            header = bundle.read_header(data)
            body, start = unpacked(data, header, 1 << 20)
        except InvalidBundle:
            continue
        return header, bytes(body), start


def _parse_dense(chance: Random) -> Call:
    _, data, start = _message_set(chance)
    return lambda parse_dense: parse_dense(exact(data), start)


def _parse_sparse(chance: Random) -> Call:
    header, data, start = _message_set(chance)
    first, last = (header.first, header.last) if header.sparse else (1, header.messages)
    return lambda parse_sparse: parse_sparse(exact(data), start, header.messages, first, last)


def _columns(chance: Random) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    """Numbers, timestamps, keys and values of messages, sometimes ones that cannot be encoded."""
    made = random_bundles.good(chance)
    numbers, stamps, keys, values = (list(column) for column in zip(*made.rows, strict=True))
    at = chance.randrange(len(values))
    if chance.random() < _ODD_SHARE:
        numbers[at] = chance.choice((-1, 0, numbers[0], 1 << 33, (1 << 63) - 1, 1 << 64))
        stamps[at] = chance.choice((-1, stamps[0], 1 << 64))
        keys[at] = chance.choice((b"k" * 256, memoryview(b"view"), bytearray(b"array"), b"", None))
        values[at] = chance.choice((None, memoryview(b"view"), bytearray(b"array"), b""))
    if chance.random() < _ODD_SHARE / 4:
        chance.choice((numbers, stamps, keys, values)).pop()
    return numbers, stamps, keys, values


def _encode(chance: Random) -> Call:
    _, stamps, keys, values = _columns(chance)
    codec = chance.choice((None, *bundle.Codec))
    given = stamps[0] if stamps and chance.random() < 0.3 else stamps
    held = keys if chance.random() < 0.7 else None
    return lambda encode: encode(values, timestamps=given, keys=held, codec=codec, topic="gold")


def _encode_sparse(chance: Random) -> Call:
    numbers, stamps, keys, values = _columns(chance)
    return lambda encode_sparse: encode_sparse(numbers, values, timestamps=stamps, keys=keys)


def _fill(chance: Random) -> Call:
    made = random_bundles.good(chance)
    _, _, keys, values = (list(column) for column in zip(*made.rows, strict=True))
    held = keys if chance.random() < 0.7 else None
    start, most, room = chance.randrange(len(values)), chance.choice((1, 3, 1000)), chance.randrange(300)
    return lambda fill: fill(values, held, start, most, room)


def _tuples(chance: Random) -> Call:
    made = random_bundles.good(chance)
    numbers, stamps, keys, values = (list(column) for column in zip(*made.rows, strict=True))
    held = keys if any(keys) else None
    counted = numbers if made.bundle[0] & 0x40 else range(numbers[0], numbers[-1] + 1)
    return lambda tuples: tuples(Message, counted, stamps, held, values)


def _produce_run(chance: Random) -> Call:
    """A receive buffer full of produces, some of which end the run; found in one go or in two."""
    frames = []
    for number in range(chance.choice((1, 2, 5, 20))):
        content = bundle.encode([chance.randbytes(chance.choice((0, 9, 3000)))], timestamps=1)
        if chance.random() < 0.15:
            content = random_bundles.bad(chance)
        payload = b"\x02\x00" + number.to_bytes(4, "little") + _PREFIX + bundle.as_batch(content)
        frames.append(mutate.frame(chance, 1, payload))
    data = b"".join(frames)
    end = chance.randrange(len(data) + 1) if chance.random() < 0.2 else len(data)
    most, largest = chance.choice((1, 3, 1000)), chance.choice((100, 1 << 20))
    room, begin = chance.choice((50, 1 << 20)), chance.choice((0, 0, 1))
    walks = chance.random() < 0.5

    def call(kind: Callable[..., Any]) -> object:
        run = kind()
        run.walks = walks
        return _found(run, data, end, most, largest, room, begin)

    return call


def _found(run: Any, data: bytes, end: int, most: int, largest: int, room: int, begin: int) -> object:
    """Everything that a run says of itself."""
    buffer = bytearray(data)
    view = memoryview(buffer)
    answers = run.find(buffer, view, 0, end, _PREFIX, most, largest)
    answers += run.find(buffer, view, run.at, end, _PREFIX, most, largest)
    start = min(begin, run.batches)
    records = run.records(start, 7, 100, room, most, 1_700_000_000_000, 5, 3, 0)
    stored = b"".join(run.slices(start, run.batches))
    rest = bytes(view[run.at : end])
    levels = (run.at, run.batches, run.batch_bytes, run.messages)
    run.clear()
    return answers, records, stored, rest, levels, run.batches


def _placed(chance: Random) -> Call:
    """Records with their batches, mostly good ones with something changed."""
    records, batches, last = b"", b"", chance.choice((0, 7, 2**63 - 9))
    for _ in range(chance.randrange(4)):
        batch = chance.randbytes(chance.randrange(1, 40))
        first, span = last + chance.choice((1, 1, 1, 3)), chance.choice((0, 2))
        epoch = chance.choice((4, 4, 4, 5, 9))
        fields = [first, span, 0, len(batch), 0, 5, 6, chance.choice((0, 8)), 1, epoch, 2, 0, 4, span + 1]
        fields[4] = crc32c(RECORD.pack(*fields), crc32c(batch))
        fields[2] = len(batches)
        records, batches, last = records + RECORD.pack(*fields), batches + batch, first + span
    if chance.random() < 0.6:
        records = mutate.payload(chance, records, records)
    if chance.random() < 0.3:
        batches = mutate.payload(chance, batches, batches)
    position = chance.choice((0, 100, 2**32 - 20))
    numbers = (
        position,
        chance.choice((0, 0, 0, 7)),
        chance.choice((0, 4)),
        chance.choice((4, 5, 2**32 - 1)),
        0,
    )
    return lambda placed: placed(exact(records), exact(batches), *numbers)


def _payload(chance: Random) -> tuple[bytes, int]:
    """Records, mostly good ones, and the number that there should be of them."""
    made = random_records.some(chance)
    payload = records.encode(made)
    if chance.random() < 0.6:
        payload = mutate.payload(chance, payload, payload)
    return payload, len(made) + chance.choice((0, 0, 0, 0, -1, 1, 2**31 - 1))


def _walk(chance: Random) -> Call:
    payload, count = _payload(chance)
    last = chance.choice((count - 1, count + 5))
    dense, keyed = chance.random() < 0.5, chance.random() < 0.3
    return lambda walk: walk(exact(payload), count, last, dense=dense, keyed=keyed)


def _read_columns(chance: Random) -> Call:
    payload, count = _payload(chance)
    return lambda read_columns: read_columns(payload, count)


def _encode_columns(chance: Random) -> Call:
    """Records, sometimes with a part that cannot be encoded."""
    made = random_records.some(chance)
    keys, values, offsets, stamps, _ = (list(column) for column in zip(*made, strict=True))
    headers: dict[int, Any] = {at: record.headers for at, record in enumerate(made) if record.headers}
    odd = (-1, 1 << 31, 1 << 63, -(1 << 63), memoryview(b"view"), bytearray(b"array"), b"", None, "text", ())
    if chance.random() < _ODD_SHARE:
        chance.choice((keys, values, offsets, stamps))[chance.randrange(len(made))] = chance.choice(odd)
    if chance.random() < _ODD_SHARE:
        name, value = chance.choice((b"h", *odd)), chance.choice(odd)
        headers[chance.randrange(len(made))] = chance.choice((((name, value),), (name,), name))
    if chance.random() < _ODD_SHARE / 4:
        chance.choice((keys, values, offsets, stamps)).pop()

    def call(encode_columns: Callable[..., bytes]) -> object:
        try:
            return encode_columns(offsets, stamps, keys, values, headers)
        except (TypeError, ValueError) as error:
            return type(error)  # the words are Python's own

    return call


def _record_batch(chance: Random) -> tuple[bytes, RecordBatchHeader]:
    """A batch whose header was checked, and whose records may be wrong."""
    while True:
        batch = random_records.batch(chance)
        try:
            return batch, record_batch.verify(memoryview(batch))
        except InvalidRecords:
            continue


def _header(chance: Random) -> bytes:
    """A batch, mostly a good one with something changed, often with the checksum that it has then."""
    data = random_records.batch(chance)
    if chance.random() < 0.5:
        data = mutate.payload(chance, data, data)
    if len(data) > _COVERED_FROM and chance.random() < 0.7:
        data = data[:17] + crc32c(data[_COVERED_FROM:]).to_bytes(4, "big") + data[_COVERED_FROM:]
    return data


def _verify(chance: Random) -> Call:
    data = _header(chance)
    return lambda verify: verify(exact(data))


def _check(chance: Random) -> Call:
    data = _header(chance)
    most, latest_ms = len(data) - chance.choice((0, 0, 0, 1)), chance.choice((0, 2**40, 2**63 - 1))
    return lambda check: check(exact(data), max_bytes=most, latest_ms=latest_ms)


def _patch(chance: Random) -> Call:
    data, offset, epoch = (
        _record_batch(chance)[0],
        chance.choice((0, 9, 2**62)),
        chance.choice((-1, 0, 7)),
    )

    def call(patch: Callable[..., Any]) -> object:
        written = bytearray(data)
        patch(memoryview(written), offset, epoch)
        return bytes(written)

    return call


def _produced_to_tank(chance: Random) -> Call:
    batch, header = _record_batch(chance)
    compacted, lenient = chance.random() < 0.3, chance.random() < 0.3
    return lambda produced_to_tank: produced_to_tank(
        exact(batch), header, append_ms=9, compacted=compacted, lenient=lenient, max_bytes=1 << 20
    )


def _stored_to_tank(chance: Random) -> Call:
    batch, header = _record_batch(chance)
    sparse = chance.random() < 0.3
    return lambda stored_to_tank: stored_to_tank(
        exact(batch), header, append_ms=9, sparse=sparse, max_bytes=1 << 20
    )


def _stored_bundle(chance: Random) -> bytes:
    data = bundle.as_batch(random_bundles.bad(chance))
    return mutate.payload(chance, data, data) if chance.random() < 0.3 else data


def _kafka_run(chance: Random) -> Call:
    """A receive buffer full of Produce requests of a Kafka client, some of which end the run."""
    version = chance.choice((3, 6, 8, 9, 13))
    data, sequence = b"", chance.choice((0, 2**31 - 2))
    producer = chance.choice((record_batch.NO_PRODUCER, record_batch.ProducerFields(9, 3, sequence)))
    for number in range(chance.choice((1, 2, 5, 20))):
        values = [chance.randbytes(chance.choice((0, 9, 3000)))] * chance.choice((1, 1, 3))
        rows = [records.KafkaRecord(b"k", value, delta, 0, ()) for delta, value in enumerate(values)]
        codec = chance.choice((KafkaCodec.NONE, KafkaCodec.NONE, KafkaCodec.NONE, KafkaCodec.GZIP))
        batch = record_batch.encode(rows, base_timestamp_ms=5, producer=producer, codec=codec)
        if producer.producer_id > 0:
            sequence = (sequence + len(values)) % kafka_run.SEQUENCES
            producer = producer._replace(base_sequence=sequence)
        if chance.random() < 0.1:
            batch = _header(chance) if chance.random() < 0.5 else _record_batch(chance)[0]
        length, tail = varint.encode(len(batch) + 1), b"\0\0\0"
        if version < kafka_run.FLEXIBLE_SINCE:
            length, tail = len(batch).to_bytes(4, "big"), b""
        body = b"\0\0\0" + bytes((version,)) + number.to_bytes(4, "big") + _PREFIX + length + batch + tail
        if chance.random() < 0.1:
            body = mutate.payload(chance, body, batch)
        data += len(body).to_bytes(4, "big") + body
    end = chance.randrange(len(data) + 1) if chance.random() < 0.2 else len(data)
    most, largest, latest_ms = (
        chance.choice((1, 3, 1000)),
        chance.choice((100, 1 << 20)),
        chance.choice((4, 2**62, 2**62, 2**62)),
    )
    rules = tuple(chance.random() < 0.5 for _ in range(3))
    room, begin = chance.choice((50, 1 << 20)), chance.choice((0, 0, 1))

    def call(kind: Callable[..., Any]) -> object:
        run, view = kind(), memoryview(bytearray(data))
        run.find(view, 0, end, version, _PREFIX, most, largest, latest_ms, 1_700_000_000_000, *rules)
        start = min(begin, run.batches)
        answers = run.answers(bytes(30), 12, 7)
        records = run.records(start, 7, 100, room, most, 1_700_000_000_000, 5, 3, 1)
        stored = b"".join(run.slices(start, run.batches))
        levels = (run.at, run.batches, run.batch_bytes, run.messages, run.producer_id, run.producer_epoch)
        produced = run.produced(start, run.batches) if run.producer_id else []
        run.clear()
        return answers, records, stored, bytes(view), levels, produced, run.batches

    return call


def _produced_to_kafka(chance: Random) -> Call:
    data, compacted = _stored_bundle(chance), chance.random() < 0.3
    return lambda produced_to_kafka: produced_to_kafka(exact(data), compacted=compacted, max_bytes=1 << 20)


def _stored_to_kafka(chance: Random) -> Call:
    data, compacted = _stored_bundle(chance), chance.random() < 0.3
    first = chance.choice((1, 1, 7, 2**40, bundle.MAX_SEQUENCE_NUMBER))
    epoch = chance.choice((0, 3, 2**31 - 1))
    return lambda stored_to_kafka: stored_to_kafka(
        exact(data), first, leader_epoch=epoch, compacted=compacted, max_bytes=1 << 20
    )


def _record_batch_of_iggy(chance: Random) -> Call:
    asked, era = random_iggy.sent(chance)
    return lambda record_batch: record_batch(asked, era, 1_700_000_000_000)


def _messages_of(chance: Random) -> Call:
    source, era = random_iggy.source(chance), chance.choice(ERAS)
    lowest, most = chance.choice((0, 0, source.first, 2**61 + 1)), chance.choice((0, 1, 3, 1 << 20))
    return lambda messages_of: messages_of(source, era, 2**63 + 5, 3, lowest, most)


DRIVERS: Final[dict[str, Callable[[Random], Call]]] = {
    "read_header": _read_header,
    "validate": _validate,
    "parse_dense": _parse_dense,
    "parse_sparse": _parse_sparse,
    "encode": _encode,
    "encode_sparse": _encode_sparse,
    "tuples": _tuples,
    "fill": _fill,
    "ProduceRun": _produce_run,
    "KafkaProduceRun": _kafka_run,
    "placed": _placed,
    "walk": _walk,
    "read_columns": _read_columns,
    "encode_columns": _encode_columns,
    "verify": _verify,
    "check": _check,
    "patch": _patch,
    "produced_to_tank": _produced_to_tank,
    "stored_to_tank": _stored_to_tank,
    "produced_to_kafka": _produced_to_kafka,
    "stored_to_kafka": _stored_to_kafka,
    "record_batch": _record_batch_of_iggy,
    "messages_of": _messages_of,
}
"""By the name of a function: what makes a call of it."""
