"""How types look in generated code: annotations, default values, conditions."""

from collections.abc import Callable

from tank_protos.compiler.schema import (
    BOOL,
    FLOAT64,
    VARINT_MAX,
    Array,
    Bytes,
    Comparison,
    Condition,
    Element,
    Field,
    Fixed,
    Marker,
    Operator,
    Scalar,
    Struct,
    Text,
    Varint,
    Versions,
)


def annotation(field: Field) -> str:
    """The type of the dataclass's field."""
    text = _plain(field)
    return f"{text} | None" if field.nullable else text


def _plain(field: Field) -> str:
    if isinstance(field.type, Array):
        return f"list[{of_element(field.type.element)}]"
    if isinstance(field.type, Bytes):
        return "bytes" if isinstance(field.type.length, Fixed) else "Buffer"
    if isinstance(field.type, Marker):
        return "bool"
    return of_element(field.type)


def of_element(element: Element) -> str:
    """The type of one element of a list, or of a field that is no list."""
    if isinstance(element, Struct):
        return element.name
    if isinstance(element, Text):
        return "str"
    if element is FLOAT64:
        return "float"
    return "bool" if element is BOOL else "int"


def default(field: Field) -> str:
    """The default as an expression; lists and structs anew each time."""
    kind = field.type
    if field.nullable and field.default is None:
        return "None"
    if isinstance(kind, Array):
        return "[]"
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
    """What stands behind the annotation."""
    expression = default(field)
    if expression == "[]":
        return "field(default_factory=list)"
    if isinstance(field.type, Struct):
        return f"field(default_factory={field.type.name})"
    return expression


def limits(struct: Struct) -> dict[str, tuple[int, int]]:
    """What the places of a struct's fields hold: numbers, and lengths of texts, bytes and lists."""
    found = {}
    for field in struct.fields:
        kind = field.type
        place: object = kind
        if isinstance(kind, Array):
            place = kind.count
        elif isinstance(kind, Text | Bytes):
            place = kind.length
        if isinstance(place, Fixed):
            found[field.python_name] = (place.size, place.size)
        elif isinstance(place, Varint):
            found[field.python_name] = (0, VARINT_MAX)
        elif isinstance(place, Scalar) and place.high:
            found[field.python_name] = (
                place.low,
                place.high - (1 if place is not kind and field.nullable else 0),
            )
    return found


def double_quoted(text: str) -> str:
    """A string literal as the formatter wants it."""
    inner = repr(text)[1:-1]
    return '"' + (inner if repr(text)[0] == '"' else inner.replace("\\'", "'").replace('"', '\\"')) + '"'


def condition(when: Condition, value: Callable[[Field], str]) -> str:
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
    """The test whether a field is on the wire; empty: always."""
    tests = []
    if field.versions is not None:
        tests.append(version_test(field.versions, struct.versions))
    if field.when is not None:
        text = condition(field.when, value)
        tests.append(f"({text})" if tests and " or " in text else text)
    return " and ".join(tests)
