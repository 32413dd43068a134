"""The part of a decoder that reads arrays. No list is built before the payload is known to hold it."""

from typing import TYPE_CHECKING

from tank_protos.compiler import python_types, wire_size
from tank_protos.compiler.emit_decode_lengths import TEXT, may_be_negative
from tank_protos.compiler.names import snake_case
from tank_protos.compiler.schema import (
    UUID,
    Array,
    Compact,
    Element,
    Field,
    FromField,
    Rest,
    Scalar,
    Struct,
    Text,
)

if TYPE_CHECKING:
    from tank_protos.compiler.emit_decode import StructBody


class ArrayReader:
    """Writes the statements that read one array field of the struct whose body this is."""

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
            self._fixed("payload[at:end]", count)
            self._out.line("at = end")
            return
        self._refuse(count, f"{size} > size - at", f"not 0 <= {size} <= size - at")
        self._begin_list(is_declared=is_declared)
        is_shared = isinstance(self._kind.count, FromField)
        # A while loop costs less than a range for the few elements that messages have.
        with self._out.block(f"for _ in range({count}):" if is_shared else f"while {count}:"):
            if not is_shared:
                self._out.line(f"{count} -= 1")
            self._element(self._kind.element)

    def _refuse(self, count: str, test: str, signed_test: str) -> None:
        """Elements that the payload has no place for, or fewer than none."""
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
        """All elements at once: they have the same fixed size."""
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
        """One element, appended to the list."""
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
