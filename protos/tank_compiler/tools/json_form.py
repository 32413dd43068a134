"""Converts messages to the Kafka project's JSON form, which test vectors use, and back.

Names begin with a small letter; bytes are base64, a uuid is base64 for URLs. Fields that the version does not
have, and tagged fields with their default values, are left out.
"""

import base64
import binascii
from types import ModuleType
from typing import Any, TypeAlias

from tank_compiler.schema.schema import (
    BOOL,
    FLOATS,
    UUID,
    Array,
    Bytes,
    Element,
    Field,
    Marker,
    Struct,
    Text,
    Type,
)

Json: TypeAlias = "dict[str, Json] | list[Json] | str | int | float | bool | None"


class FormError(ValueError):
    """JSON that is no message in this form; the text names the place."""


def name_of(field: Field) -> str:
    """A field's name in JSON."""
    return field.name[0].lower() + field.name[1:]


def to_json(struct: Struct, value: object) -> dict[str, Json]:
    """The JSON form of a generated object. `struct`: the struct in the version's layout."""
    found: dict[str, Json] = {}
    for field in struct.fields:
        if field.is_absent:
            continue
        form = _form(field.type, getattr(value, field.python_name))
        if field.tag is None or form != _form_of_default(field):
            found[name_of(field)] = form
    return found


def _form_of_default(field: Field) -> Json:
    if isinstance(field.type, Struct) and field.default is not None:
        inner = [field for field in field.type.fields if not field.is_absent and field.tag is None]
        return {name_of(one): _form_of_default(one) for one in inner}
    if isinstance(field.type, Array) and field.default is not None:
        return []
    if isinstance(field.type, Bytes) and field.default is not None:
        return ""
    return _form(field.type, field.default)


def _form(kind: Type, value: Any) -> Json:
    if value is None:
        return None
    if isinstance(kind, Struct):
        return to_json(kind, value)
    if isinstance(kind, Array):
        return [_form(kind.element, one) for one in value]
    if isinstance(kind, Bytes):
        return base64.b64encode(value).decode()
    if kind is UUID:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")
    assert isinstance(value, int | float | str), "the other types are numbers, bools and texts"
    return value


def from_json(module: ModuleType, struct: Struct, form: Json, place: str = "") -> Any:
    """The object of the generated `module` with this JSON form. Raises FormError."""
    place = place or struct.name
    if not isinstance(form, dict):
        raise FormError(f"{place}: expected an object")
    fields = {name_of(field): field for field in struct.fields if not field.is_absent}
    values = {}
    for name, inner in form.items():
        if name not in fields:
            raise FormError(f"{place}.{name}: this version has no such field")
        field = fields[name]
        values[field.python_name] = _value(module, field.type, inner, f"{place}.{name}")
        keyed = field.type.keyed if isinstance(field.type, Array) else None
        if keyed is not None and inner is not None:
            values[field.python_name] = getattr(module, keyed.collection)(values[field.python_name])
    return getattr(module, struct.name)(**values)


def copy_unknown(struct: Struct, source: Any, target: Any) -> int:
    """Copies the unknown tags of `source` to `target`, an object of the same shape, because JSON has no form
    for them.

    Returns their number. Parts of another shape are skipped.
    """
    count = 0
    if struct.keeps_tags:
        target.unknown_tags = source.unknown_tags
        count += len(source.unknown_tags)
    for field in struct.fields:
        inner = field.type.element if isinstance(field.type, Array) else field.type
        if not isinstance(inner, Struct):
            continue
        theirs, ours = getattr(source, field.python_name), getattr(target, field.python_name)
        if theirs is None or ours is None:
            continue
        pairs = zip(theirs, ours, strict=False) if isinstance(field.type, Array) else [(theirs, ours)]
        count += sum(copy_unknown(inner, one, other) for one, other in pairs)
    return count


def _value(module: ModuleType, kind: Type | Element, form: Json, place: str) -> object:
    if form is None:
        return None
    if isinstance(kind, Struct):
        return from_json(module, kind, form, place)
    if isinstance(kind, Array):
        if not isinstance(form, list):
            raise FormError(f"{place}: expected a list")
        return [_value(module, kind.element, one, f"{place}[{at}]") for at, one in enumerate(form)]
    if isinstance(kind, Bytes) or kind is UUID:
        return _bytes(form, place, is_uuid=kind is UUID)
    if isinstance(kind, Text):
        return _checked(form, str, "a string", place)
    if kind is BOOL or isinstance(kind, Marker):
        return _checked(form, bool, "true or false", place)
    if kind in FLOATS:
        return float(_checked(form, (int, float), "a number", place))
    if isinstance(form, bool):
        raise FormError(f"{place}: expected a whole number")
    return _checked(form, int, "a whole number", place)


def _checked(form: Json, kind: type | tuple[type, ...], what: str, place: str) -> Any:
    if not isinstance(form, kind):
        raise FormError(f"{place}: expected {what}")
    return form


def _bytes(form: Json, place: str, *, is_uuid: bool) -> bytes:
    text = _checked(form, str, "bytes as a string of base64", place)
    try:
        if is_uuid:
            return base64.b64decode(text + "==", altchars=b"-_", validate=True)
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise FormError(f"{place}: no base64") from None
