"""Annotations, default values and conditions as Python code."""

from collections.abc import Callable

from tank_compiler.schema.names import snake_case
from tank_compiler.schema.schema import (
    BOOL,
    FLOAT32,
    FLOAT32_MAX,
    FLOATS,
    UUID,
    VARINT_MAX,
    Array,
    Bytes,
    Comparison,
    Element,
    Field,
    FieldCondition,
    Fixed,
    Marker,
    Operator,
    Prefix,
    Scalar,
    Struct,
    Text,
    Varint,
    Versions,
)


def annotation(field: Field) -> str:
    """The annotation of the dataclass's field."""
    keyed = field.type.keyed if isinstance(field.type, Array) else None
    text = keyed.collection if keyed is not None else _plain(field)
    return f"{text} | None" if field.is_optional else text


def variable(field: Field) -> tuple[str, str]:
    """The annotation and the first value of a decoder's variable. A keyed list is a plain list until it is
    complete."""
    text = f"{_plain(field)} | None" if field.is_optional else _plain(field)
    return text, "[]" if isinstance(field.type, Array) and field.default is not None else default(field)


def _plain(field: Field) -> str:
    if isinstance(field.type, Array):
        return f"list[{of_element(field.type.element)}]"
    if isinstance(field.type, Bytes):
        return "bytes" if isinstance(field.type.length, Fixed) else "Buffer"
    if isinstance(field.type, Marker):
        return "bool"
    return of_element(field.type)


def of_element(element: Element) -> str:
    """The annotation of a list's element, or of a field that is no list."""
    if isinstance(element, Struct):
        return element.name
    if isinstance(element, Text):
        return "str"
    if element in FLOATS:
        return "float"
    if element is UUID:
        return "bytes"
    return "bool" if element is BOOL else "int"


def default(field: Field) -> str:
    """The default as an expression, which makes a new list or struct each time."""
    kind = field.type
    if field.default is None:
        return "None"
    if isinstance(kind, Array):
        return f"{kind.keyed.collection}()" if kind.keyed is not None else "[]"
    if isinstance(kind, Struct):
        return f"{kind.name}()"
    if isinstance(kind, Bytes):
        if isinstance(kind.length, Fixed):
            return repr(bytes(kind.length.size)) if kind.length.size <= 16 else f"bytes({kind.length.size})"
        if kind.keep_prefix:
            return repr(bytes(kind.length.size if isinstance(kind.length, Scalar) else 1))
        return 'b""'
    if isinstance(field.default, str):
        return double_quoted(field.default)
    return repr(field.default)


def dataclass_default(field: Field) -> str:
    """The text behind the dataclass field's annotation."""
    expression = default(field)
    if expression == "[]":
        return "field(default_factory=list)"
    if isinstance(field.type, Array | Struct) and field.default is not None:
        return f"field(default_factory={expression.removesuffix('()')})"
    return expression


def differs(field: Field, value: str) -> str:
    """The expression that tests that a value is not the field's default. A struct's default is a constant of
    the module."""
    kind = field.type
    if field.default is None:
        return f"{value} is not None"
    if isinstance(kind, Struct):
        return f"{value} != {default_constant(kind)}"
    if isinstance(kind, Array) or (isinstance(kind, Bytes) and not isinstance(kind.length, Fixed)):
        if isinstance(kind, Bytes) and kind.keep_prefix:
            return f"{value} != {default(field)}"
        return f"{value} is None or {value}" if field.is_optional else value
    if kind is BOOL or isinstance(kind, Marker):
        return f"not {value}" if field.default else value
    return f"{value} != {default(field)}"


def default_constant(struct: Struct) -> str:
    """The name of the module's constant for a struct with all default values."""
    return f"_default_{snake_case(struct.name)}"


def limits(struct: Struct) -> dict[str, tuple[int, int]]:
    """The limits of a struct's fields by name: of numbers, and of the lengths of texts, bytes and lists.

    The limits of a list's elements are under the list's name and `[]`.
    """
    found = {}
    for field in struct.fields:
        kind = field.type
        element = _of_place(kind.element) if isinstance(kind, Array) else None
        if element is not None:
            found[f"{field.python_name}[]"] = element
        place: object = kind
        if isinstance(kind, Array):
            place = kind.count
        elif isinstance(kind, Text | Bytes):
            place = kind.length
        if isinstance(place, Prefix):
            place = place.scalar
        if place is UUID:
            found[field.python_name] = (UUID.size, UUID.size)
        elif isinstance(place, Fixed):
            found[field.python_name] = (place.size, place.size)
        elif isinstance(place, Varint):
            found[field.python_name] = (0, VARINT_MAX)
        elif place is FLOAT32:
            found[field.python_name] = (-FLOAT32_MAX, FLOAT32_MAX)
        elif isinstance(place, Scalar) and place.high:
            found[field.python_name] = (
                place.low if place is kind else 0,
                place.high - (1 if place is not kind and field.nullable and place.low == 0 else 0),
            )
    return found


def _of_place(element: Element) -> tuple[int, int] | None:
    """The limits of an element: of a number, or of the length of a text."""
    if isinstance(element, Varint):
        return 0, VARINT_MAX
    if element is FLOAT32:
        return -FLOAT32_MAX, FLOAT32_MAX
    place = element.length if isinstance(element, Text) else element
    if isinstance(place, Prefix):
        place = place.scalar
    if not isinstance(place, Scalar) or not place.high:
        return None
    return (0 if isinstance(element, Text) else place.low), place.high


def double_quoted(text: str) -> str:
    """A string literal in double quotes, as the formatter wants it."""
    inner = repr(text)[1:-1]
    return '"' + (inner if repr(text)[0] == '"' else inner.replace("\\'", "'").replace('"', '\\"')) + '"'


def condition(when: FieldCondition, value: Callable[[Field], str]) -> str:
    """A condition as an expression; `value` gives a field's value at that place in the code."""
    parts = [" and ".join(_comparison(one, value) for one in together) for together in when.alternatives]
    return " or ".join(parts)


def _comparison(comparison: Comparison, value: Callable[[Field], str]) -> str:
    subject = value(comparison.field)
    if isinstance(comparison.field.type, Marker) or comparison.field.type is BOOL:
        if comparison.operator in (Operator.EQUAL, Operator.UNEQUAL):
            positive = (comparison.operator is Operator.EQUAL) == bool(comparison.number)
            return subject if positive else f"not {subject}"
        return f"{subject} {comparison.operator.value} {comparison.number}"
    if comparison.operator is Operator.BITS:
        return f"{subject} & {comparison.number}"
    return f"{subject} {comparison.operator.value} {comparison.number}"


def version_test(versions: Versions, within: Versions) -> str:
    """A test of `version` for a range, given that it lies in `within`."""
    if versions.low > within.low and versions.high != within.high:
        if versions.low == versions.high:
            return f"version == {versions.low}"
        return f"{versions.low} <= version <= {versions.high}"
    if versions.low > within.low:
        return f"version >= {versions.low}"
    return f"version <= {versions.high}"


def presence(field: Field, struct: Struct, value: Callable[[Field], str]) -> str:
    """The expression that tests whether a field is on the wire; empty: it always is."""
    tests = []
    if field.versions is not None:
        tests.append(version_test(field.versions, struct.versions))
    if field.when is not None:
        text = condition(field.when, value)
        tests.append(f"({text})" if tests and " or " in text else text)
    return " and ".join(tests)
