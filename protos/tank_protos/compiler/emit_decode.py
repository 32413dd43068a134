"""Writes a message's decoder: one function, inner structs as loops, neighbouring fixed fields in one call."""

import re
from itertools import groupby
from typing import Final

from tank_protos.compiler import python_types
from tank_protos.compiler.decode_arrays import TEXT, ArrayReader
from tank_protos.compiler.names import Locals
from tank_protos.compiler.schema import (
    INTEGERS,
    Array,
    Bytes,
    Extent,
    Field,
    Fixed,
    FromField,
    Marker,
    Message,
    Rest,
    Scalar,
    Struct,
    Text,
    Varint,
)
from tank_protos.compiler.writer import Formats, Writer

_SIZE: Final = re.compile(r"\bsize\b")


class DecodeEmitter:
    """The body of `decode`, or of `read`, which begins at an offset.

    Both have the whole body: a call from one to the other would cost a tenth of a small message's time.
    """

    def __init__(self, message: Message, formats: Formats, writer: Writer, *, is_read: bool) -> None:
        self._is_read = is_read
        self.message = message
        self.formats = formats
        self.out = writer
        self.locals = Locals()
        self.values: dict[int, str] = {}
        """The variable of each field, by identity."""
        self.uses: set[str] = set()
        """What the function needs from elsewhere: names of imports."""

    def emit(self) -> None:
        name = self.message.root.name
        first = len(self.out.lines)
        if not self._is_read:
            self.out.line("if type(payload) is not memoryview:")
            self.out.line("    payload = memoryview(payload)")
        self.out.line("at = offset" if self._is_read else "at = 0")
        body = StructBody(self, self.message.root, "")
        if self.message.root.fields:
            with self.out.block("try:"):
                body.emit()
            self.out.line("except (StructError, IndexError):")
            self.out.line(f'    raise Truncated("{name} ends too early") from None')
            self.uses |= {"Truncated", "StructError"}
        if self._is_read:
            self.out.line(f"return {body.construct('cls')}, at")
        else:
            self.out.line("if at != size:")
            self.out.line(f'    raise TrailingBytes(f"{{size - at}} bytes follow {name}")')
            self.out.line(f"return {body.construct('cls')}")
            self.uses.add("TrailingBytes")
        if any(_SIZE.search(line) for line in self.out.lines[first:]):
            self.out.insert(first + (0 if self._is_read else 2), "size = len(payload)")

    def value(self, field: Field) -> str:
        return self.values[id(field)]

    def declare(self, field: Field, prefix: str) -> str:
        if field is self.message.version_field:
            name = "version"
        else:
            name = self.locals.take(f"{prefix}_{field.python_name}" if prefix else field.python_name)
        self.values[id(field)] = name
        return name

    def temporary(self, name: str) -> str:
        return self.locals.take(name)


class StructBody:
    """The statements that read one struct's fields into variables."""

    def __init__(self, owner: DecodeEmitter, struct: Struct, prefix: str) -> None:
        self.owner = owner
        self.message = owner.message
        self.formats = owner.formats
        self.out = owner.out
        self.struct = struct
        self.prefix = prefix
        self.pending: list[tuple[Scalar | Fixed, str]] = []
        self.measuring: list[tuple[Field, str, str]] = []
        """Fields that measure: the last field measured, where it began, the stated length."""

    def construct(self, name: str) -> str:
        return f"{name}({', '.join(self.owner.value(field) for field in self.struct.fields)})"

    def emit(self) -> None:
        value = self.owner.value
        declared: list[tuple[Field, str]] = []
        for field in self.struct.fields:
            self.owner.declare(field, self.prefix)
            declared.append((field, python_types.presence(field, self.struct, value)))
        for presence, group in groupby(declared, key=lambda pair: pair[1]):
            fields = [field for field, _ in group]
            if not presence:
                self._fields(fields)
                continue
            self.flush()
            for field in fields:
                self.out.line(
                    f"{value(field)}: {python_types.annotation(field)} = {python_types.default(field)}"
                )
                self._note_types(field)
            with self.out.block(f"if {presence}:"):
                self._fields(fields, is_declared=True)
                self.flush()
        self.flush()

    def _note_types(self, field: Field) -> None:
        if isinstance(field.type, Bytes):
            self.owner.uses.add("Buffer")

    def _fields(self, fields: list[Field], *, is_declared: bool = False) -> None:
        for field in fields:
            self._field(field, is_declared=is_declared)
            if self.measuring and self.measuring[-1][0] is field:
                self._check_measured()

    def _field(self, field: Field, *, is_declared: bool) -> None:
        kind = field.type
        variable = self.owner.value(field)
        if field.measures:
            self._begin_measuring(field, variable)
        elif isinstance(kind, Scalar):
            self.pending.append((kind, variable))
        elif isinstance(kind, Varint):
            self.varint(variable)
        elif isinstance(kind, Text):
            self._text(field, kind, variable, is_declared=is_declared)
        elif isinstance(kind, Marker):
            self._marker(kind, variable)
        elif isinstance(kind, Bytes):
            self._bytes(field, kind, variable, is_declared=is_declared)
        elif isinstance(kind, Array):
            ArrayReader(self, field, kind).emit(is_declared=is_declared)
        else:
            self._nested(kind, variable)

    # Fixed fields

    def flush(self) -> None:
        if not self.pending:
            return
        size = sum(kind.size for kind, _ in self.pending)
        codes = "".join(
            kind.code if isinstance(kind, Scalar) else f"{kind.size}s" for kind, _ in self.pending
        )
        variables = [variable for _, variable in self.pending]
        self.pending = []
        if codes == "B":
            self.out.line(f"{variables[0]} = payload[at]")
        else:
            targets = ", ".join(variables) + ("," if len(variables) == 1 else "")
            self.out.line(
                f"{'(' + targets + ')' if len(variables) == 1 else targets} = "
                f"{self.formats.name('read', codes)}(payload, at)"
            )
        self.out.line(f"at += {size}")
        if "version" in variables:
            self._check_version()

    def _check_version(self) -> None:
        versions, field = self.message.versions, self.message.version_field
        assert field is not None
        assert isinstance(field.type, Scalar)
        tests = []
        if versions.low > field.type.low:
            tests.append(f"version < {versions.low}")
        if versions.high_end < field.type.high:
            tests.append(f"version > {versions.high}")
        if tests:
            self.out.line(f"if {' or '.join(tests)}:")
            self.out.line(f"    raise {unsupported(self.message)}")
            self.owner.uses.add("UnsupportedVersion")

    def _begin_measuring(self, field: Field, variable: str) -> None:
        kind = field.type
        assert isinstance(kind, Scalar)
        start = self.owner.temporary(f"{variable}_end")
        self.pending.append((kind, variable))
        self.flush()
        self.out.line(f"{start} = at + {variable}")
        self.refuse_when(f"{start} > size", field)
        self.measuring.append((field.measures[-1], start, variable))

    def _check_measured(self) -> None:
        self.flush()
        last, end, variable = self.measuring.pop()
        self.out.line(f"if at != {end}:")
        measured = f"at - {end} + {variable}"
        self.out.line(f'    raise wrong_size("{self.struct.name}.{last.name}", {measured}, {variable})')
        self.owner.uses.add("wrong_size")

    # Fields behind a length

    def varint(self, variable: str, start: str = "") -> None:
        """A varint's first byte belongs to the fixed fields before it; `start` is to hold where it stands."""
        self.pending.append((INTEGERS["uint8"], variable))
        self.flush()
        if start:
            self.out.line(f"{start} = at - 1")
        with self.out.block(f"if {variable} > 127:"):
            # Two bytes, which most bundles' lengths have, cost half as much here as in a call.
            self.out.line("more = payload[at]")
            self.out.line("if more < 128:")
            self.out.line(f"    {variable} += (more - 1) << 7")
            self.out.line("    at += 1")
            self.out.line("else:")
            self.out.line(f"    {variable}, at = read_varint(payload, at - 1)")
        self.owner.uses.add("read_varint")

    def extent(self, extent: Extent, variable: str, start: str = "") -> str:
        """Reads a length or count; the expression of it. `start` is to hold where it stands."""
        if isinstance(extent, FromField):
            self.flush()
            return self.owner.value(extent.field)
        assert isinstance(extent, Scalar | Varint), "rest and fixed lengths are handled before"
        name = self.owner.temporary(variable)
        if isinstance(extent, Varint):
            self.varint(name, start)
            return name
        self.pending.append((extent, name))
        self.flush()
        if start:
            self.out.line(f"{start} = at - {extent.size}")
        return name

    def refuse_when(self, test: str, field: Field) -> None:
        """The payload ends within the field."""
        self.out.line(f"if {test}:")
        place = f"{self.struct.name}.{field.name}"
        self.out.line(f'    raise Truncated("{self.message.root.name} ends in {place}")')
        self.owner.uses.add("Truncated")

    def check_end(self, field: Field) -> None:
        self.refuse_when("end > size", field)

    def is_there(self, field: Field, extent: Extent, length: str) -> str:
        """The test that the value is not null."""
        assert field.nullable is not None
        assert isinstance(extent, Scalar)
        test = f"{length} != {extent.high}"
        present = field.versions or self.struct.versions
        if field.nullable == present:
            return test
        return f"{test} or not ({python_types.version_test(field.nullable, present)})"

    def begin_with_null(self, field: Field, *, is_declared: bool) -> None:
        annotation = "" if is_declared else f": {python_types.annotation(field)}"
        self.out.line(f"{self.owner.value(field)}{annotation} = None")
        self._note_types(field)

    def sized(self, field: Field, length: str, body: list[str]) -> None:
        """A value of `length` bytes at `at`; leaves `at` behind it."""
        self.out.line(f"end = at + {length}")
        self.check_end(field)
        for line in body:
            self.out.line(line)
        self.out.line("at = end")

    def _sized_or_null(
        self, field: Field, extent: Extent, length: str, body: list[str], *, is_declared: bool
    ) -> None:
        if field.nullable is None:
            self.sized(field, length, body)
            return
        self.begin_with_null(field, is_declared=is_declared)
        with self.out.block(f"if {self.is_there(field, extent, length)}:"):
            self.sized(field, length, body)

    def _text(self, field: Field, kind: Text, variable: str, *, is_declared: bool) -> None:
        length = self.extent(kind.length, f"{variable}_length")
        self._sized_or_null(field, kind.length, length, [f"{variable} = {TEXT}"], is_declared=is_declared)

    def _bytes(self, field: Field, kind: Bytes, variable: str, *, is_declared: bool) -> None:
        if isinstance(kind.length, Fixed):
            self.pending.append((kind.length, variable))
            return
        if isinstance(kind.length, Rest):
            self.flush()
            self.out.line(f"{variable} = payload[at:]")
            self.out.line("at = size")
            return
        start = self.owner.temporary(f"{variable}_start") if kind.keep_prefix else "at"
        length = self.extent(kind.length, f"{variable}_length", start if kind.keep_prefix else "")
        body = [f"{variable} = payload[{start}:end]"]
        self._sized_or_null(field, kind.length, length, body, is_declared=is_declared)

    def _marker(self, kind: Marker, variable: str) -> None:
        self.flush()
        value = kind.wire_form(little_endian=self.message.little_endian)
        self.out.line(f"{variable} = bytes(payload[at : at + {kind.scalar.size}]) == {value!r}")
        self.out.line(f"if {variable}:")
        self.out.line(f"    at += {kind.scalar.size}")

    # Structs

    def inner(self, struct: Struct, prefix: str) -> "StructBody":
        """The body of a struct inside this one."""
        return StructBody(self.owner, struct, prefix)

    def _nested(self, struct: Struct, variable: str) -> None:
        self.flush()
        body = self.inner(struct, variable)
        body.emit()
        self.out.line(f"{variable} = {body.construct(struct.name)}")


def unsupported(message: Message) -> str:
    """The exception for a version that the message doesn't have."""
    name, versions = message.root.name, message.versions
    return f'UnsupportedVersion(f"{name} has no version {{version}}; known: {versions}")'
