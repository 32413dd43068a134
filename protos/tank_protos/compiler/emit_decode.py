"""Writes a message's decoder: one function, nested structs as loops in it, neighbouring fixed fields in one call."""

import re
from itertools import groupby
from typing import Final

from tank_protos.compiler import python_types, wire_size
from tank_protos.compiler.names import Locals, snake_case
from tank_protos.compiler.schema import (
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
    """The body of `read`, from `at = offset` to the return."""

    def __init__(self, message: Message, formats: Formats, writer: Writer) -> None:
        self._message = message
        self._formats = formats
        self._out = writer
        self._locals = Locals()
        self._values: dict[int, str] = {}
        """The variable of each field, by identity."""
        self.uses: set[str] = set()
        """What the function needs from elsewhere: names of imports."""

    def emit(self) -> None:
        if not self._message.root.fields:
            self._out.line("return cls(), offset")
            return
        first = len(self._out.lines)
        self._out.line("at = offset")
        with self._out.block("try:"):
            body = _StructBody(self, self._message.root, "")
            body.emit()
        if any(_SIZE.search(line) for line in self._out.lines[first:]):
            self._out.insert(first, "size = len(payload)")
        self._out.line("except (StructError, IndexError):")
        self._out.line(f'    raise Truncated("{self._message.root.name} ends too early") from None')
        self.uses |= {"Truncated", "StructError"}
        self._out.line(f"return {body.construct('cls')}, at")

    def value(self, field: Field) -> str:
        return self._values[id(field)]

    def declare(self, field: Field, prefix: str) -> str:
        if field is self._message.version_field:
            name = "version"
        else:
            name = self._locals.take(f"{prefix}_{field.python_name}" if prefix else field.python_name)
        self._values[id(field)] = name
        return name

    def temporary(self, name: str) -> str:
        return self._locals.take(name)


class _StructBody:
    """The statements that read one struct's fields into variables."""

    def __init__(self, owner: DecodeEmitter, struct: Struct, prefix: str) -> None:
        self._owner = owner
        self._message = owner._message
        self._formats = owner._formats
        self._out = owner._out
        self._struct = struct
        self._prefix = prefix
        self._pending: list[tuple[Scalar | Fixed, str]] = []
        self._measuring: list[tuple[Field, str, str]] = []
        """Fields that measure: the last field measured, where it began, the stated length."""

    def construct(self, name: str) -> str:
        return f"{name}({', '.join(self._owner.value(field) for field in self._struct.fields)})"

    def emit(self) -> None:
        value = self._owner.value
        declared: list[tuple[Field, str]] = []
        for field in self._struct.fields:
            self._owner.declare(field, self._prefix)
            declared.append((field, python_types.presence(field, self._struct, value)))
        for presence, group in groupby(declared, key=lambda pair: pair[1]):
            fields = [field for field, _ in group]
            if not presence:
                self._fields(fields)
                continue
            self._flush()
            for field in fields:
                self._out.line(
                    f"{value(field)}: {python_types.annotation(field)} = {python_types.default(field)}"
                )
                self._note_types(field)
            with self._out.block(f"if {presence}:"):
                self._fields(fields, is_declared=True)
                self._flush()
        self._flush()

    def _note_types(self, field: Field) -> None:
        if isinstance(field.type, Bytes):
            self._owner.uses.add("Buffer")

    def _fields(self, fields: list[Field], *, is_declared: bool = False) -> None:
        for field in fields:
            self._field(field, is_declared=is_declared)
            if self._measuring and self._measuring[-1][0] is field:
                self._check_measured()

    def _field(self, field: Field, *, is_declared: bool) -> None:
        kind = field.type
        variable = self._owner.value(field)
        if field.measures:
            self._begin_measuring(field, variable)
        elif isinstance(kind, Scalar):
            self._pending.append((kind, variable))
        elif isinstance(kind, Varint):
            self._varint(variable)
        elif isinstance(kind, Text):
            self._text(field, kind, variable, is_declared=is_declared)
        elif isinstance(kind, Marker):
            self._marker(kind, variable)
        elif isinstance(kind, Bytes):
            self._bytes(field, kind, variable, is_declared=is_declared)
        elif isinstance(kind, Array):
            self._array(field, kind, variable, is_declared=is_declared)
        else:
            self._nested(kind, variable)

    # Fixed fields

    def _flush(self) -> None:
        if not self._pending:
            return
        size = sum(kind.size for kind, _ in self._pending)
        codes = "".join(
            kind.code if isinstance(kind, Scalar) else f"{kind.size}s" for kind, _ in self._pending
        )
        variables = [variable for _, variable in self._pending]
        self._pending = []
        if codes == "B":
            self._out.line(f"{variables[0]} = payload[at]")
        else:
            targets = ", ".join(variables) + ("," if len(variables) == 1 else "")
            self._out.line(
                f"{'(' + targets + ')' if len(variables) == 1 else targets} = "
                f"{self._formats.name('read', codes)}(payload, at)"
            )
        self._out.line(f"at += {size}")
        if "version" in variables:
            self._check_version()

    def _check_version(self) -> None:
        versions, field = self._message.versions, self._message.version_field
        assert field is not None and isinstance(field.type, Scalar)
        tests = []
        if versions.low > field.type.low:
            tests.append(f"version < {versions.low}")
        if versions.high_end < field.type.high:
            tests.append(f"version > {versions.high}")
        if tests:
            self._out.line(f"if {' or '.join(tests)}:")
            self._out.line(f"    raise {unsupported(self._message)}")
            self._owner.uses.add("UnsupportedVersion")

    def _begin_measuring(self, field: Field, variable: str) -> None:
        kind = field.type
        assert isinstance(kind, Scalar)
        start = self._owner.temporary(f"{variable}_end")
        self._pending.append((kind, variable))
        self._flush()
        self._out.line(f"{start} = at + {variable}")
        self._measuring.append((field.measures[-1], start, variable))

    def _check_measured(self) -> None:
        self._flush()
        last, end, variable = self._measuring.pop()
        self._out.line(f"if at != {end}:")
        measured = f"at - {end} + {variable}"
        self._out.line(f'    raise wrong_size("{self._struct.name}.{last.name}", {measured}, {variable})')
        self._owner.uses.add("wrong_size")

    # Fields behind a length

    def _varint(self, variable: str) -> None:
        self._flush()
        self._out.line(f"{variable} = payload[at]")
        self._out.line("at += 1")
        self._out.line(f"if {variable} > 127:")
        self._out.line(f"    {variable}, at = read_varint(payload, at - 1)")
        self._owner.uses.add("read_varint")

    def _extent(self, extent: Extent, variable: str) -> str:
        """Reads a length or count; the expression of it."""
        if isinstance(extent, FromField):
            self._flush()
            return self._owner.value(extent.field)
        assert isinstance(extent, Scalar | Varint), "rest and fixed lengths are handled before"
        name = self._owner.temporary(variable)
        if isinstance(extent, Scalar):
            self._pending.append((extent, name))
            self._flush()
        else:
            self._varint(name)
        return name

    def _check_end(self, field: Field) -> None:
        self._out.line("if end > size:")
        self._out.line(
            f'    raise Truncated("{self._message.root.name} ends in {self._struct.name}.{field.name}")'
        )
        self._owner.uses.add("Truncated")

    def _is_there(self, field: Field, extent: Extent, length: str) -> str:
        """The test that the value is not null."""
        assert field.nullable is not None and isinstance(extent, Scalar)
        test = f"{length} != {extent.high}"
        present = field.versions or self._struct.versions
        if field.nullable == present:
            return test
        return f"{test} or not ({python_types.version_test(field.nullable, present)})"

    def _declare(self, field: Field, variable: str, *, is_declared: bool) -> None:
        if not is_declared and field.nullable:
            self._out.line(f"{variable}: {python_types.annotation(field)} = None")

    def _text(self, field: Field, kind: Text, variable: str, *, is_declared: bool) -> None:
        length = self._extent(kind.length, f"{variable}_length")
        decode = f'{variable} = str(payload[at:end], "utf-8", "surrogateescape")'
        self._sized(field, kind.length, length, [decode], is_declared=is_declared)

    def _sized(
        self, field: Field, extent: Extent, length: str, body: list[str], *, is_declared: bool
    ) -> None:
        """A value of `length` bytes at `at`, or null; leaves `at` behind it."""
        variable = self._owner.value(field)
        if field.nullable is None:
            self._sized_body(field, length, body)
            return
        if is_declared:
            self._out.line(f"{variable} = None")
        else:
            self._declare(field, variable, is_declared=is_declared)
        with self._out.block(f"if {self._is_there(field, extent, length)}:"):
            self._sized_body(field, length, body)

    def _sized_body(self, field: Field, length: str, body: list[str]) -> None:
        self._out.line(f"end = at + {length}")
        self._check_end(field)
        for line in body:
            self._out.line(line)
        self._out.line("at = end")

    def _bytes(self, field: Field, kind: Bytes, variable: str, *, is_declared: bool) -> None:
        if isinstance(kind.length, Fixed):
            self._pending.append((kind.length, variable))
            return
        if field.nullable is not None:
            self._owner.uses.add("Buffer")
        if isinstance(kind.length, Rest):
            self._flush()
            self._out.line(f"{variable} = payload[at:]")
            self._out.line("at = size")
            return
        start = "at"
        if kind.keep_prefix:
            self._flush()
            start = self._owner.temporary(f"{variable}_start")
            self._out.line(f"{start} = at")
        length = self._extent(kind.length, f"{variable}_length")
        self._sized(
            field, kind.length, length, [f"{variable} = payload[{start}:end]"], is_declared=is_declared
        )

    def _marker(self, kind: Marker, variable: str) -> None:
        self._flush()
        order = "little" if self._message.little_endian else "big"
        value = kind.value.to_bytes(kind.scalar.size, order, signed=kind.scalar.low < 0)
        self._out.line(f"{variable} = bytes(payload[at : at + {kind.scalar.size}]) == {value!r}")
        self._out.line(f"if {variable}:")
        self._out.line(f"    at += {kind.scalar.size}")

    # Arrays and structs

    def _array(self, field: Field, kind: Array, variable: str, *, is_declared: bool) -> None:
        if isinstance(kind.count, Rest):
            self._flush()
            self._rest_of_elements(field, kind, variable)
            return
        count = self._extent(kind.count, f"{variable}_count")
        if field.nullable is None:
            self._elements(field, kind, variable, count, is_declared=is_declared)
            return
        if is_declared:
            self._out.line(f"{variable} = None")
        else:
            self._declare(field, variable, is_declared=is_declared)
        with self._out.block(f"if {self._is_there(field, kind.count, count)}:"):
            self._elements(field, kind, variable, count, is_declared=True)

    def _elements(self, field: Field, kind: Array, variable: str, count: str, *, is_declared: bool) -> None:
        element = kind.element
        codes = wire_size.fixed_format(element) if isinstance(element, Struct) else None
        if isinstance(element, Scalar) or codes:
            size = wire_size.of_element(element)
            self._out.line(f"end = at + {count} * {size}" if size > 1 else f"end = at + {count}")
            self._check_end(field)
            self._fixed_elements(element, codes, variable, "payload[at:end]", count)
            self._out.line("at = end")
            return
        least = wire_size.of_element(element)
        needed = f"{count} * {least}" if least > 1 else count
        self._out.line(f"if {needed} > size - at:")
        self._out.line(
            f'    raise Truncated("{self._message.root.name} ends in {self._struct.name}.{field.name}")'
        )
        self._owner.uses.add("Truncated")
        annotation = "" if is_declared else f": list[{python_types.of_element(element)}]"
        self._out.line(f"{variable}{annotation} = []")
        with self._out.block(f"for _ in range({count}):"):
            self._element(field, element, variable)

    def _fixed_elements(
        self, element: object, codes: str | None, variable: str, part: str, count: str
    ) -> None:
        if isinstance(element, Struct) and codes:
            each = self._formats.name("each", codes)
            self._out.line(f"{variable} = list(starmap({element.name}, {each}({part})))")
            self._owner.uses.add("starmap")
            return
        assert isinstance(element, Scalar)
        self._out.line(
            f'{variable} = list(unpack_from(f"{self._formats.order}{{{count}}}{element.code}", payload, at))'
        )
        self._owner.uses.add("unpack_from")

    def _rest_of_elements(self, field: Field, kind: Array, variable: str) -> None:
        element = kind.element
        codes = wire_size.fixed_format(element) if isinstance(element, Struct) else None
        if isinstance(element, Scalar) or codes:
            size = wire_size.of_element(element)
            count = self._owner.temporary(f"{variable}_count")
            self._out.line(f"{count}, left = divmod(size - at, {size})")
            self._out.line("if left:")
            self._out.line(
                f'    raise Truncated("{self._message.root.name} ends in {self._struct.name}.{field.name}")'
            )
            self._owner.uses.add("Truncated")
            self._fixed_elements(element, codes, variable, "payload[at:]", count)
            self._out.line("at = size")
            return
        self._out.line(f"{variable}: list[{python_types.of_element(element)}] = []")
        with self._out.block("while at < size:"):
            self._element(field, element, variable)

    def _element(self, field: Field, element: object, variable: str) -> None:
        """One element, appended to the list."""
        if isinstance(element, Struct):
            body = _StructBody(self._owner, element, snake_case(element.name))
            body.emit()
            self._out.line(f"{variable}.append({body.construct(element.name)})")
            return
        item = self._owner.temporary(f"{variable}_item")
        if isinstance(element, Text):
            length = self._extent(element.length, f"{item}_length")
            self._sized_body(
                field, length, [f'{variable}.append(str(payload[at:end], "utf-8", "surrogateescape"))']
            )
        else:
            self._varint(item)
            self._out.line(f"{variable}.append({item})")

    def _nested(self, struct: Struct, variable: str) -> None:
        self._flush()
        body = _StructBody(self._owner, struct, variable)
        body.emit()
        self._out.line(f"{variable} = {body.construct(struct.name)}")


def unsupported(message: Message) -> str:
    """The exception for a version that the message doesn't have."""
    name, versions = message.root.name, message.versions
    return f'UnsupportedVersion(f"{name} has no version {{version}}; known: {versions}")'
