"""Kafka's protocol for `tank-protos decode`: frames with an int32 length, headers, answers by correlation
id."""

from struct import Struct
from typing import Final

from tank_compiler.schema.headers import API_VERSIONS, header_of, header_version
from tank_compiler.schema.schema import Kind, Message, Protocol
from tank_compiler.tools.decode_stream import Asked, Document, Exchange, Head, Reading, Side
from tank_compiler.tools.dissect import dissect
from tank_protos.wire.errors import OutOfRange

_LENGTH: Final = Struct(">i")
_REQUEST: Final = Struct(">ihhi")
"""The frame's length, and the first fields of every request header: api key, version, correlation id."""
_RESPONSE: Final = Struct(">ii")
_MAX_FRAME_BYTES: Final = 1 << 30
"""More than any broker accepts (`socket.request.max.bytes`) or sends; a greater number is no frame's
length."""


class KafkaProtocol:
    """Reads Kafka's frames, by Kafka's definitions."""

    def __init__(self, definitions: Protocol, answers: tuple[int, int] | None = None) -> None:
        """`answers`: the api key and version of all answers whose requests were not captured.

        Raises ValueError when the definitions lack the header of a message.
        """
        self._messages = {(message.kind, message.id): message for message in definitions.messages}
        self._headers: dict[Kind, Message] = {}
        for message in definitions.messages:
            header = header_of(definitions, message)
            if header is not None:
                self._headers[message.kind] = header
            elif message.kind in (Kind.REQUEST, Kind.RESPONSE):
                what = f"{message.kind.value.capitalize()}Header"
                raise ValueError(f"there is no {what} among the definitions; put {what}.json there")
        self._answers = answers

    def head(self, data: memoryview, side: Side, exchange: Exchange) -> Head | None:
        """See WireProtocol."""
        form = _REQUEST if side is Side.CLIENT else _RESPONSE
        if len(data) < form.size:
            return None
        length, *begin = form.unpack_from(data)
        if not form.size - _LENGTH.size <= length <= _MAX_FRAME_BYTES:
            raise OutOfRange(f"no frame of the {side.value} has a length of {length}")
        if side is Side.CLIENT:
            key, version, correlation = begin
            message = self._messages.get((Kind.REQUEST, key))
            shown = {"api_key": key, "api_version": version, "correlation_id": correlation}
            unknown = f"no request has the api key {key}" if message is None else ""
            if message is not None and version not in message.versions:
                unknown = f"{message.root.name} has no version {version}; known: {message.versions}"
            return Head(_LENGTH.size, length, shown, unknown)
        unknown = f"no request with the correlation id {begin[0]} came before; see --api-key"
        is_known = self._answered(begin[0], exchange) is not None
        return Head(_LENGTH.size, length, {"correlation_id": begin[0]}, "" if is_known else unknown)

    def read(self, payload: memoryview, head: Head, side: Side, exchange: Exchange) -> Reading:
        """See WireProtocol."""
        correlation = head.shown["correlation_id"]
        if side is Side.CLIENT:
            key, version = head.shown["api_key"], head.shown["api_version"]
            reading = self._read(Kind.REQUEST, key, version, payload)
        else:
            answered = self._answered(correlation, exchange)
            assert answered is not None, "only frames of known messages are read"
            key, version = answered
            reading = self._read(Kind.RESPONSE, key, version, payload)
            # A broker that doesn't know the requested version of ApiVersions answers in version 0.
            if reading.error is not None and key == API_VERSIONS and version:
                reading = self._read(Kind.RESPONSE, key, 0, payload)
            asked = exchange.asked(correlation)
            if asked is not None:
                answers = {"message": asked.message, "offset": asked.offset}
                reading.shown = {"answers": answers} | reading.shown
        reading.key = correlation
        return reading

    def alone(self, message: Message, payload: memoryview, version: int) -> Reading:
        """See WireProtocol."""
        found = dissect(message, payload, version)
        shown: Document = {"message": message.root.name, "version": version, "fields": found.fields}
        return Reading(
            shown, found.fields, None, version, found.error, found.end, found.error_field, found.error is None
        )

    def _answered(self, correlation: int, exchange: Exchange) -> tuple[int, int] | None:
        """The api key and version of the request with this correlation id."""
        asked = exchange.asked(correlation)
        if asked is None:
            return self._answers
        return self._key_of(asked), asked.version

    def _key_of(self, asked: Asked) -> int:
        [key] = [key for (_, key), message in self._messages.items() if message.root.name == asked.message]
        assert key is not None, "what was asked has an api key"
        return key

    def _read(self, kind: Kind, key: int, version: int, payload: memoryview) -> Reading:
        message, header = self._messages[kind, key], self._headers[kind]
        above = dissect(header, payload, header_version(header, message, version), whole=False)
        if above.error is not None:
            shown: Document = {"message": message.root.name, "version": version, "header": above.fields}
            return Reading(
                shown, {}, None, version, above.error, above.end, above.error_field, is_laid_out=False
            )
        reading = self.alone(message, payload[above.end :], version)
        reading.error_at += above.end
        fields = reading.shown.pop("fields")
        reading.shown |= {"header": above.fields, "fields": fields}
        return reading
