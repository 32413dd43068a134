"""TANK's protocol for `tank-protos decode`: frames with `u8 id, u32 length`, and bundles with their
messages."""

from collections.abc import Iterator
from enum import IntEnum
from typing import Final

from tank_compiler.schema.schema import Kind, Message, Protocol
from tank_compiler.tools.decode_stream import Asked, Document, Exchange, Head, Reading, Side
from tank_compiler.tools.dissect import DissectedValue, dissect
from tank_protos import bundle
from tank_protos.error_codes import (
    ConsumeFlag,
    CreateTopicError,
    ErrorCode,
    ProduceError,
    ReloadConfError,
    TroubleKind,
)
from tank_protos.wire.errors import OutOfRange, WireError
from tank_protos.wire.framing import FRAME_HEAD, HEADER_BYTES, MAX_FRAME_BYTES

_OWN_MESSAGES: Final = 0x40
"""The first id of our own messages, which share one set of error codes."""
_CODES: Final[dict[int, dict[str, type[IntEnum]]]] = {
    1: {"Error": ProduceError},
    2: {"Flag": ConsumeFlag},
    7: {"Error": CreateTopicError},
    8: {"Error": ReloadConfError},
    9: {"Flag": ConsumeFlag},
    76: {"Kind": TroubleKind},
}
_WHOLE_TOPIC: Final = (ProduceError.READ_ONLY, ProduceError.UNKNOWN_TOPIC)
"""Result bytes that stand once for all partitions of a topic."""
_ANSWERED_AS: Final = {5: 1}
"""The ids of requests whose answers have another id, and that id."""
_REQUEST_ID_BYTES: Final = 4


class TankProtocol:
    """Reads TANK's frames, by the definitions of `protos/tank`."""

    def __init__(self, definitions: Protocol) -> None:
        self._messages = {(message.kind, message.id or 0): message for message in definitions.messages}

    def head(self, data: memoryview, side: Side, exchange: Exchange) -> Head | None:
        """See WireProtocol."""
        if len(data) < HEADER_BYTES:
            return None
        number, length = FRAME_HEAD.unpack_from(data)
        unknown = "" if self._message(number, side) else f"no message of the {side.value} has the id {number}"
        if length > MAX_FRAME_BYTES:
            raise OutOfRange(f"id {number} with {length} bytes is announced; the limit is {MAX_FRAME_BYTES}")
        return Head(HEADER_BYTES, length, {"id": number}, unknown)

    def read(self, payload: memoryview, head: Head, side: Side, exchange: Exchange) -> Reading:
        """See WireProtocol."""
        message = self._message(head.shown["id"], side)
        assert message is not None, "only frames of known messages are read"
        return _read(message, payload, _version(message, payload, exchange), exchange)

    def alone(self, message: Message, payload: memoryview, version: int) -> Reading:
        """See WireProtocol."""
        return _read(message, payload, version, Exchange())

    def _message(self, number: int, side: Side) -> Message | None:
        kind = Kind.REQUEST if side is Side.CLIENT else Kind.RESPONSE
        return self._messages.get((kind, number)) or self._messages.get((Kind.DATA, number))


def _version(message: Message, payload: memoryview, exchange: Exchange) -> int:
    """The version of a message. Our own answers have that of their request, whose id they begin with; without
    the request, the lowest."""
    lowest = message.versions.low
    if message.kind is not Kind.RESPONSE or message.versions.high == lowest:
        return lowest
    asked = exchange.asked((message.id or 0, int.from_bytes(payload[:_REQUEST_ID_BYTES], "little")))
    version = None if asked is None else asked.fields.get("Version")
    return version if isinstance(version, int) and version in message.versions else lowest


def _read(message: Message, payload: memoryview, version: int, exchange: Exchange) -> Reading:
    found = dissect(message, payload, version)
    shown: Document = {"message": message.root.name}
    reading = Reading(shown, found.fields, error=found.error, error_field=found.error_field)
    reading.error_at, reading.is_laid_out = found.end, found.error is None
    request_id, number = found.fields.get("RequestId"), message.id or 0
    if message.kind is not Kind.DATA and isinstance(request_id, int):
        reading.key = (_ANSWERED_AS.get(number, number), request_id)
    asked = exchange.asked(reading.key) if message.kind is Kind.RESPONSE else None
    if asked is not None:
        shown["answers"] = {"message": asked.message, "offset": asked.offset}
    codes = _CODES.get(number, {"Error": ErrorCode} if number >= _OWN_MESSAGES else {})
    fields = _named(found.fields, codes if message.kind is Kind.RESPONSE else {})
    shown["fields"] = fields
    try:
        _take_apart(message, found.fields, fields, asked)
    except WireError as error:
        if reading.error is None:
            reading.error, reading.error_at = error, len(payload) - len(_bytes(found.fields.get("Chunks")))
    return reading


def _named(fields: dict[str, DissectedValue], codes: dict[str, type[IntEnum]]) -> Document:
    """The fields, with addresses in their usual form, and error codes with their names."""
    named: Document = {}
    for name, value in fields.items():
        named[name] = _named_value(value, codes)
        if name.endswith("Ipv4") and isinstance(value, bytes):
            named[name] = ".".join(map(str, value))
        if name in codes and isinstance(value, int) and value in list(codes[name]):
            named["meaning"] = codes[name](value).name
    return named


def _named_value(value: DissectedValue, codes: dict[str, type[IntEnum]]) -> object:
    if isinstance(value, dict):
        return _named(value, codes)
    return [_named_value(inner, codes) for inner in value] if isinstance(value, list) else value


# Bundles


def _take_apart(
    message: Message, fields: dict[str, DissectedValue], shown: Document, asked: Asked | None
) -> None:
    """Replaces bundles by their messages, and adds topics and partitions from the request to an answer that
    has none."""
    if message.root.name == "ProduceResponse" and asked is not None:
        for result, place in zip(_dicts(shown.get("Results")), _places(fields, asked), strict=False):
            result |= place
    if "Chunks" in fields:
        shown["Chunks"] = _chunks(fields)
        return
    for topic in _dicts(shown.get("Topics")):
        for partition in _dicts(topic.get("Partitions")):
            if "Bundle" in partition:
                content = _bytes(partition["Bundle"])
                base = partition.get("BaseSeqNum")
                batch = bundle.as_batch(content) if base is not None else content
                partition["Bundle"] = _bundles(batch, base if isinstance(base, int) else None)


def _places(fields: dict[str, DissectedValue], asked: Asked) -> Iterator[Document]:
    """The topic and partition of each result of a produce request: the answer has only result bytes, in the
    request's order."""
    results = iter(_dicts(fields.get("Results")))
    for topic in _dicts(asked.fields.get("Topics")):
        for partition in _dicts(topic.get("Partitions")):
            result = next(results, {})
            if result.get("Error") in _WHOLE_TOPIC:
                yield {"topic": topic.get("Name")}
                break
            yield {"topic": topic.get("Name"), "partition": partition.get("Partition")}


def _chunks(fields: dict[str, DissectedValue]) -> list[Document]:
    """The chunk of each partition, in the order of a consume answer's header."""
    content, at = _bytes(fields["Chunks"]), 0
    found: list[Document] = []
    for topic in _dicts(fields.get("Topics")):
        for partition in _dicts(topic.get("Partitions")):
            length, base = partition.get("ChunkLength"), partition.get("BaseSequenceNumber")
            if not isinstance(length, int) or not length:
                continue
            chunk = content[at : at + length]
            told: Document = {"topic": topic.get("Name"), "partition": partition.get("Partition")}
            if len(chunk) < length:
                told["missing_bytes"] = length - len(chunk)
            found.append(told | {"bundles": _bundles(chunk, base if isinstance(base, int) else None)})
            at += length
    if at < len(content):
        found.append({"unclaimed": content[at:]})
    return found


def _bundles(chunk: bytes, base: int | None) -> list[Document]:
    """The bundles of a chunk. `base`: the number of its first message; None: it is unknown.

    Raises InvalidBundle.
    """
    found: list[Document] = []
    at = 0
    for one in bundle.bundles(chunk):
        header = bundle.read_header(one)
        messages = bundle.decode(one, base or 0)
        if header.sparse:
            base = header.first
        told: Document = {"bytes": len(one), "codec": header.codec.name.lower(), "sparse": header.sparse}
        told["messages"] = [
            ({} if base is None else {"number": message.sequence_number})
            | {"timestamp_ms": message.timestamp_ms}
            | ({} if message.key is None else {"key": message.key})
            | {"value": message.value}
            for message in messages
        ]
        found.append(told)
        base = None if base is None else base + header.span + 1
        at += len(bundle.as_batch(one))
    if at < len(chunk):
        found.append({"partial": chunk[at:]})
    return found


def _dicts(value: object) -> list[Document]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _bytes(value: object) -> bytes:
    return value if isinstance(value, bytes) else b""
