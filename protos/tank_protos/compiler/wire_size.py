"""How few bytes a value can take on the wire: what a count is checked against before a list is built."""

from tank_protos.compiler.schema import (
    Array,
    Bytes,
    Element,
    Extent,
    Field,
    Fixed,
    Scalar,
    Struct,
    Text,
    Varint,
)


def of_element(element: Element) -> int:
    """The least bytes of an array's element. 0 only for a struct all of whose fields may be absent."""
    if isinstance(element, Scalar):
        return element.size
    if isinstance(element, Text):
        return element.length.size
    if isinstance(element, Struct):
        return sum(of_field(field) for field in element.fields)
    return 1


def of_field(field: Field) -> int:
    """The least bytes of a field in any version: 0 when it can be absent."""
    if field.versions is not None or field.when is not None:
        return 0
    if isinstance(field.type, Array):
        return _of_extent(field.type.count)
    if isinstance(field.type, Bytes):
        return (
            field.type.length.size if isinstance(field.type.length, Fixed) else _of_extent(field.type.length)
        )
    if isinstance(field.type, Scalar | Varint | Text | Struct):
        return of_element(field.type)
    return 0


def fixed_format(struct: Struct) -> str | None:
    """The struct codes of a struct that has the same fixed size always, or None."""
    codes = []
    for field in struct.fields:
        plain = field.versions is None and field.when is None and not field.measures
        if not plain or not isinstance(field.type, Scalar):
            return None
        codes.append(field.type.code)
    return "".join(codes)


def _of_extent(extent: Extent) -> int:
    if isinstance(extent, Scalar):
        return extent.size
    return 1 if isinstance(extent, Varint) else 0
