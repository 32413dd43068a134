"""Writes a message's decoder: one function, inner structs as loops, neighbouring fixed fields in one call."""

import re
from itertools import groupby
from typing import Final

from tank_compiler.emit import python_types
from tank_compiler.emit.writer import StructFormats, Writer
from tank_compiler.schema import wire_size
from tank_compiler.schema.names import Locals, snake_case
from tank_compiler.schema.schema import (
    INTEGERS,
    UUID,
    Array,
    Bytes,
    Compact,
    Element,
    Extent,
    Field,
    Fixed,
    FromField,
    Kind,
    Marker,
    Message,
    Rest,
    Scalar,
    Struct,
    Text,
    Varint,
)

TEXT: Final = 'payload[at:end].tobytes().decode("utf-8", "surrogateescape")'
"""The expression that reads text; faster than str(payload[at:end], ...), which uses the buffer protocol."""

MAX_TEXT: Final = INTEGERS["int16"].high
"""The longest text in Kafka's messages, even where a length could say more."""


class LengthReader:
    """Writes the statements that read lengths, and the values behind them, of one struct."""

    def __init__(self, body: "StructBody") -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out

    def varint(self, variable: str, start: str = "", *, is_short: bool = False) -> None:
        """Reads a varint; its first byte is read together with the fixed fields before it.

        `start`: a variable for the varint's offset, or "". `is_short`: it nearly always has one byte.
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
        """Reads a length or count into `variable`, and returns the expression of its value. `start`: a
        variable for its offset, or "".

        A compact one's variable holds the length + 1, or 0 for null.
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
        """Raises, when `test` is true, because the payload ends within the field."""
        self._out.line(f"if {test}:")
        self._out.line(
            f'    raise Truncated("{self._body.message.root.name} ends in {self._body.place(field)}")'
        )
        self._owner.uses.add("Truncated")

    def refuse_length(self, test: str, field: Field, length: str, most: int | None = None) -> None:
        """Raises, when `test` is true, because the payload ends within the field, or the field's length is
        below zero or above `most`."""
        self._out.line(f"if {test}:")
        name, place = self._body.message.root.name, self._body.place(field)
        limit = "" if most is None else f", {most}"
        self._out.line(f'    raise wrong_length("{name}", "{place}", {length}{limit})')
        self._owner.uses.add("wrong_length")

    def check_end(self, field: Field, extent: Extent, length: str) -> None:
        """Computes `end`, where the value ends by its `length`; raises when that is impossible."""
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
        """The expression that tests that the value is not null."""
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
        """Reads a value of `length` bytes at `at` by the lines of `body`, and sets `at` behind the value."""
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
        """Reads a text into the field's variable."""
        variable = self._owner.value(field)
        length = self.extent(kind.length, f"{variable}_length")
        body = [f"{variable} = {TEXT}"]
        self._sized_or_null(field, kind.length, length, body, is_declared=is_declared)

    def bytes(self, field: Field, kind: Bytes, *, is_declared: bool) -> None:
        """Reads a slice of the payload into the field's variable."""
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
    """Whether the form on the wire can hold a length below zero."""
    return isinstance(extent, Compact) or (isinstance(extent, Scalar) and extent.low < 0)


def null_of(extent: Scalar) -> int:
    """The length that means null: all its bits are set."""
    return -1 if extent.low < 0 else extent.high


class ArrayReader:
    """Writes the statements that read one list field of a struct."""

    def __init__(self, body: "StructBody", field: Field, kind: Array) -> None:
        self._body = body
        self._lengths = body.lengths
        self._out = body.out
        self._field = field
        self._kind = kind
        self._variable = body.owner.value(field)
        self._codes = wire_size.fixed_format(kind.element) if isinstance(kind.element, Struct) else None

    @property
    def _is_fixed(self) -> bool:
        return isinstance(self._kind.element, Scalar) or self._codes is not None

    def emit(self, *, is_declared: bool) -> None:
        """`is_declared`: the variable has its annotation already."""
        count = self._kind.count
        if isinstance(count, Rest):
            self._body.flush()
            self._rest(is_declared=is_declared)
            return
        expression = self._lengths.extent(count, f"{self._variable}_count")
        if self._field.nullable is None:
            self._counted(expression, is_declared=is_declared)
            return
        self._body.begin_with_null(self._field, is_declared=is_declared)
        with self._out.block(f"if {self._lengths.is_there(self._field, count, expression)}:"):
            self._counted(expression, is_declared=True)

    def _counted(self, count: str, *, is_declared: bool) -> None:
        least = wire_size.of_element(self._kind.element)
        if isinstance(self._kind.count, Compact):
            self._out.line(f"{count} -= 1")
        size = f"{count} * {least}" if least > 1 else count
        if self._is_fixed:
            self._out.line(f"end = at + {size}")
            self._refuse(count, "end > size", "not at <= end <= size")
            self._bound(count)
            self._fixed("payload[at:end]", count)
            self._out.line("at = end")
            return
        self._refuse(count, f"{size} > size - at", f"not 0 <= {size} <= size - at")
        self._bound(count)
        self._begin_list(is_declared=is_declared)
        is_shared = isinstance(self._kind.count, FromField)
        # A while loop costs less than a range for the few elements that messages have.
        with self._out.block(f"for _ in range({count}):" if is_shared else f"while {count}:"):
            if not is_shared:
                self._out.line(f"{count} -= 1")
            self._element(self._kind.element)

    def _bound(self, count: str) -> None:
        """Raises, before an element is read, when all lists of a client's request so far have too many."""
        room = self._body.owner.room
        if not room:
            return
        self._out.line(f"{room} -= {count}")
        with self._out.block(f"if {room} < 0:"):
            self._out.line(f'raise too_many_entries("{self._body.message.root.name}")')
        self._body.owner.uses |= {"MOST_ENTRIES", "too_many_entries"}

    def _refuse(self, count: str, test: str, signed_test: str) -> None:
        """Raises for more elements than the payload has place for, or for a count below zero."""
        extent = self._kind.count
        if not may_be_negative(extent):
            self._lengths.refuse_when(test, self._field)
        elif isinstance(extent, Compact) and self._field.nullable is not None:
            self._lengths.refuse_length(test, self._field, count)
        else:
            self._lengths.refuse_length(signed_test, self._field, count)

    def _rest(self, *, is_declared: bool) -> None:
        if self._is_fixed:
            least = wire_size.of_element(self._kind.element)
            if least > 1:
                self._lengths.refuse_when(f"(size - at) % {least}", self._field)
            self._fixed("payload[at:]", f"(size - at) // {least}" if least > 1 else "size - at")
            self._out.line("at = size")
            return
        self._begin_list(is_declared=is_declared)
        with self._out.block("while at < size:"):
            self._element(self._kind.element)

    def _begin_list(self, *, is_declared: bool) -> None:
        annotation = "" if is_declared else f": list[{python_types.of_element(self._kind.element)}]"
        self._out.line(f"{self._variable}{annotation} = []")

    def _fixed(self, part: str, count: str) -> None:
        """Reads all elements in one call, because they have the same fixed size."""
        element, formats = self._kind.element, self._body.formats
        if isinstance(element, Struct) and self._codes:
            each = formats.name("each", self._codes)
            self._out.line(f"{self._variable} = list(starmap({element.name}, {each}({part})))")
            self._body.owner.uses.add("starmap")
            return
        assert isinstance(element, Scalar)
        if element is UUID:
            each = formats.name("each", UUID.code)
            self._out.line(f"{self._variable} = [one for (one,) in {each}({part})]")
            return
        wanted = f'f"{formats.order}{{{count}}}{element.code}"'
        self._out.line(f"{self._variable} = list(unpack_from({wanted}, payload, at))")
        self._body.owner.uses.add("unpack_from")

    def _element(self, element: Element) -> None:
        """Reads one element and appends it to the list."""
        if isinstance(element, Struct):
            inner = self._body.inner(element, snake_case(element.name))
            inner.emit()
            self._out.line(f"{self._variable}.append({inner.construct(element.name)})")
            return
        item = self._body.owner.temporary(f"{self._variable}_item")
        if isinstance(element, Text):
            length = self._lengths.extent(element.length, f"{item}_length")
            self._lengths.sized(self._field, element.length, length, [f"{self._variable}.append({TEXT})"])
        else:
            self._lengths.varint(item)
            self._out.line(f"{self._variable}.append({item})")


class TagReader:
    """Writes the statements that read a struct's tagged fields, known and unknown ones."""

    def __init__(self, body: "StructBody") -> None:
        self._body = body
        self._out = body.out
        self._known = [field for field in body.struct.fields if field.tag is not None]

    def emit(self) -> None:
        """Writes the statements; `StructBody.unknown` is then the variable of the unknown tags."""
        body = self._body
        prefix = f"{body.prefix}_" if body.prefix else ""
        for field in self._known:
            body.owner.declare(field, body.prefix)
        count = body.owner.temporary(f"{prefix}tags")
        body.lengths.varint(count, is_short=True)
        body.unknown = body.owner.temporary(f"{prefix}unknown")
        for field in self._known:
            body.declare_default(field)
        self._out.line(f"{body.unknown}: tuple[UnknownTag, ...] = ()")
        body.owner.uses |= {"UnknownTag"}
        with self._out.block(f"if {count}:"):
            if self._known:
                self._loop(count, prefix)
            else:
                self._out.line(f"{body.unknown}, at = read_unknown(payload, at, {count}, keep_unknown)")
                body.owner.uses.add("read_unknown")

    def _loop(self, count: str, prefix: str) -> None:
        body, owner = self._body, self._body.owner
        kept = owner.temporary(f"{prefix}kept")
        tag, end = owner.temporary(f"{prefix}tag"), owner.temporary(f"{prefix}tag_end")
        self._out.line(f"{tag} = -1")
        self._out.line(f"{kept}: list[UnknownTag] = []")
        with self._out.block(f"while {count}:"):
            self._out.line(f"{count} -= 1")
            self._out.line(f"{tag}, at, {end} = read_tag(payload, at, {tag})")
            for at, field in enumerate(sorted(self._known, key=lambda field: field.tag or 0)):
                with self._out.block(f"{'elif' if at else 'if'} {tag} == {field.tag}:"):
                    body.field(field, is_declared=True)
                    body.flush()
            with self._out.block("else:"):
                self._out.line("if keep_unknown:")
                self._out.line(f"    {kept}.append(UnknownTag({tag}, payload[at:{end}].tobytes()))")
                self._out.line(f"at = {end}")
            self._out.line(f"if at != {end}:")
            self._out.line(f'    raise wrong_tag("{body.struct.name}", {tag}, at - {end})')
        self._out.line(f"{body.unknown} = tuple({kept})")
        owner.uses |= {"read_tag", "wrong_tag"}


_SIZE: Final = re.compile(r"\bsize\b")


class DecodeEmitter:
    """Writes the body of `decode`, or of `read`, which begins at an offset.

    Both methods have the whole body, because a call between them would cost a tenth of a small message's
    time.
    """

    def __init__(self, message: Message, formats: StructFormats, writer: Writer, *, is_read: bool) -> None:
        self._is_read = is_read
        self.message = message
        self.formats = formats
        self.out = writer
        self.locals = Locals()
        self.values: dict[int, str] = {}
        """The variable of each field, by identity."""
        self.uses: set[str] = set()
        """The names that the function needs as imports."""
        self.room = self.locals.take("room") if bounds_entries(message) else ""
        """The variable of the number of list elements that the message may still have; "": any number."""

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
        if "MOST_ENTRIES" in self.uses:
            self.out.insert(first + (0 if self._is_read else 2), f"{self.room} = MOST_ENTRIES")
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
        """For each field that measures others: the last measured field, and the variables of the end and of
        the stated length."""
        self.unknown = ""
        """The variable of the unknown tags."""
        self.lengths = LengthReader(self)

    def construct(self, name: str) -> str:
        values = [self._argument(field) for field in self.struct.fields]
        if self.struct.keeps_tags:
            values.append(self.unknown or "()")
        return f"{name}({', '.join(values)})"

    def _argument(self, field: Field) -> str:
        """The constructor's argument for a field."""
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
        """Sets the variable of a field that may be absent to its default."""
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
        """Writes the statements of one field. `is_declared`: its variable has its annotation already."""
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
        """Reads the byte that says whether a struct is null, and returns its variable."""
        name = self.owner.temporary(f"{variable}_is_there")
        if field.tag is not None:
            self.lengths.varint(name)
        else:
            self.pending.append((INTEGERS["int8"], name))
            self.flush()
        return name

    def begin_with_null(self, field: Field, *, is_declared: bool) -> None:
        """Sets the variable of a field that may be null to None."""
        annotation = "" if is_declared else f": {python_types.variable(field)[0]}"
        self.out.line(f"{self.owner.value(field)}{annotation} = None")
        self.note_types(field)

    def place(self, field: Field) -> str:
        """A field's name in error messages."""
        return f"{self.struct.name}.{field.name}"


def bounds_entries(message: Message) -> bool:
    """Whether the decoder bounds the elements of all lists together: in requests of Kafka's clients, whose
    empty elements take up to 50 times as much memory as on the wire."""
    if message.kind is not Kind.REQUEST or not message.has_api_key:
        return False
    return any(isinstance(field.type, Array) for struct in message.structs for field in struct.fields)


def unsupported(message: Message) -> str:
    """The expression of the exception for an unknown version of the message."""
    name, versions = message.root.name, message.versions
    return f'UnsupportedVersion(f"{name} has no version {{version}}; known: {versions}")'
