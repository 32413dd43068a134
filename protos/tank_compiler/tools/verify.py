"""Checks generated code against test vectors of another implementation: bytes, and their meaning as JSON.

A vector is `{"name": ..., "version": ..., "json": {...}, "hex": "..."}`. It passes when the bytes decode to
the JSON, and the JSON encodes to the bytes. Unknown tagged fields, for which JSON has no form, are kept by
the decoder and encoded again.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Final

from tank_compiler.emit.module import module_name
from tank_compiler.schema import layouts
from tank_compiler.schema.schema import Message, Protocol
from tank_compiler.tools.json_form import FormError, Json, copy_unknown, from_json, to_json
from tank_protos.wire.errors import WireError
from tank_protos.wire.message import Message as Codec

SHOWN_BYTES: Final = 24
"""How many bytes around the first difference are shown."""


class VectorError(ValueError):
    """A line that is no test vector."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One line of a file of vectors."""

    name: str
    version: int
    form: Json
    payload: bytes


def parse(line: str) -> Vector:
    """The vector on a line. Raises VectorError."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise VectorError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise VectorError('expected {"name": ..., "version": ..., "json": {...}, "hex": "..."}')
    name, version, digits = found.get("name"), found.get("version"), found.get("hex")
    if not isinstance(name, str) or not isinstance(version, int) or not isinstance(digits, str):
        raise VectorError("expected a string 'name', a whole number 'version' and a string 'hex'")
    try:
        payload = bytes.fromhex(digits)
    except ValueError:
        raise VectorError("'hex' has other characters than pairs of hexadecimal digits") from None
    return Vector(name, version, found.get("json"), payload)


class VectorVerifier:
    """Checks vectors against the code generated for a protocol. `modules`: imports a generated module by
    name."""

    def __init__(self, protocol: Protocol, modules: Callable[[str], ModuleType]) -> None:
        self._messages = {message.root.name: message for message in protocol.messages}
        self._modules = modules
        self._layouts: dict[tuple[str, int], Message] = {}
        self.unknown_tags = 0
        """How many tagged fields were found that no definition has."""

    def differences(self, vector: Vector) -> list[str]:
        """The failures, in words; empty: the vector passes."""
        message = self._messages.get(vector.name)
        if message is None:
            return [f"no definition is called {vector.name}"]
        if vector.version not in message.versions:
            return [f"{vector.name} has no version {vector.version}; known: {message.versions}"]
        layout = self._layout(message, vector.version)
        return list(self._tried(self._modules(module_name(message)), layout, vector))

    def _layout(self, message: Message, version: int) -> Message:
        key = (message.root.name, version)
        if key not in self._layouts:
            self._layouts[key] = layouts.of_version(message, version)
        return self._layouts[key]

    def _tried(self, module: ModuleType, layout: Message, vector: Vector) -> Iterator[str]:
        codec: type[Codec] = getattr(module, layout.root.name)
        kept = {"keep_unknown": True} if layout.root.keeps_tags else {}
        decoded = None
        try:
            decoded = codec.decode(vector.payload, vector.version, **kept)
        except WireError as error:
            yield f"decoding: {type(error).__name__}: {error}"
        else:
            difference = _first_difference(to_json(layout.root, decoded), vector.form, "")
            if difference:
                yield f"decoding: {difference}"
        try:
            built = from_json(module, layout.root, vector.form)
            if decoded is not None:
                self.unknown_tags += copy_unknown(layout.root, decoded, built)
            payload = b"".join(built.encode(vector.version))
        except (WireError, FormError) as error:
            yield f"encoding: {type(error).__name__}: {error}"
            return
        if payload != vector.payload:
            yield f"encoding: {_bytes_difference(payload, vector.payload)}"


def _bytes_difference(ours: bytes, theirs: bytes) -> str:
    at = next((at for at, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b), None)
    if at is None:
        at = min(len(ours), len(theirs))
    end = at + SHOWN_BYTES
    shown = f"{ours[at:end].hex() or 'nothing'} instead of {theirs[at:end].hex() or 'nothing'}"
    return f"from byte {at} on {shown} ({len(ours)} bytes instead of {len(theirs)})"


def _first_difference(ours: Json, theirs: Json, place: str) -> str:
    """The first difference between two forms, in words; empty: there is none."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in {**ours, **theirs}:
            inner = f"{place}.{name}" if place else name
            if name not in theirs or name not in ours:
                return f"{inner} is {'not there' if name not in ours else 'there, but should not be'}"
            found = _first_difference(ours[name], theirs[name], inner)
            if found:
                return found
        return ""
    if isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return next(filter(None, (_first_difference(a, b, f"{place}[{at}]") for at, (a, b) in pairs)), "")
    if isinstance(ours, list) and isinstance(theirs, list):
        return f"{place} has {len(ours)} elements instead of {len(theirs)}"
    if type(ours) is type(theirs) and ours == theirs:
        return ""
    if (
        isinstance(ours, float)
        and isinstance(theirs, int)
        and ours == theirs
        and not isinstance(theirs, bool)
    ):
        return ""
    return f"{place or 'the message'} is {_short(ours)} instead of {_short(theirs)}"


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:76]} ..."
