"""The part of an encoder that writes what has a length before it: varints, texts and bytes."""

from typing import TYPE_CHECKING, Final

from tank_protos.compiler import python_types
from tank_protos.compiler.emit_decode_lengths import MAX_TEXT, null_of
from tank_protos.compiler.schema import (
    Bytes,
    Compact,
    Extent,
    Field,
    Fixed,
    FromField,
    Scalar,
    Text,
    Varint,
)

if TYPE_CHECKING:
    from tank_protos.compiler.emit_encode import StructWriter

UTF8: Final = '"utf-8", "surrogateescape"'


class LengthWriter:
    """Writes the statements that write lengths, and the values behind them, of one object."""

    def __init__(self, body: "StructWriter") -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out

    def varint(self, value: str) -> None:
        """A varint of this value."""
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
        """A varint that nearly always has one byte: then a call would cost twice as much."""
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
        """A text of the field."""
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
        """The length of encoded text that is not null, written at once."""
        if isinstance(kind.length, Compact):
            self._check_text(field, name, "")
        self.extent(kind.length, field, f"len({name})")
        self._body.flush()

    def _check_text(self, field: Field, name: str, guard: str) -> None:
        """A compact length could say more than readers of Kafka's texts take."""
        self._out.line(f"if {guard}len({name}) > {MAX_TEXT}:")
        self._out.line(f'    raise wrong_size("{self._body.place(field)}", len({name}), {MAX_TEXT})')
        self._owner.uses.add("wrong_size")

    def bytes(self, field: Field, kind: Bytes, value: str) -> None:
        """Bytes of the field, handed on as they are, unless they belong to a tag."""
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
