"""Random values for messages of Kafka's kind, in the form that the interpreter lays out."""

from random import Random

from tank_compiler.schema.schema import (
    BOOL,
    FLOATS,
    UUID,
    Array,
    Bytes,
    Element,
    Field,
    Scalar,
    Struct,
    Text,
    Type,
)
from tank_compiler.tools.interpreter import Value, default_of


def _value(random: Random, field: Field, kind: Type | Element, *, is_default: bool) -> Value:
    """What a program may set the field to"""
    if is_default:
        return default_of(field)
    if field.nullable is not None and kind is field.type and random.random() < 0.3:
        return None
    if isinstance(kind, Array):
        count = random.randint(1, 2)
        return [_value(random, field, kind.element, is_default=False) for _ in range(count)]
    if isinstance(kind, Struct):
        return random_struct(random, kind, is_default=is_default)
    if isinstance(kind, Text):
        return "text" + str(random.randint(0, 99))
    if isinstance(kind, Bytes):
        return random.randbytes(random.randint(1, 9))
    if kind is UUID:
        return random.randbytes(16)
    if kind is BOOL:
        return random.random() < 0.5
    if kind in FLOATS:
        return random.randint(0, 1 << 24) / 256
    assert isinstance(kind, Scalar)
    return random.randint(kind.low, kind.high)


def random_struct(random: Random, kind: Struct, *, is_default: bool) -> dict[str, Value]:
    """Values of a layout's struct; `is_default`: nobody set anything. Else a field is left alone now and
    then: a struct in a list, too, may have tags that are not written."""
    found: dict[str, Value] = {"unknown_tags": []}
    for field in kind.fields:
        left_alone = is_default or random.random() < 0.2
        found[field.name] = _value(random, field, field.type, is_default=left_alone)
    return found
