"""The fewest bytes that a value can take on the wire, by which a count is checked before a list is built.

The structs are those of a layout. In a message that states its version, fields that depend on it count as 0
bytes.
"""

from tank_compiler.schema.schema import (
    Array,
    Bytes,
    Compact,
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
    """The fewest bytes of a list's element; 0 only for a struct all of whose fields may be absent."""
    if isinstance(element, Scalar):
        return element.size
    if isinstance(element, Text):
        return _of_extent(element.length)
    if isinstance(element, Struct):
        return sum(of_field(field) for field in element.fields) + element.has_tags
    return 1


def of_field(field: Field) -> int:
    """The fewest bytes of a field in any version: 0 when it can be absent."""
    if field.versions is not None or field.when is not None or field.is_absent or field.tag is not None:
        return 0
    if isinstance(field.type, Array):
        return _of_extent(field.type.count)
    if isinstance(field.type, Bytes):
        return (
            field.type.length.size if isinstance(field.type.length, Fixed) else _of_extent(field.type.length)
        )
    if isinstance(field.type, Struct) and field.nullable is not None:
        return 1
    if isinstance(field.type, Scalar | Varint | Text | Struct):
        return of_element(field.type)
    return 0


def fixed_format(struct: Struct) -> str | None:
    """The struct module's codes for a struct that always has the same size; None: it doesn't.

    Absent fields must come last, because they get the class's default values.
    """
    if struct.has_tags:
        return None
    codes = []
    there = [field for field in struct.fields if not field.is_absent]
    if there != struct.fields[: len(there)]:
        return None
    for field in there:
        plain = field.versions is None and field.when is None and not field.measures
        if not plain or not isinstance(field.type, Scalar):
            return None
        codes.append(field.type.code)
    return "".join(codes)


def _of_extent(extent: Extent) -> int:
    if isinstance(extent, Scalar):
        return extent.size
    return 1 if isinstance(extent, Varint | Compact) else 0
