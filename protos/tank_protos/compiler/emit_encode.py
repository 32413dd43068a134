"""Writes a message's encoder: small things gathered in a bytearray, payloads handed on as they are."""

from itertools import groupby

from tank_protos.compiler import python_types
from tank_protos.compiler.emit_decode import unsupported
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

_UTF8 = '"utf-8", "surrogateescape"'


class EncodeEmitter:
    """The body of `encode`."""

    def __init__(self, message: Message, formats: Formats, writer: Writer) -> None:
        self._message = message
        self._formats = formats
        self._out = writer
        self._locals = Locals()
        self._owners: dict[int, str] = {}
        """The variable of the object that holds each field, by the field's identity."""
        self.uses: set[str] = set()

    def emit(self) -> None:
        root = self._message.root
        if not root.fields:
            self._out.line("return []")
            return
        self._out.line("out: list[Buffer] = []")
        self._out.line("head = bytearray()")
        with self._out.block("try:"):
            if self._message.version_field is not None:
                self._version()
            _StructBody(self, root, "self").emit()
        self._out.line("except (StructError, UnicodeEncodeError) as error:")
        self._out.line("    raise unencodable(self, error) from None")
        self._out.line("if head:")
        self._out.line("    out.append(head)")
        self._out.line("return out")
        self.uses |= {"StructError", "unencodable", "Buffer"}

    def _version(self) -> None:
        field, versions = self._message.version_field, self._message.versions
        assert field is not None
        self._out.line(f"version = self.{field.python_name}")
        self._out.line(f"if not {versions.low} <= version <= {versions.high}:")
        self._out.line(f"    raise {unsupported(self._message)}")
        self.uses.add("UnsupportedVersion")

    def value(self, field: Field) -> str:
        return f"{self._owners[id(field)]}.{field.python_name}"


class _StructBody:
    """The statements that write the fields of one object."""

    def __init__(self, owner: EncodeEmitter, struct: Struct, subject: str) -> None:
        self._owner = owner
        self._message = owner._message
        self._formats = owner._formats
        self._out = owner._out
        self._struct = struct
        self._subject = subject
        self._pending: list[tuple[str, str]] = []
        self._measuring: list[tuple[Field, str, Scalar]] = []

    def emit(self) -> None:
        value = self._owner.value
        for field in self._struct.fields:
            self._owner._owners[id(field)] = self._subject
        pairs = [(field, python_types.presence(field, self._struct, value)) for field in self._struct.fields]
        for presence, group in groupby(pairs, key=lambda pair: pair[1]):
            fields = [field for field, _ in group]
            if not presence:
                self._fields(fields)
                continue
            self._flush()
            with self._out.block(f"if {presence}:"):
                self._fields(fields)
                self._flush()
            for field in fields:
                self._refuse_loss(field)
        self._flush()

    def _refuse_loss(self, field: Field) -> None:
        """A value that this version has no place for must not vanish in silence."""
        if field.versions is None or field.when is not None:
            return
        kept = python_types.version_test(field.versions, self._struct.versions)
        value = self._owner.value(field)
        empty = isinstance(field.type, Array | Bytes) and not (field.nullable and field.default is None)
        test = value if empty else f"{value} != {python_types.default(field)}"
        if field.nullable and field.default is None:
            test = f"{value} is not None"
        with self._out.block(f"if not ({kept}) and {test}:"):
            self._out.line(f'raise no_place("{self._struct.name}.{field.name}", version)')
        self._owner.uses.add("no_place")

    def _fields(self, fields: list[Field]) -> None:
        for field in fields:
            self._field(field)
            if self._measuring and self._measuring[-1][0] is field:
                self._fill_measured()

    def _field(self, field: Field) -> None:
        kind = field.type
        value = self._owner.value(field)
        if field.measures:
            self._begin_measuring(field)
        elif isinstance(kind, Scalar):
            self._pending.append((kind.code, value))
        elif isinstance(kind, Varint):
            self._varint(value)
        elif isinstance(kind, Text):
            self._text(field, kind, value)
        elif isinstance(kind, Marker):
            self._marker(kind, value)
        elif isinstance(kind, Bytes):
            self._bytes(field, kind, value)
        elif isinstance(kind, Array):
            self._array(field, kind, value)
        else:
            self._flush()
            name = self._owner._locals.take(field.python_name)
            self._out.line(f"{name} = {value}")
            _StructBody(self._owner, kind, name).emit()

    # Fixed fields

    def _flush(self) -> None:
        if not self._pending:
            return
        codes = "".join(code for code, _ in self._pending)
        arguments = ", ".join(value for _, value in self._pending)
        self._out.line(f"head += {self._formats.name('write', codes)}({arguments})")
        self._pending = []

    def _begin_measuring(self, field: Field) -> None:
        assert isinstance(field.type, Scalar)
        self._flush()
        at = self._owner._locals.take(f"{field.python_name}_at")
        self._out.line(f"{at} = len(head)")
        self._pending.append((field.type.code, "0"))
        self._measuring.append((field.measures[-1], at, field.type))

    def _fill_measured(self) -> None:
        self._flush()
        _, at, scalar = self._measuring.pop()
        patch = self._formats.name("patch", scalar.code)
        self._out.line(f"{patch}(head, {at}, len(head) - {at} - {scalar.size})")

    # Fields behind a length

    def _varint(self, value: str) -> None:
        self._flush()
        self._out.line(f"head += encode_varint({value})")
        self._owner.uses.add("encode_varint")

    def _extent(self, extent: Extent, field: Field, length: str) -> None:
        """Writes a length or count, or checks the field that holds it."""
        if isinstance(extent, Scalar):
            self._pending.append((extent.code, length))
        elif isinstance(extent, Varint):
            self._varint(length)
        elif isinstance(extent, FromField):
            stated = self._owner.value(extent.field)
            self._out.line(f"if {length} != {stated}:")
            self._out.line(f'    raise wrong_size("{self._struct.name}.{field.name}", {length}, {stated})')
            self._owner.uses.add("wrong_size")

    def _nullable(self, field: Field, extent: Extent, variable: str, length: str) -> None:
        """Writes the length of a value that can be null."""
        assert field.nullable is not None
        assert isinstance(extent, Scalar)
        present = field.versions or self._struct.versions
        name = f"{self._struct.name}.{field.name}"
        if field.nullable != present:
            test = python_types.version_test(field.nullable, present)
            self._out.line(f"if {variable} is None and not ({test}):")
            self._out.line(f'    raise wrong_null("{name}", version)')
            self._owner.uses.add("wrong_null")
        self._out.line(f"if {variable} is not None and {length} == {extent.high}:")
        self._out.line(f'    raise wrong_size("{name}", {extent.high}, {extent.high - 1})')
        self._owner.uses.add("wrong_size")
        self._pending.append((extent.code, f"{extent.high} if {variable} is None else {length}"))
        self._flush()

    def _text(self, field: Field, kind: Text, value: str) -> None:
        name = self._owner._locals.take(f"{field.python_name}_utf8")
        if field.nullable is None:
            self._out.line(f"{name} = {value}.encode({_UTF8})")
            self._pending.append((kind.length.code, f"len({name})"))
            self._flush()
            self._out.line(f"head += {name}")
            return
        self._out.line(f"{name} = None if {value} is None else {value}.encode({_UTF8})")
        self._nullable(field, kind.length, name, f"len({name})")
        self._out.line(f"if {name} is not None:")
        self._out.line(f"    head += {name}")

    def _bytes(self, field: Field, kind: Bytes, value: str) -> None:
        if isinstance(kind.length, Fixed):
            self._out.line(f"if len({value}) != {kind.length.size}:")
            name = f"{self._struct.name}.{field.name}"
            self._out.line(f'    raise wrong_size("{name}", len({value}), {kind.length.size})')
            self._pending.append((f"{kind.length.size}s", value))
            self._owner.uses.add("wrong_size")
            return
        name = self._owner._locals.take(field.python_name)
        self._out.line(f"{name} = {value}")
        if kind.keep_prefix:
            width = kind.length.size if isinstance(kind.length, Scalar) else 0
            order = "little" if self._message.little_endian else "big"
            self._out.line(f'check_prefix({name}, {width}, "{order}", "{self._struct.name}.{field.name}")')
            self._owner.uses.add("check_prefix")
        elif field.nullable is not None:
            self._nullable(field, kind.length, name, f"len({name})")
        else:
            self._extent(kind.length, field, f"len({name})")
        self._flush()
        guard = f"{name} is not None and len({name})" if field.nullable else f"len({name})"
        with self._out.block(f"if {guard}:"):
            self._out.line("out.append(head)")
            self._out.line(f"out.append({name})")
            self._out.line("head = bytearray()")

    def _marker(self, kind: Marker, value: str) -> None:
        self._flush()
        written = kind.wire_form(little_endian=self._message.little_endian)
        self._out.line(f"if {value}:")
        self._out.line(f"    head += {written!r}")

    # Arrays

    def _array(self, field: Field, kind: Array, value: str) -> None:
        if field.nullable is not None:
            name = self._owner._locals.take(field.python_name)
            self._out.line(f"{name} = {value}")
            self._nullable(field, kind.count, name, f"len({name})")
            with self._out.block(f"if {name} is not None:"):
                self._elements(field, kind, name)
            return
        if not isinstance(kind.count, Rest):
            self._extent(kind.count, field, f"len({value})")
        self._flush()
        self._elements(field, kind, value)

    def _elements(self, field: Field, kind: Array, value: str) -> None:
        element = kind.element
        if isinstance(element, Scalar):
            self._out.line(f'head += pack(f"{self._formats.order}{{len({value})}}{element.code}", *{value})')
            self._owner.uses.add("pack")
            return
        wanted = snake_case(element.name) if isinstance(element, Struct) else f"{field.python_name}_item"
        item = self._owner._locals.take(wanted)
        with self._out.block(f"for {item} in {value}:"):
            if isinstance(element, Struct):
                _StructBody(self._owner, element, item).emit()
            elif isinstance(element, Text):
                utf8 = self._owner._locals.take(f"{item}_utf8")
                self._out.line(f"{utf8} = {item}.encode({_UTF8})")
                self._pending.append((element.length.code, f"len({utf8})"))
                self._flush()
                self._out.line(f"head += {utf8}")
            else:
                self._varint(item)
