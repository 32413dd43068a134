"""Writes a message's encoder, which collects small values in a bytearray, and returns payloads uncopied."""

from itertools import groupby
from typing import Final

from tank_compiler.emit import python_types
from tank_compiler.emit.decode import MAX_TEXT, null_of, unsupported
from tank_compiler.emit.writer import StructFormats, Writer
from tank_compiler.schema.names import Locals, snake_case
from tank_compiler.schema.schema import (
    FLOAT32,
    UUID,
    Array,
    Bytes,
    Compact,
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

UTF8: Final = '"utf-8", "surrogateescape"'


class LengthWriter:
    """Writes the statements that write lengths, and the values behind them, of one object."""

    def __init__(self, body: "StructWriter") -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out

    def varint(self, value: str) -> None:
        """Writes a varint of this value."""
        self._body.flush()
        self._out.line(f"{self._owner.head} += encode_varint({value})")
        self._owner.uses.add("encode_varint")

    def extent(self, extent: Extent, field: Field, length: str) -> None:
        """Writes a length or count, or checks the field that holds it."""
        if isinstance(extent, Scalar):
            self._body.pending.append((extent.code, length))
        elif isinstance(extent, Varint):
            self.varint(length)
        elif isinstance(extent, Compact):
            self._compact(field, f"{length} + 1")
        elif isinstance(extent, FromField):
            stated = self._owner.value(extent.field)
            self._out.line(f"if {length} != {stated}:")
            self._out.line(f'    raise wrong_size("{self._body.place(field)}", {length}, {stated})')
            self._owner.uses.add("wrong_size")

    def _compact(self, field: Field, value: str) -> None:
        """Writes a varint that nearly always has one byte, without a call, which would cost twice as much."""
        self._body.flush()
        name, head = self._owner.locals.take(f"{field.python_name}_size"), self._owner.head
        self._out.line(f"{name} = {value}")
        self._out.line(f"if {name} < 128:")
        self._out.line(f"    {head}.append({name})")
        self._out.line("else:")
        self._out.line(f"    {head} += encode_varint({name})")
        self._owner.uses.add("encode_varint")

    def nullable(self, field: Field, extent: Extent, variable: str, length: str) -> None:
        """Writes the length of a value that can be null."""
        assert field.nullable is not None
        if isinstance(extent, Compact):
            self._compact(field, f"0 if {variable} is None else {length} + 1")
            return
        assert isinstance(extent, Scalar)
        present = field.versions or self._body.struct.versions
        name = self._body.place(field)
        if field.nullable != present:
            test = python_types.version_test(field.nullable, present)
            self._out.line(f"if {variable} is None and not ({test}):")
            self._out.line(f'    raise wrong_null("{name}", version)')
            self._owner.uses.add("wrong_null")
        if extent.low == 0:
            self._out.line(f"if {variable} is not None and {length} == {extent.high}:")
            self._out.line(f'    raise wrong_size("{name}", {extent.high}, {extent.high - 1})')
            self._owner.uses.add("wrong_size")
        self._body.pending.append((extent.code, f"{null_of(extent)} if {variable} is None else {length}"))
        self._body.flush()

    def text(self, field: Field, kind: Text, value: str) -> None:
        """Writes a text of the field."""
        name = self._owner.locals.take(f"{field.python_name}_utf8")
        head = self._owner.head
        if field.nullable is None:
            self._out.line(f"{name} = {value}.encode({UTF8})")
            self.text_length(field, kind, name)
            self._out.line(f"{head} += {name}")
            return
        self._out.line(f"{name} = None if {value} is None else {value}.encode({UTF8})")
        if isinstance(kind.length, Compact):
            self._check_text(field, name, f"{name} is not None and ")
        self.nullable(field, kind.length, name, f"len({name})")
        self._out.line(f"if {name} is not None:")
        self._out.line(f"    {head} += {name}")

    def text_length(self, field: Field, kind: Text, name: str) -> None:
        """Writes the length of encoded text that is not null."""
        if isinstance(kind.length, Compact):
            self._check_text(field, name, "")
        self.extent(kind.length, field, f"len({name})")
        self._body.flush()

    def _check_text(self, field: Field, name: str, guard: str) -> None:
        """Raises for a text that is longer than readers of Kafka's texts accept, though a compact length
        could say more."""
        self._out.line(f"if {guard}len({name}) > {MAX_TEXT}:")
        self._out.line(f'    raise wrong_size("{self._body.place(field)}", len({name}), {MAX_TEXT})')
        self._owner.uses.add("wrong_size")

    def bytes(self, field: Field, kind: Bytes, value: str) -> None:
        """Writes bytes of the field: as a piece of their own without a copy, unless they belong to a tag."""
        if isinstance(kind.length, Fixed):
            self._out.line(f"if len({value}) != {kind.length.size}:")
            name = self._body.place(field)
            self._out.line(f'    raise wrong_size("{name}", len({value}), {kind.length.size})')
            self._body.pending.append((f"{kind.length.size}s", value))
            self._owner.uses.add("wrong_size")
            return
        name = self._owner.locals.take(field.python_name)
        self._out.line(f"{name} = {value}")
        if kind.keep_prefix:
            width = kind.length.size if isinstance(kind.length, Scalar) else 0
            order = "little" if self._body.message.little_endian else "big"
            self._out.line(f'check_prefix({name}, {width}, "{order}", "{self._body.place(field)}")')
            self._owner.uses.add("check_prefix")
        elif field.nullable is not None:
            self.nullable(field, kind.length, name, f"len({name})")
        else:
            self.extent(kind.length, field, f"len({name})")
        self._body.flush()
        guard = f"{name} is not None and len({name})" if field.nullable else f"len({name})"
        with self._out.block(f"if {guard}:"):
            if self._owner.head != "head":
                self._out.line(f"{self._owner.head} += {name}")
                return
            self._out.line("out.append(head)")
            self._out.line(f"out.append({name})")
            self._out.line("head = bytearray()")


class ArrayWriter:
    """Writes the statements that write one list of an object."""

    def __init__(self, body: "StructWriter", field: Field, kind: Array) -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out
        self._field = field
        self._kind = kind

    def emit(self, value: str) -> None:
        """Writes the statements. `value`: the expression of the list."""
        field, kind = self._field, self._kind
        if field.nullable is not None:
            name = self._owner.locals.take(field.python_name)
            self._out.line(f"{name} = {value}")
            self._body.lengths.nullable(field, kind.count, name, f"len({name})")
            with self._out.block(f"if {name} is not None:"):
                self._elements(name)
            return
        if not isinstance(kind.count, Rest):
            self._body.lengths.extent(kind.count, field, f"len({value})")
        self._body.flush()
        self._elements(value)

    def _elements(self, value: str) -> None:
        element, head = self._kind.element, self._owner.head
        if isinstance(element, Scalar) and element is not UUID:
            order = self._body.formats.order
            self._out.line(f'{head} += pack(f"{order}{{len({value})}}{element.code}", *{value})')
            self._owner.uses.add("pack")
            return
        wanted = (
            snake_case(element.name) if isinstance(element, Struct) else f"{self._field.python_name}_item"
        )
        item = self._owner.locals.take(wanted)
        with self._out.block(f"for {item} in {value}:"):
            if isinstance(element, Struct):
                self._body.inner(element, item).emit()
            elif isinstance(element, Text):
                utf8 = self._owner.locals.take(f"{item}_utf8")
                self._out.line(f"{utf8} = {item}.encode({UTF8})")
                self._body.lengths.text_length(self._field, element, utf8)
                self._out.line(f"{head} += {utf8}")
            elif element is UUID:
                self._out.line(f"if len({item}) != {UUID.size}:")
                place = self._body.place(self._field)
                self._out.line(f'    raise wrong_size("{place}", len({item}), {UUID.size})')
                self._out.line(f"{head} += {item}")
                self._owner.uses.add("wrong_size")
            else:
                self._body.lengths.varint(item)


class TagWriter:
    """Writes the statements that write a struct's tagged fields, except those with their default values."""

    def __init__(self, body: "StructWriter") -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out
        self._unknown = f"{body.subject}.unknown_tags"

    def emit(self) -> None:
        """Writes the statements. In a layout without tagged fields they raise when there are unknown ones,
        which would be lost."""
        body = self._body
        body.flush()
        if not body.struct.has_tags:
            self._out.line(f"if {self._unknown}:")
            self._out.line(f'    raise no_place("{body.struct.name}.unknown_tags", version)')
            self._owner.uses.add("no_place")
            return
        known = sorted(
            (field for field in body.struct.fields if field.tag is not None), key=lambda field: field.tag or 0
        )
        self._owner.uses.add("write_tags")
        if not known:
            written = f'write_tags([], {self._unknown}) if {self._unknown} else b"\\x00"'
            self._out.line(f"{self._owner.head} += {written}")
            return
        found = self._owner.locals.take("tags")
        self._out.line(f"{found}: list[tuple[int, bytes | bytearray]] = []")
        for field in known:
            self._tag(field, found)
        written = f"write_tags({found}, {self._unknown}) if {found} or {self._unknown}"
        self._out.line(f'{self._owner.head} += {written} else b"\\x00"')

    def _tag(self, field: Field, found: str) -> None:
        head = self._owner.head
        with self._out.block(f"if {python_types.differs(field, self._owner.value(field))}:"):
            self._owner.head = self._owner.locals.take(f"{field.python_name}_tag")
            self._out.line(f"{self._owner.head} = bytearray()")
            self._body.field(field)
            self._body.flush()
            self._out.line(f"{found}.append(({field.tag}, {self._owner.head}))")
        self._owner.head = head


class EncodeEmitter:
    """Writes the body of `encode`."""

    def __init__(self, message: Message, formats: StructFormats, writer: Writer) -> None:
        self.message = message
        self.formats = formats
        self.out = writer
        self.locals = Locals()
        self.owners: dict[int, str] = {}
        """The variable of the object that holds each field, by the field's identity."""
        self.uses: set[str] = set()
        self.head = "head"
        """The variable of the bytearray that is being filled: each tagged field has its own."""
        self.unmarked: list[tuple[str, str, bytes]] = []
        """For each marker: the field's name, the variable with the places where the marker was left out, and
        its bytes."""

    def emit(self) -> None:
        root = self.message.root
        before = len(self.out.lines)
        self.out.line("out: list[Buffer] = []")
        self.out.line("head = bytearray()")
        with self.out.block("try:"):
            if self.message.version_field is not None:
                self._version()
            inside = len(self.out.lines)
            StructWriter(self, root, "self").emit()
            for name, places, mark in self.unmarked:
                self.out.insert(inside, f"{places}: list[int] = []")
                self.out.line(f'check_unmarked("{name}", {mark!r}, {places}, [*out, head])')
                self.uses.add("check_unmarked")
        if len(self.out.lines) == inside:
            del self.out.lines[before:]
            self.out.line("return []")
            return
        # The struct module raises OverflowError only for a number that doesn't fit a float32.
        overflow = "OverflowError, " if self._has_float32() else ""
        self.out.line(f"except ({overflow}StructError, UnicodeEncodeError) as error:")
        self.out.line("    raise unencodable(self, error) from None")
        self.out.line("if head:")
        self.out.line("    out.append(head)")
        self.out.line("return out")
        self.uses |= {"StructError", "unencodable", "Buffer"}

    def _has_float32(self) -> bool:
        types = [field.type for struct in self.message.structs for field in struct.fields]
        return any((one.element if isinstance(one, Array) else one) is FLOAT32 for one in types)

    def _version(self) -> None:
        field, versions = self.message.version_field, self.message.versions
        assert field is not None
        self.out.line(f"version = self.{field.python_name}")
        self.out.line(f"if not {versions.low} <= version <= {versions.high}:")
        self.out.line(f"    raise {unsupported(self.message)}")
        self.uses.add("UnsupportedVersion")

    def value(self, field: Field) -> str:
        return f"{self.owners[id(field)]}.{field.python_name}"


class StructWriter:
    """The statements that write the fields of one object, whose variable is `subject`."""

    def __init__(self, owner: EncodeEmitter, struct: Struct, subject: str) -> None:
        self.owner = owner
        self.message = owner.message
        self.formats = owner.formats
        self.out = owner.out
        self.struct = struct
        self.subject = subject
        self.pending: list[tuple[str, str]] = []
        self._measuring: list[tuple[Field, str, Scalar]] = []
        self.lengths = LengthWriter(self)

    def emit(self) -> None:
        value = self.owner.value
        for field in self.struct.fields:
            self.owner.owners[id(field)] = self.subject
        in_place = [field for field in self.struct.fields if field.tag is None]
        pairs = [(field, python_types.presence(field, self.struct, value)) for field in in_place]
        for presence, group in groupby(pairs, key=lambda pair: pair[1]):
            fields = [field for field, _ in group]
            if not presence:
                self._fields(fields)
                continue
            self.flush()
            with self.out.block(f"if {presence}:"):
                self._fields(fields)
                self.flush()
            for field in fields:
                if field.versions is not None and field.when is None and not field.is_ignorable:
                    kept = python_types.version_test(field.versions, self.struct.versions)
                    self._refuse_loss(field, f"not ({kept}) and ")
        if self.struct.keeps_tags:
            TagWriter(self).emit()
        self.flush()

    def _refuse_loss(self, field: Field, without: str = "") -> None:
        """Raises for a value that this version has no place for: it must not be lost silently."""
        test = python_types.differs(field, self.owner.value(field))
        if without and " or " in test:
            test = f"({test})"
        with self.out.block(f"if {without}{test}:"):
            self.out.line(f'raise no_place("{self.place(field)}", version)')
        self.owner.uses.add("no_place")

    def place(self, field: Field) -> str:
        """A field's name in error messages."""
        return f"{self.struct.name}.{field.name}"

    def _fields(self, fields: list[Field]) -> None:
        for field in fields:
            self.field(field)
            if self._measuring and self._measuring[-1][0] is field:
                self._fill_measured()

    def field(self, field: Field) -> None:
        """Writes the statements that write one field."""
        kind = field.type
        value = self.owner.value(field)
        if field.is_absent:
            if not field.is_ignorable:
                self._refuse_loss(field)
            return
        if field.is_optional and field.nullable is None:
            self._refuse_null(field, value)
        if field.measures:
            self._begin_measuring(field)
        elif isinstance(kind, Scalar):
            self._scalar(field, kind, value)
        elif isinstance(kind, Varint):
            self.lengths.varint(value)
        elif isinstance(kind, Text):
            self.lengths.text(field, kind, value)
        elif isinstance(kind, Marker):
            self._marker(field, kind, value)
        elif isinstance(kind, Bytes):
            self.lengths.bytes(field, kind, value)
        elif isinstance(kind, Array):
            ArrayWriter(self, field, kind).emit(value)
        else:
            self._nested(field, kind, value)

    def _refuse_null(self, field: Field, value: str) -> None:
        """Raises for null in a layout that has no form for it."""
        self.out.line(f"if {value} is None:")
        self.out.line(f'    raise wrong_null("{self.place(field)}", version)')
        self.owner.uses.add("wrong_null")

    def _scalar(self, field: Field, kind: Scalar, value: str) -> None:
        if kind is UUID:
            self.out.line(f"if len({value}) != {kind.size}:")
            self.out.line(f'    raise wrong_size("{self.place(field)}", len({value}), {kind.size})')
            self.owner.uses.add("wrong_size")
        self.pending.append((kind.code, value))

    def _nested(self, field: Field, kind: Struct, value: str) -> None:
        self.flush()
        name = self.owner.locals.take(field.python_name)
        self.out.line(f"{name} = {value}")
        if field.nullable is None:
            StructWriter(self.owner, kind, name).emit()
            return
        inner = StructWriter(self.owner, kind, name)
        inner.pending.append(("B", "1"))
        if field.tag is not None and field.default is None:
            inner.emit()  # null is the default, which is not written
            return
        # Tagged structs say null with 0, others with -1, as Kafka does.
        self.out.line(f"if {name} is None:")
        self.out.line(f"    {self.owner.head} += {bytes([0 if field.tag is not None else 255])!r}")
        with self.out.block("else:"):
            inner.emit()

    # Fixed fields

    def flush(self) -> None:
        if not self.pending:
            return
        codes = "".join(code for code, _ in self.pending)
        arguments = ", ".join(value for _, value in self.pending)
        self.out.line(f"{self.owner.head} += {self.formats.name('write', codes)}({arguments})")
        self.pending = []

    def _begin_measuring(self, field: Field) -> None:
        assert isinstance(field.type, Scalar)
        self.flush()
        at = self.owner.locals.take(f"{field.python_name}_at")
        self.out.line(f"{at} = len(head)")
        self.pending.append((field.type.code, "0"))
        self._measuring.append((field.measures[-1], at, field.type))

    def _fill_measured(self) -> None:
        self.flush()
        _, at, scalar = self._measuring.pop()
        patch = self.formats.name("patch", scalar.code)
        self.out.line(f"{patch}(head, {at}, len(head) - {at} - {scalar.size})")

    def _marker(self, field: Field, kind: Marker, value: str) -> None:
        self.flush()
        written = kind.wire_form(little_endian=self.message.little_endian)
        self.out.line(f"if {value}:")
        self.out.line(f"    head += {written!r}")
        places = self.owner.locals.take(f"without_{field.python_name}")
        self.out.line("else:")
        self.out.line(f"    {places}.append(sum(map(len, out)) + len(head))")
        self.owner.unmarked.append((self.place(field), places, written))

    def inner(self, struct: Struct, subject: str) -> "StructWriter":
        """The writer of a struct inside this one."""
        return StructWriter(self.owner, struct, subject)
