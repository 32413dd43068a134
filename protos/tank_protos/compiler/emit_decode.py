"""Writes a message's decoder: one function, inner structs as loops, neighbouring fixed fields in one call."""

import re
from itertools import groupby
from typing import Final

from tank_protos.compiler import python_types
from tank_protos.compiler.emit_decode_arrays import ArrayReader
from tank_protos.compiler.emit_decode_lengths import LengthReader
from tank_protos.compiler.emit_decode_tags import TagReader
from tank_protos.compiler.names import Locals
from tank_protos.compiler.schema import (
    INTEGERS,
    Array,
    Bytes,
    Field,
    Fixed,
    Marker,
    Message,
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
        if self.message.root.has_tags or any(not field.is_absent for field in self.message.root.fields):
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
        self.unknown = ""
        """The variable of the unknown tags."""
        self.lengths = LengthReader(self)

    def construct(self, name: str) -> str:
        values = [self._argument(field) for field in self.struct.fields]
        if self.struct.keeps_tags:
            values.append(self.unknown or "()")
        return f"{name}({', '.join(values)})"

    def _argument(self, field: Field) -> str:
        """What the constructor takes for a field."""
        if field.is_absent:
            return python_types.default(field)
        value = self.owner.value(field)
        keyed = field.type.keyed if isinstance(field.type, Array) else None
        if keyed is None:
            return value
        found = f"{keyed.collection}({value})"
        may_be_null = field.nullable is not None or (field.tag is not None and field.default is None)
        return f"None if {value} is None else {found}" if may_be_null else found

    def emit(self) -> None:
        value = self.owner.value
        declared: list[tuple[Field, str]] = []
        for field in self.struct.fields:
            if field.is_absent or field.tag is not None:
                continue
            self.owner.declare(field, self.prefix)
            declared.append((field, python_types.presence(field, self.struct, value)))
        for presence, group in groupby(declared, key=lambda pair: pair[1]):
            fields = [field for field, _ in group]
            if not presence:
                self._fields(fields)
                continue
            self.flush()
            for field in fields:
                self.declare_default(field)
            with self.out.block(f"if {presence}:"):
                self._fields(fields, is_declared=True)
                self.flush()
        if self.struct.has_tags:
            TagReader(self).emit()
        self.flush()

    def declare_default(self, field: Field) -> None:
        """The variable of a field that may turn out not to be there."""
        annotation, default = python_types.variable(field)
        self.out.line(f"{self.owner.value(field)}: {annotation} = {default}")
        self.note_types(field)

    def note_types(self, field: Field) -> None:
        if isinstance(field.type, Bytes):
            self.owner.uses.add("Buffer")

    def _fields(self, fields: list[Field], *, is_declared: bool = False) -> None:
        for field in fields:
            self.field(field, is_declared=is_declared)
            if self.measuring and self.measuring[-1][0] is field:
                self._check_measured()

    def field(self, field: Field, *, is_declared: bool) -> None:
        """The statements of one field. `is_declared`: its variable has its annotation already."""
        kind = field.type
        variable = self.owner.value(field)
        if field.measures:
            self._begin_measuring(field, variable)
        elif isinstance(kind, Scalar):
            self.pending.append((kind, variable))
        elif isinstance(kind, Varint):
            self.lengths.varint(variable)
        elif isinstance(kind, Text):
            self.lengths.text(field, kind, is_declared=is_declared)
        elif isinstance(kind, Marker):
            self._marker(kind, variable)
        elif isinstance(kind, Bytes):
            self.lengths.bytes(field, kind, is_declared=is_declared)
        elif isinstance(kind, Array):
            ArrayReader(self, field, kind).emit(is_declared=is_declared)
        else:
            self._nested(field, kind, is_declared=is_declared)

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
        self.lengths.refuse_when(f"{start} > size", field)
        self.measuring.append((field.measures[-1], start, variable))

    def _check_measured(self) -> None:
        self.flush()
        last, end, variable = self.measuring.pop()
        self.out.line(f"if at != {end}:")
        measured = f"at - {end} + {variable}"
        self.out.line(f'    raise wrong_size("{self.struct.name}.{last.name}", {measured}, {variable})')
        self.owner.uses.add("wrong_size")

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

    def _nested(self, field: Field, struct: Struct, *, is_declared: bool) -> None:
        variable = self.owner.value(field)
        body = self.inner(struct, variable)
        if field.nullable is None:
            self.flush()
            body.emit()
            self.out.line(f"{variable} = {body.construct(struct.name)}")
            return
        is_there = self._says_null(field, variable)
        self.begin_with_null(field, is_declared=is_declared)
        with self.out.block(f"if {is_there} == 1:"):
            body.emit()
            self.out.line(f"{variable} = {body.construct(struct.name)}")
        # Tagged structs say null with 0, others with -1, as Kafka does.
        self.out.line(f"elif {is_there} != {0 if field.tag is not None else -1}:")
        self.out.line(f'    raise wrong_mark("{self.place(field)}", {is_there})')
        self.owner.uses.add("wrong_mark")

    def _says_null(self, field: Field, variable: str) -> str:
        """Reads the byte that tells whether a struct is there; its variable."""
        name = self.owner.temporary(f"{variable}_is_there")
        if field.tag is not None:
            self.lengths.varint(name)
        else:
            self.pending.append((INTEGERS["int8"], name))
            self.flush()
        return name

    def begin_with_null(self, field: Field, *, is_declared: bool) -> None:
        """The variable of a field that may be null, as null."""
        annotation = "" if is_declared else f": {python_types.variable(field)[0]}"
        self.out.line(f"{self.owner.value(field)}{annotation} = None")
        self.note_types(field)

    def place(self, field: Field) -> str:
        """A field's name for errors."""
        return f"{self.struct.name}.{field.name}"


def unsupported(message: Message) -> str:
    """The exception for a version that the message doesn't have."""
    name, versions = message.root.name, message.versions
    return f'UnsupportedVersion(f"{name} has no version {{version}}; known: {versions}")'
