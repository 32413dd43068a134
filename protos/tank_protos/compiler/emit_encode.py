"""Writes a message's encoder: small things gathered in a bytearray, payloads handed on as they are."""

from itertools import groupby

from tank_protos.compiler import python_types
from tank_protos.compiler.emit_decode import unsupported
from tank_protos.compiler.emit_encode_arrays import ArrayWriter
from tank_protos.compiler.emit_encode_lengths import LengthWriter
from tank_protos.compiler.emit_encode_tags import TagWriter
from tank_protos.compiler.names import Locals
from tank_protos.compiler.schema import (
    FLOAT32,
    UUID,
    Array,
    Bytes,
    Field,
    Marker,
    Message,
    Scalar,
    Struct,
    Text,
    Varint,
)
from tank_protos.compiler.writer import Formats, Writer


class EncodeEmitter:
    """The body of `encode`."""

    def __init__(self, message: Message, formats: Formats, writer: Writer) -> None:
        self.message = message
        self.formats = formats
        self.out = writer
        self.locals = Locals()
        self.owners: dict[int, str] = {}
        """The variable of the object that holds each field, by the field's identity."""
        self.uses: set[str] = set()
        self.head = "head"
        """The bytearray that is being filled: the tagged fields have their own."""
        self.unmarked: list[tuple[str, str, bytes]] = []
        """Markers: the field's name, the list of places where it was left out, and its bytes."""

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
        # A number that a float32 is too narrow for is the one misfit that struct has another error for.
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
        """A value that this version has no place for must not vanish in silence."""
        test = python_types.differs(field, self.owner.value(field))
        if without and " or " in test:
            test = f"({test})"
        with self.out.block(f"if {without}{test}:"):
            self.out.line(f'raise no_place("{self.place(field)}", version)')
        self.owner.uses.add("no_place")

    def place(self, field: Field) -> str:
        """A field's name for errors."""
        return f"{self.struct.name}.{field.name}"

    def _fields(self, fields: list[Field]) -> None:
        for field in fields:
            self.field(field)
            if self._measuring and self._measuring[-1][0] is field:
                self._fill_measured()

    def field(self, field: Field) -> None:
        """The statements that write one field."""
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
        """Null in a layout that has no form for it."""
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
