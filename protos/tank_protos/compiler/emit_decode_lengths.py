"""The part of a decoder that reads what has a length before it: varints, texts and bytes."""

from typing import TYPE_CHECKING, Final

from tank_protos.compiler import python_types
from tank_protos.compiler.schema import (
    INTEGERS,
    Array,
    Bytes,
    Compact,
    Extent,
    Field,
    Fixed,
    FromField,
    Rest,
    Scalar,
    Text,
    Varint,
)

if TYPE_CHECKING:
    from tank_protos.compiler.emit_decode import StructBody

TEXT: Final = 'payload[at:end].tobytes().decode("utf-8", "surrogateescape")'
"""How text is read: faster than str(payload[at:end], ...), which goes through the buffer protocol."""

MAX_TEXT: Final = INTEGERS["int16"].high
"""No text of Kafka's is longer, whatever its length could say."""


class LengthReader:
    """Writes the statements that read lengths, and the values behind them, of one struct."""

    def __init__(self, body: "StructBody") -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out

    def varint(self, variable: str, start: str = "", *, is_short: bool = False) -> None:
        """A varint's first byte belongs to the fixed fields before it; `start` is to hold where it stands.

        `is_short`: it nearly always has one byte.
        """
        self._body.pending.append((INTEGERS["uint8"], variable))
        self._body.flush()
        if start:
            self._out.line(f"{start} = at - 1")
        self._owner.uses.add("read_varint")
        with self._out.block(f"if {variable} > 127:"):
            if is_short:
                self._out.line(f"{variable}, at = read_varint(payload, at - 1)")
                return
            # Two bytes, which most bundles' lengths have, cost half as much here as in a call.
            self._out.line("more = payload[at]")
            self._out.line("if more < 128:")
            self._out.line(f"    {variable} += (more - 1) << 7")
            self._out.line("    at += 1")
            self._out.line("else:")
            self._out.line(f"    {variable}, at = read_varint(payload, at - 1)")

    def extent(self, extent: Extent, variable: str, start: str = "") -> str:
        """Reads a length or count; the expression of it. `start` is to hold where it stands.

        Of a compact one the variable holds one more than the length, or 0 for null.
        """
        if isinstance(extent, FromField):
            self._body.flush()
            return self._owner.value(extent.field)
        name = self._owner.temporary(variable)
        if isinstance(extent, Varint | Compact):
            self.varint(name, start, is_short=isinstance(extent, Compact))
            return name
        assert isinstance(extent, Scalar), "rest and fixed lengths are handled before"
        self._body.pending.append((extent, name))
        self._body.flush()
        if start:
            self._out.line(f"{start} = at - {extent.size}")
        return name

    def refuse_when(self, test: str, field: Field) -> None:
        """The payload ends within the field."""
        self._out.line(f"if {test}:")
        self._out.line(
            f'    raise Truncated("{self._body.message.root.name} ends in {self._body.place(field)}")'
        )
        self._owner.uses.add("Truncated")

    def refuse_length(self, test: str, field: Field, length: str, most: int | None = None) -> None:
        """The payload ends within the field, or its length is below zero, or above `most`."""
        self._out.line(f"if {test}:")
        name, place = self._body.message.root.name, self._body.place(field)
        limit = "" if most is None else f", {most}"
        self._out.line(f'    raise wrong_length("{name}", "{place}", {length}{limit})')
        self._owner.uses.add("wrong_length")

    def check_end(self, field: Field, extent: Extent, length: str) -> None:
        """`end` is where the value ends, as `length` says: raises when that cannot be."""
        is_text = isinstance(field.type, Text) or self._is_text_list(field)
        if not may_be_negative(extent):
            self.refuse_when("end > size", field)
        elif not isinstance(extent, Compact):
            self.refuse_length("not at <= end <= size", field, length)
        elif is_text:
            least = "" if field.nullable is not None and isinstance(field.type, Text) else "0 < "
            test = f"not {least}{length} <= {MAX_TEXT + 1}" if least else f"{length} > {MAX_TEXT + 1}"
            self.refuse_length(f"{test} or end > size", field, f"{length} - 1", MAX_TEXT)
        elif field.nullable is not None:
            self.refuse_length("end > size", field, f"{length} - 1")
        else:
            self.refuse_length("not at <= end <= size", field, f"{length} - 1")

    def _is_text_list(self, field: Field) -> bool:
        return isinstance(field.type, Array) and isinstance(field.type.element, Text)

    def is_there(self, field: Field, extent: Extent, length: str) -> str:
        """The test that the value is not null."""
        assert field.nullable is not None
        if isinstance(extent, Compact):
            return length
        assert isinstance(extent, Scalar)
        test = f"{length} != {null_of(extent)}"
        present = field.versions or self._body.struct.versions
        if field.nullable == present:
            return test
        return f"{test} or not ({python_types.version_test(field.nullable, present)})"

    def sized(self, field: Field, extent: Extent, length: str, body: list[str]) -> None:
        """A value of `length` bytes at `at`; leaves `at` behind it."""
        self._out.line(f"end = at + {length}{' - 1' if isinstance(extent, Compact) else ''}")
        self.check_end(field, extent, length)
        for line in body:
            self._out.line(line)
        self._out.line("at = end")

    def _sized_or_null(
        self, field: Field, extent: Extent, length: str, body: list[str], *, is_declared: bool
    ) -> None:
        if field.nullable is None:
            self.sized(field, extent, length, body)
            return
        self._body.begin_with_null(field, is_declared=is_declared)
        with self._out.block(f"if {self.is_there(field, extent, length)}:"):
            self.sized(field, extent, length, body)

    def text(self, field: Field, kind: Text, *, is_declared: bool) -> None:
        """A text into the field's variable."""
        variable = self._owner.value(field)
        length = self.extent(kind.length, f"{variable}_length")
        body = [f"{variable} = {TEXT}"]
        self._sized_or_null(field, kind.length, length, body, is_declared=is_declared)

    def bytes(self, field: Field, kind: Bytes, *, is_declared: bool) -> None:
        """A slice of the payload into the field's variable."""
        variable = self._owner.value(field)
        if isinstance(kind.length, Fixed):
            self._body.pending.append((kind.length, variable))
            return
        if isinstance(kind.length, Rest):
            self._body.flush()
            self._out.line(f"{variable} = payload[at:]")
            self._out.line("at = size")
            return
        start = self._owner.temporary(f"{variable}_start") if kind.keep_prefix else "at"
        length = self.extent(kind.length, f"{variable}_length", start if kind.keep_prefix else "")
        body = [f"{variable} = payload[{start}:end]"]
        self._sized_or_null(field, kind.length, length, body, is_declared=is_declared)


def may_be_negative(extent: Extent) -> bool:
    """Whether what stands on the wire can mean a length below zero."""
    return isinstance(extent, Compact) or (isinstance(extent, Scalar) and extent.low < 0)


def null_of(extent: Scalar) -> int:
    """The length that means null: all its bits are set."""
    return -1 if extent.low < 0 else extent.high
