"""The part of an encoder that writes the tagged fields at the end of a struct."""

from typing import TYPE_CHECKING

from tank_protos.compiler import python_types
from tank_protos.compiler.schema import Field

if TYPE_CHECKING:
    from tank_protos.compiler.emit_encode import StructWriter


class TagWriter:
    """Writes the statements that write a struct's tagged fields, those at their defaults left out."""

    def __init__(self, body: "StructWriter") -> None:
        self._body = body
        self._owner = body.owner
        self._out = body.out
        self._unknown = f"{body.subject}.unknown_tags"

    def emit(self) -> None:
        """In a layout without tagged fields: the check that there are no unknown ones to lose."""
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
