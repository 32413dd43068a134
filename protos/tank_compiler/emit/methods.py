"""Writes the methods of a message: decode, read and encode, and behind them one pair for each layout."""

from tank_compiler.emit.count import CountEmitter, counted
from tank_compiler.emit.decode import DecodeEmitter, unsupported
from tank_compiler.emit.encode import EncodeEmitter
from tank_compiler.emit.writer import StructFormats, Writer
from tank_compiler.schema import layouts
from tank_compiler.schema.schema import Message

_KEEP = "*, keep_unknown: bool = False"


def methods(out: Writer, message: Message, formats: StructFormats) -> set[str]:
    """Writes the methods into the class that was just begun. Returns the names that they need as imports."""
    found = layouts.split(message)
    with out.block(""):
        out.lines.pop()
        if len(found) == 1 and not message.root.keeps_tags:
            return _whole(out, found[0], formats) | _count(out, message, formats)
        uses = _chosen(out, message, found)
        for layout in found:
            uses |= _layout(out, layout, formats)
    return uses


def _whole(out: Writer, message: Message, formats: StructFormats) -> set[str]:
    """Writes the methods of a message with one layout."""
    out.line()
    out.line("@classmethod")
    with out.block("def decode(cls, payload: Buffer, version: int = 0) -> Self:"):
        out.line('"""The message that fills `payload`. Raises WireError."""')
        uses = _version_guard(out, message)
        decoder = DecodeEmitter(message, formats, out, is_read=False)
        decoder.emit()
    out.line()
    out.line("@classmethod")
    with out.block("def read(cls, payload: memoryview, offset: int, version: int = 0) -> tuple[Self, int]:"):
        out.line('"""The message at `offset` and where it ends. Raises WireError."""')
        uses |= _version_guard(out, message)
        reader = DecodeEmitter(message, formats, out, is_read=True)
        reader.emit()
    out.line()
    with out.block("def encode(self, version: int = 0) -> list[Buffer]:"):
        out.line('"""The payload, in pieces. Raises OutOfRange, UnsupportedVersion."""')
        uses |= _version_guard(out, message)
        encoder = EncodeEmitter(message, formats, out)
        encoder.emit()
    return uses | decoder.uses | reader.uses | encoder.uses


def _count(out: Writer, message: Message, formats: StructFormats) -> set[str]:
    wanted = counted(message)
    if wanted is None:
        return set()
    counter = CountEmitter(message, wanted, formats, out)
    counter.emit()
    return counter.uses


def _chosen(out: Writer, message: Message, found: list[Message]) -> set[str]:
    """Writes the methods of a message with several layouts, which choose by the version."""
    keep, passed = (f", {_KEEP}", ", keep_unknown=keep_unknown") if message.root.keeps_tags else ("", "")
    out.line()
    out.line("@classmethod")
    with out.block(f"def decode(cls, payload: Buffer, version: int = 0{keep}) -> Self:"):
        out.line('"""The message that fills `payload`. Raises WireError."""')
        out.line("if type(payload) is not memoryview:")
        out.line("    payload = memoryview(payload)")
        out.line(f"found, at = cls.read(payload, 0, version{passed})")
        out.line("if at != len(payload):")
        out.line(f'    raise TrailingBytes(f"{{len(payload) - at}} bytes follow {message.root.name}")')
        out.line("return found")
    out.line()
    out.line("@classmethod")
    head = f"def read(cls, payload: memoryview, offset: int, version: int = 0{keep}) -> tuple[Self, int]:"
    with out.block(head):
        out.line('"""The message at `offset` and where it ends. Raises WireError."""')
        _version_guard(out, message)
        for layout in reversed(found):
            argument = ", keep_unknown" if layout.root.has_tags else ""
            _when(out, layout, message, f"cls._read_v{layout.versions.low}(payload, offset{argument})")
    out.line()
    with out.block("def encode(self, version: int = 0) -> list[Buffer]:"):
        out.line('"""The payload, in pieces. Raises OutOfRange, UnsupportedVersion."""')
        _version_guard(out, message)
        for layout in reversed(found):
            _when(out, layout, message, f"self._encode_v{layout.versions.low}(version)")
    return {"UnsupportedVersion", "TrailingBytes"}


def _when(out: Writer, layout: Message, message: Message, result: str) -> None:
    """Writes: return `result` when the version is this layout's or a later one. Later layouts come first."""
    if layout.versions.low == message.versions.low:
        out.line(f"return {result}")
        return
    out.line(f"if version >= {layout.versions.low}:")
    out.line(f"    return {result}")


def _layout(out: Writer, layout: Message, formats: StructFormats) -> set[str]:
    low = layout.versions.low
    keep = ", keep_unknown: bool" if layout.root.has_tags else ""
    out.line()
    out.line("@classmethod")
    with out.block(f"def _read_v{low}(cls, payload: memoryview, offset: int{keep}) -> tuple[Self, int]:"):
        out.line(f'"""Reads versions {layout.versions}."""')
        reader = DecodeEmitter(layout, formats, out, is_read=True)
        reader.emit()
    out.line()
    with out.block(f"def _encode_v{low}(self, version: int) -> list[Buffer]:"):
        out.line(f'"""Encodes versions {layout.versions}."""')
        encoder = EncodeEmitter(layout, formats, out)
        encoder.emit()
    return reader.uses | encoder.uses


def _version_guard(out: Writer, message: Message) -> set[str]:
    if message.version_field is not None:
        return set()
    low, high = message.versions.low, message.versions.high
    out.line(f"if version != {low}:" if low == high else f"if not {low} <= version <= {high}:")
    out.line(f"    raise {unsupported(message)}")
    return {"UnsupportedVersion"}
