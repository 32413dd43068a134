"""Checks `counted`: a list whose elements are counted before they are decoded, by a walk over the lengths."""

from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.schema import Array, Bytes, Field, Fixed, Message, Scalar, Struct, Text, Varint


def check(message: Message) -> None:
    """Raises DefinitionError when two lists have the key, or the walk would need the values of fields."""
    counted = [(struct, field) for struct in message.structs for field in struct.fields if field.is_counted]
    for struct, field in counted:
        subject = f"{struct.name}.{field.name}"
        if len(counted) > 1 or not isinstance(field.type, Array):
            what = "one list of a message can be counted; remove 'counted'"
            raise DefinitionError(field.place, subject, what)
        if message.flexible is not None:
            what = "a message with flexible versions can't be counted; remove 'counted'"
            raise DefinitionError(field.place, subject, what)
        for other in (one for each in message.structs for one in each.fields):
            if not _is_plain(other):
                what = f"a message with a field like {other.name} can't be counted; remove 'counted'"
                raise DefinitionError(field.place, subject, what)


def _is_plain(field: Field) -> bool:
    if field.versions is not None or field.when is not None or field.nullable is not None:
        return False
    if field.tag is not None:
        return False
    kind = field.type
    if isinstance(kind, Array):
        return isinstance(kind.element, Struct) and isinstance(kind.count, Scalar | Varint)
    if isinstance(kind, Bytes):
        return isinstance(kind.length, Scalar | Varint | Fixed)
    return isinstance(kind, Scalar) or (isinstance(kind, Text) and isinstance(kind.length, Scalar | Varint))
