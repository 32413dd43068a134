"""Writes the method that counts the elements of a list without decoding them.

Two nested counts of two bytes allow four thousand million elements, and decoding makes an object of each.
"""

from tank_compiler.emit.writer import StructFormats, Writer
from tank_compiler.schema.schema import Array, Bytes, Field, Fixed, Message, Scalar, Struct, Text, Varint


def counted(message: Message) -> Field | None:
    """The list whose elements are counted; None: the definition asks for none."""
    return next((field for struct in message.structs for field in struct.fields if field.is_counted), None)


class CountEmitter:
    """The method of a message with a list that is counted."""

    def __init__(self, message: Message, wanted: Field, formats: StructFormats, out: Writer) -> None:
        self._message = message
        self._wanted = wanted
        self._formats = formats
        self._out = out
        self._skipped = 0
        """The bytes of fixed size that the walk has yet to skip."""
        self.uses: set[str] = {"StructError", "WireError", "Buffer"}

    def emit(self) -> None:
        out, name = self._out, self._wanted.python_name
        out.line()
        out.line("@classmethod")
        with out.block(f"def count_{name}(cls, payload: Buffer, most: int) -> int:"):
            out.line(f'"""How many {name} the message has in all its lists, without making their objects.')
            out.line()
            out.line("Stops counting above `most`, or where the payload ends too early.")
            out.line('"""')
            out.line("found: int = 0")
            out.line("at = 0")
            with out.block("try:"):
                self._struct(self._message.root)
            with out.block("except (StructError, IndexError, WireError):"):
                out.line("return found")
            out.line("return found")

    def _struct(self, struct: Struct) -> None:
        """Writes the walk over a struct's fields."""
        for field in struct.fields:
            self._field(field)
        self._flush()

    def _field(self, field: Field) -> None:
        kind, out = field.type, self._out
        if isinstance(kind, Scalar):
            self._skipped += kind.size
        elif isinstance(kind, Bytes) and isinstance(kind.length, Fixed):
            self._skipped += kind.length.size
        elif isinstance(kind, Text | Bytes):
            self._flush()
            self._length("size", kind.length)
            out.line("at += size")
        else:
            assert isinstance(kind, Array)
            self._flush()
            count = f"{field.python_name}_count"
            self._length(count, kind.count)
            if field is self._wanted:
                out.line(f"found += {count}")
                with out.block("if found > most:"):
                    out.line("return found")
            with out.block(f"for _ in range({count}):"):
                assert isinstance(kind.element, Struct)
                self._struct(kind.element)

    def _length(self, name: str, extent: object) -> None:
        if isinstance(extent, Varint):
            self._out.line(f"{name}, at = read_varint(payload, at)")
            self.uses.add("read_varint")
            return
        assert isinstance(extent, Scalar)
        self._out.line(f"({name},) = {self._formats.name('read', extent.code)}(payload, at)")
        self._skipped += extent.size
        self._flush()

    def _flush(self) -> None:
        if self._skipped:
            self._out.line(f"at += {self._skipped}")
            self._skipped = 0
