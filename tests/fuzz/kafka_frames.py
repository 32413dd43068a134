"""Frames for a broker's Kafka port, good and bad: all requests that it serves, in every version.

A frame is well-formed and odd, aimed at what the broker holds, spoiled anywhere, or no request at all. The
records in them lie about their lengths and counts, unpack to more than fits, or are sets within sets.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from random import Random
from struct import pack as packed
from struct import pack_into
from typing import Final
from zlib import crc32

from fastcrc.crc32 import iscsi as crc32c

from tank_node.kafka.dispatch import APIS
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    FetchRequest,
    ProduceRequest,
)
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic, ForgottenTopic
from tank_protos.generated.kafka.headers import request_header_version
from tank_protos.generated.kafka.produce_request import (
    PartitionProduceData,
    TopicProduceData,
    TopicProduceDataCollection,
)
from tank_protos.generated.kafka.request_header import RequestHeader
from tank_protos.kafka import message_set, record_batch
from tank_protos.kafka.codecs import KafkaCodec, pack
from tank_protos.kafka.message_set import OldMessage
from tank_protos.kafka.record_batch import ProducerFields
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message
from tank_protos.wire.tagged import UnknownTag
from tests.fuzz import kafka_target, mutate, random_records

TOPICS: Final = ("gold", "multi", "tail")
"""Topics that the frames name: the seeds' own, of Kafka's format, and two of TANK's."""

_NAMES: Final = (
    *TOPICS, *TOPICS, "", "nobody", "../etc", "__consumer_offsets", "x" * 249, "x" * 250, "1", "é", "a b",
    "\udcff",
)  # fmt: skip
_CHANGED_SHARE: Final = 0.25
"""Of a message's fields: the rest stays, so that a request still means something."""
_MOST_PARTITIONS: Final = 3
"""Of a topic that a frame creates: 65,530 partitions are no bad input, only a slow one."""
_LONGEST_WAIT_MS: Final = 50
"""Of most fetches: a wait holds up what is behind it on its connection."""

_BOMB_BYTES: Final = 70 << 20
"""More than records may unpack to."""
_HEAD: Final = ">hhi"


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame with its size, and what it is for those who know: the api key and the version that it is laid
    out in, if nothing in it was spoiled."""

    data: bytes
    key: int = -1
    version: int = -1


@cache
def _seeds() -> Mapping[int, list[kafka_target.Seed]]:
    """The seeds of the requests that are served, by api key."""
    found: dict[int, list[kafka_target.Seed]] = {key: [] for key in APIS}
    for seed in kafka_target.messages():
        key = getattr(seed.codec, "ID", -1)
        if key in found and seed.codec.__name__.endswith("Request"):
            found[key].append(seed)
    return found


class FrameMaker:
    """Makes frames by chance. ids: of the topics that there are, by name."""

    def __init__(self, chance: Random, ids: Mapping[str, bytes]) -> None:
        self._chance = chance
        self._ids = (*ids.values(), bytes(16), b"\xff" * 16)
        self._by_name = dict(ids)
        self._correlation_id = 0
        self._kinds: tuple[Callable[[], Frame], ...] = (
            *[self._as_it_is] * 2, *[self._odd] * 6, *[self._aimed] * 6, *[self._spoiled] * 4,
            self._api_versions, self._no_request, self._lying_size,
        )  # fmt: skip

    def frame(self) -> Frame:
        """A frame of any kind."""
        return self._chance.choice(self._kinds)()

    # --- what is around a request -------------------------------------------------------------------

    def _around(self, key: int, version: int, body: bytes) -> Frame:
        """A frame with a right header, in which names and tags may be odd."""
        chance = self._chance
        self._correlation_id += 1
        correlation_id = self._correlation_id
        if chance.random() < 0.05:
            correlation_id = chance.choice((0, 1, -1, 2**31 - 1, -(2**31)))
        client_id = chance.choice(("fuzz", "fuzz", "", None, "\udcff\n"))
        if chance.random() < 0.01:
            client_id = "x" * 32_767
        header = RequestHeader(key, version, correlation_id, client_id)
        header_version = request_header_version(key, version)
        if header_version >= 2 and chance.random() < 0.1:
            header.unknown_tags = (UnknownTag(chance.choice((0, 7, 2**31)), chance.randbytes(5)),)
        try:
            head = b"".join(header.encode(header_version))
        except WireError:
            head = packed(_HEAD, key, version, correlation_id) + b"\xff\xff"
            head += b"\0" if header_version >= 2 else b""
        return Frame(_sized(head + body), key, version)

    def _of(self, message: Message, version: int) -> Frame:
        """A frame with this message, in which the broker gets no topics of very many partitions."""
        _tame(message)
        return self._around(message.ID, version, b"".join(message.encode(version)))

    def _seed(self) -> kafka_target.Seed:
        everything = _seeds()
        return self._chance.choice(everything[self._chance.choice(list(everything))])

    def _as_it_is(self) -> Frame:
        seed = self._seed()
        return self._of(seed.codec.decode(seed.payload, seed.version), seed.version)

    # --- well-formed ------------------------------------------------------------------------------

    def _odd(self) -> Frame:
        """A seed whose fields have other values, the least and the greatest among them."""
        seed = self._seed()
        message = seed.codec.decode(seed.payload, seed.version)
        self._change(message)
        try:
            return self._of(message, seed.version)
        except WireError:
            return self._as_it_is()

    def _change(self, struct: object) -> None:
        chance = self._chance
        limits: dict[str, tuple[int, int]] = getattr(struct, "LIMITS", {})
        for one in fields(struct) if is_dataclass(struct) else ():
            value = getattr(struct, one.name)
            if isinstance(value, list):
                self._change_list(value)
            elif is_dataclass(value):
                self._change(value)
            elif one.name == "unknown_tags":
                if chance.random() < 0.03:
                    setattr(struct, one.name, (UnknownTag(2**30, chance.randbytes(9)),))
            elif chance.random() >= _CHANGED_SHARE:
                continue
            elif isinstance(value, bool):
                setattr(struct, one.name, not value)
            elif isinstance(value, int):
                setattr(struct, one.name, self._number(*limits.get(one.name, (0, 255))))
            elif isinstance(value, str) or (value is None and one.name == "name"):
                setattr(struct, one.name, chance.choice(_NAMES))
            elif one.name == "records":
                setattr(struct, one.name, self._records(9))
            elif isinstance(value, bytes | memoryview):
                setattr(
                    struct, one.name, chance.choice(self._ids) if len(value) == 16 else chance.randbytes(7)
                )

    def _number(self, low: int, high: int) -> int:
        chance = self._chance
        roll = chance.random()
        if roll < 0.5:
            return max(low, min(high, chance.randrange(-2, 6)))
        return chance.choice((low, high, high - 1, high // 2)) if roll < 0.9 else chance.randint(low, high)

    def _change_list(self, value: list[object]) -> None:
        chance = self._chance
        for at, element in enumerate(value):
            if is_dataclass(element):
                self._change(element)
            elif chance.random() < _CHANGED_SHARE:
                if isinstance(element, str):
                    value[at] = chance.choice(_NAMES)
                elif isinstance(element, int):
                    value[at] = self._number(-2, 2**31 - 1)
        roll = chance.random()
        if value and roll < 0.05:
            value.clear()
        elif value and roll < 0.15:
            value += [chance.choice(value)] * chance.choice((1, 1, 3, 300))

    def _aimed(self) -> Frame:
        """Records to produce, or to fetch, of what the broker holds."""
        if self._chance.random() < 0.5:
            return self._produce()
        return self._fetch()

    def _produce(self) -> Frame:
        chance = self._chance
        version = chance.randint(0, 13)
        topics = TopicProduceDataCollection()
        for _ in range(chance.choice((1, 1, 1, 2))):
            name = chance.choice(TOPICS)
            parts = [
                PartitionProduceData(chance.choice((0, 0, 1, 2, 3, 4)), self._records(version))
                for _ in range(chance.choice((1, 1, 1, 2)))
            ]
            topics.append(TopicProduceData(name, self._id(name), parts))
        acks = chance.choice((-1, -1, -1, 1, 0, 2, -5))
        timeout_ms = chance.choice((0, 1000, -1, 2**31 - 1))
        return self._of(ProduceRequest(None, acks, timeout_ms, topics), version)

    def _fetch(self) -> Frame:
        chance = self._chance
        version = chance.randint(0, 18)
        wanted = []
        for _ in range(chance.choice((0, 1, 1, 1, 2, 40))):
            name = chance.choice(TOPICS)
            part = FetchPartition(
                chance.choice((0, 0, 1, 2, 3, 4)),
                chance.choice((-1, -1, 0, 1, 2**31 - 1)),
                chance.choice((0, 0, 1, 5, 100, -1, 2**62, 2**63 - 1)),
                chance.choice((-1, -1, 0, 1)),
                partition_max_bytes=chance.choice((0, 1, 500, 1 << 20, 2**31 - 1, -1)),
            )
            wanted.append(FetchTopic(name, self._id(name), [part]))
        session = chance.choice(((0, -1), (0, -1), (0, 0), (1, 1), (2**31 - 1, 5), (-1, 2**31 - 1)))
        forgotten = [ForgottenTopic("gold", self._id("gold"), [0, 2**31 - 1])]
        request = FetchRequest(
            replica_id=chance.choice((-1, -1, -1, -2, 1)) if version < 15 else -1,
            max_wait_ms=chance.choice((0, 0, 0, 1, _LONGEST_WAIT_MS, -1)),
            min_bytes=chance.choice((0, 1, 1, 2**31 - 1, -1)),
            max_bytes=chance.choice((0, 1, 1 << 20, 2**31 - 1, -1)),
            isolation_level=chance.choice((0, 0, 1, 2)),
            session_id=session[0],
            session_epoch=session[1],
            topics=wanted,
            forgotten_topics_data=forgotten if chance.random() < 0.2 and version >= 7 else [],
        )
        try:
            return self._of(request, version)
        except WireError:
            return self._as_it_is()

    def _id(self, name: str) -> bytes:
        return (
            self._by_name.get(name, bytes(16))
            if self._chance.random() < 0.9
            else self._chance.choice(self._ids)
        )

    def _api_versions(self) -> Frame:
        """Versions of the future, and strange names of software."""
        chance = self._chance
        if chance.random() < 0.4:
            version = chance.choice((5, 99, 2**15 - 1, -1))
            self._correlation_id += 1
            head = packed(_HEAD, ApiVersionsRequest.ID, version, self._correlation_id)
            return Frame(_sized(head + chance.randbytes(20)), ApiVersionsRequest.ID, version)
        names = ("librdkafka", "", "-", "a" * 5000, f"lib-{chance.randrange(10**6)}", "a\nb", "é")
        version = chance.randint(0, 4)
        return self._of(ApiVersionsRequest(chance.choice(names), chance.choice(names)), version)

    # --- records ---------------------------------------------------------------------------------

    def _records(self, version: int) -> bytes | None:
        """Records as they belong to a version of Produce, mostly, with or without a mistake."""
        chance = self._chance
        roll = chance.random()
        if roll < 0.02:
            return chance.choice((b"", chance.randbytes(70)))
        if roll < 0.03:
            return chance.choice(_bombs())
        if roll < 0.06:
            return chance.choice(_nested_sets())
        old = version < 3
        if chance.random() < 0.05:
            old = not old
        if old:
            return self._set()
        if roll < 0.5:
            return random_records.batch(chance)
        return self._lying_batch() if roll < 0.7 else self._good_batch()

    def _good_batch(self) -> bytes:
        chance = self._chance
        producer = ProducerFields(
            *chance.choice(((-1, -1, -1), (-1, -1, -1), (7, 0, 0), (7, 1, 5), (9, 0, 3)))
        )
        return record_batch.encode(
            random_records.some(chance),
            base_timestamp_ms=random_records.STAMP_MS,
            codec=chance.choice(list(KafkaCodec)),
            producer=producer,
            transactional=chance.random() < 0.1,
        )

    def _lying_batch(self) -> bytes:
        """A batch with a right checksum, in which one field of the header is wrong."""
        chance = self._chance
        batch = bytearray(self._good_batch())
        at, form = chance.choice(
            ((0, ">q"), (8, ">i"), (21, ">h"), (23, ">i"), (27, ">q"), (35, ">q"), (43, ">q"), (51, ">h"),
             (53, ">i"), (57, ">i"))
        )  # fmt: skip
        bits = {">h": 16, ">i": 32, ">q": 64}[form]
        greatest = (1 << (bits - 1)) - 1
        pack_into(form, batch, at, chance.choice((0, 1, -1, -2, 5, greatest, -greatest - 1, greatest - 1)))
        batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
        return bytes(batch)

    def _set(self) -> bytes:
        chance = self._chance
        magic = chance.choice((0, 1))
        stamp = -1 if magic == 0 else random_records.STAMP_MS
        made = [
            OldMessage(
                at, stamp, chance.choice(random_records.CONTENTS), chance.choice(random_records.CONTENTS)
            )
            for at in range(chance.choice((1, 2, 9)))
        ]
        data = message_set.encode(made, magic)
        if chance.random() < 0.4:
            data = _wrapper(data, magic, chance.choice((KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.LZ4)))
        if chance.random() < 0.4:
            return data
        spoiled = mutate.payload(chance, data, data)
        return _with_checksum(spoiled) if chance.random() < 0.8 and len(spoiled) > 16 else spoiled

    # --- spoiled ---------------------------------------------------------------------------------

    def _spoiled(self) -> Frame:
        """A frame of another kind with bytes changed behind its size, which is right."""
        chance = self._chance
        good = chance.choice((self._as_it_is, self._odd, self._aimed))()
        other = self._as_it_is().data
        spoiled = mutate.payload(chance, good.data[4:], other[4:])
        return Frame(_sized(_tamed(spoiled)))

    def _lying_size(self) -> Frame:
        chance = self._chance
        data = self._odd().data
        size = chance.choice((0, 7, 8, -1, 2**31 - 1, 64 << 20, (64 << 20) + 1, len(data) - 5, len(data)))
        return Frame(packed(">i", size) + data[4:])

    def _no_request(self) -> Frame:
        """Bytes of something else, keys that are not served, and versions that are not."""
        chance = self._chance
        roll = chance.random()
        if roll < 0.3:
            return Frame(
                chance.choice(
                    (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50),
                     b"\x07\x05\0\0\0\1\0\0\0x", b"SSH-2.0-x\r\n", chance.randbytes(30))
                )
            )  # fmt: skip
        if roll < 0.6:
            key, version = chance.choice((-1, 4, 7, 74, 999, 2**15 - 1)), 0
        else:
            api = APIS[chance.choice(list(APIS))]
            key, version = api.key, chance.choice((api.highest + 1, -1, 2**15 - 1))
        return Frame(_sized(packed(_HEAD, key, version, 1) + b"\xff\xff" + chance.randbytes(20)))


def _sized(frame: bytes) -> bytes:
    return packed(">i", len(frame)) + frame


def _tame(message: Message) -> None:
    """Takes from a request what is slow without being bad."""
    if isinstance(message, CreateTopicsRequest):
        for topic in message.topics:
            topic.num_partitions = min(topic.num_partitions, _MOST_PARTITIONS)
        message.timeout_ms = min(message.timeout_ms, 1000)
    elif isinstance(message, CreatePartitionsRequest):
        for grown in message.topics:
            grown.count = min(grown.count, 2 * _MOST_PARTITIONS)
        message.timeout_ms = min(message.timeout_ms, 1000)
    elif isinstance(message, FetchRequest):
        message.max_wait_ms = min(message.max_wait_ms, _LONGEST_WAIT_MS)


def _tamed(frame: bytes) -> bytes:
    """A spoiled frame: empty where it still creates partitions, which `_tame` could not see."""
    return b"" if frame[:2] in (b"\0\x13", b"\0\x25") else frame


def _wrapper(inner: bytes, magic: int, codec: KafkaCodec, packed_already: bool = False) -> bytes:
    """A message that holds a set, compressed."""
    value = inner if packed_already else pack(codec, inner)
    stamp = random_records.STAMP_MS if magic else -1
    outer = bytearray(message_set.encode([OldMessage(9, stamp, None, value)], magic))
    outer[17] = codec
    return _with_checksum(bytes(outer))


def _with_checksum(data: bytes) -> bytes:
    """One message, with the length and the checksum that it should have."""
    return data[:8] + (len(data) - 12).to_bytes(4, "big") + crc32(data[16:]).to_bytes(4, "big") + data[16:]


@cache
def _nested_sets() -> tuple[bytes, ...]:
    """Sets within sets within sets, of which only the first level is allowed."""
    found = []
    for magic in (0, 1):
        for codec in (KafkaCodec.GZIP, KafkaCodec.SNAPPY, KafkaCodec.LZ4):
            data = message_set.encode([OldMessage(0, -1, None, b"x")], magic)
            for _ in range(3):
                data = _wrapper(data, magic, codec)
            found.append(data)
    return tuple(found)


@cache
def _bombs() -> tuple[bytes, ...]:
    """Batches and sets of some KB or, where a codec packs no better, of a few that claim to be more: they
    unpack to more than is taken."""
    zeros = bytes(_BOMB_BYTES)
    small = bytes(1 << 20)
    contents = {
        KafkaCodec.GZIP: pack(KafkaCodec.GZIP, zeros),
        KafkaCodec.ZSTD: pack(KafkaCodec.ZSTD, zeros),
        KafkaCodec.LZ4: pack(KafkaCodec.LZ4, small),
        # A raw block that says that it unpacks to 4 GiB.
        KafkaCodec.SNAPPY: b"\xff\xff\xff\xff\x0f" + b"\x00a" + b"\xfe\x01\x00" * 1000,
    }
    found = []
    for codec, content in contents.items():
        batch = bytearray(record_batch.encode([*random_records.some(Random(1))], base_timestamp_ms=1))
        batch[22] = codec
        batch[record_batch.HEADER_BYTES :] = content
        batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
        batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
        found.append(bytes(batch))
        if codec is not KafkaCodec.ZSTD:
            found += [_wrapper(content, magic, codec, packed_already=True) for magic in (0, 1)]
    return tuple(found)
