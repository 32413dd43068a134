"""The part of an encoder that writes lists."""

from typing import TYPE_CHECKING

from tank_protos.compiler.emit_encode_lengths import UTF8
from tank_protos.compiler.names import snake_case
from tank_protos.compiler.schema import UUID, Array, Field, Rest, Scalar, Struct, Text

if TYPE_CHECKING:
    from tank_protos.compiler.emit_encode import StructWriter


class ArrayWriter:
    """Writes the statements that write one list of the object whose writer this is."""

    def __init__(self, body: "StructWriter", field: Field, kind: Array) -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out
        self._field = field
        self._kind = kind

    def emit(self, value: str) -> None:
        """`value`: the expression of the list."""
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
