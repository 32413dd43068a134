"""The fields of requests to an HTTP API: declared once, read strictly, described for OpenAPI. Pure."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tank_protos.http_api.errors import Json, invalid

MAX_TEXT_CHARS = 1024
"""The length of a text without another limit: the same as a setting's value."""


class FieldKind(Enum):
    """The type of a field."""

    INTEGER = auto()
    BOOLEAN = auto()
    TEXT = auto()
    TEXTS = auto()
    """Only in a query: texts; the parameter may be repeated."""
    INTEGERS = auto()
    """Only in a body: integers, each at most once."""
    SETTINGS = auto()
    """Only in a body: texts by key."""
    CHANGES = auto()
    """Only in a body: texts by key, or null to restore a default."""


@dataclass(slots=True, frozen=True)
class ApiField:
    """A parameter, or a field of a body."""

    name: str
    kind: FieldKind
    about: str
    required: bool = False
    least: int = 0
    """The least value of an integer, or of the integers in a list."""
    most: int = 2**53
    """The greatest integer; the most characters of a text, or items of a list."""
    choices: tuple[str, ...] = ()
    default: Json = None

    def schema(self) -> dict[str, Json]:
        """The field in JSON Schema."""
        found: dict[str, Json] = {"description": self.about, **self._type()}
        if self.default is not None:
            found["default"] = self.default
        return found

    def _type(self) -> dict[str, Json]:
        integer: dict[str, Json] = {"type": "integer", "minimum": self.least, "maximum": self.most}
        text: dict[str, Json] = {"type": "string", "maxLength": min(self.most, MAX_TEXT_CHARS)}
        if self.choices:
            text = {"type": "string", "enum": list(self.choices)}
        match self.kind:
            case FieldKind.INTEGER:
                return integer
            case FieldKind.BOOLEAN:
                return {"type": "boolean"}
            case FieldKind.TEXT:
                return text
            case FieldKind.TEXTS:
                return {"type": "array", "items": text}
            case FieldKind.INTEGERS:
                return {"type": "array", "items": integer, "minItems": 1, "uniqueItems": True}
            case FieldKind.SETTINGS:
                return {"type": "object", "additionalProperties": text}
            case FieldKind.CHANGES:
                nullable: dict[str, Json] = {**text, "type": ["string", "null"]}
                return {"type": "object", "additionalProperties": nullable}


class Values:
    """The values of a request, by field, each in the type of its kind."""

    def __init__(self, found: Mapping[str, object], fields: Sequence[ApiField]) -> None:
        self._found = {field.name: field.default for field in fields} | dict(found)

    def __contains__(self, name: str) -> bool:
        return self._found.get(name) is not None

    def integer(self, name: str) -> int:
        """The value of an integer field that is required, or has a default."""
        value = self._found[name]
        assert isinstance(value, int)
        return value

    def flag(self, name: str) -> bool:
        """As `integer`, for a boolean field."""
        return bool(self.integer(name))

    def text(self, name: str) -> str:
        """As `integer`, for a text field."""
        value = self._found[name]
        assert isinstance(value, str)
        return value

    def texts(self, name: str) -> list[str]:
        """The texts; empty where the request has none."""
        value = self._found[name]
        return [str(each) for each in value] if isinstance(value, list) else []

    def integers(self, name: str) -> list[int]:
        """As `integer`, for a list of integers."""
        value = self._found[name]
        assert isinstance(value, list)
        return [int(each) for each in value]

    def settings(self, name: str) -> dict[str, str | None]:
        """The settings; empty where the request has none."""
        value = self._found[name]
        return dict(value) if isinstance(value, dict) else {}


# --- reading ---


def read_body(fields: Sequence[ApiField], data: bytes) -> Values:
    """Reads a JSON object; an empty body is an empty object. Raises ApiError."""
    try:
        found = json.loads(data.decode(), object_pairs_hook=_object) if data.strip() else {}
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise invalid(f"the body is not JSON ({reason})") from None
    if not isinstance(found, dict):
        raise invalid("the body has to be a JSON object, such as {}")
    by_name = _known(fields, found, "field")
    return Values({name: _checked(by_name[name], value) for name, value in found.items()}, fields)


def read_query(fields: Sequence[ApiField], pairs: Iterable[tuple[str, str]]) -> Values:
    """Reads the parameters behind the question mark. Raises ApiError."""
    found: dict[str, list[str]] = {}
    for name, text in pairs:
        found.setdefault(name, []).append(text)
    by_name = _known(fields, found, "parameter")
    values: dict[str, object] = {}
    for name, texts in found.items():
        field = by_name[name]
        if field.kind is FieldKind.TEXTS:
            values[name] = [_checked_text(field, text) for text in texts]
        elif len(texts) > 1:
            raise invalid(f"`{name}` is there {len(texts)} times")
        else:
            values[name] = _from_text(field, texts[0])
    return Values(values, fields)


def read_path(fields: Sequence[ApiField], found: Mapping[str, str]) -> Values:
    """Reads the parameters of the path. Raises ApiError."""
    return Values({field.name: _from_text(field, found[field.name]) for field in fields}, fields)


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _known(fields: Sequence[ApiField], found: Mapping[str, object], noun: str) -> dict[str, ApiField]:
    by_name = {field.name: field for field in fields}
    for name in found:
        if name not in by_name:
            known = f"known are {', '.join(by_name)}" if by_name else "it takes none"
            raise invalid(f"there is no {noun} {_shown(name)} here: {known}")
    for field in fields:
        if field.required and found.get(field.name) is None:
            raise invalid(f"say `{field.name}`: {field.about}")
    return by_name


def _from_text(field: ApiField, text: str) -> object:
    if field.kind is FieldKind.INTEGER:
        if not re.fullmatch(r"[0-9]{1,16}", text):
            raise _wrong(field, text)
        return _checked(field, int(text))
    if field.kind is FieldKind.BOOLEAN:
        return _checked(field, {"true": True, "false": False}.get(text, text))
    return _checked_text(field, text)


def _checked(field: ApiField, value: object) -> object:
    """Returns the value if the field allows it. Raises ApiError."""
    match field.kind:
        case FieldKind.INTEGER if _is_integer(field, value):
            return value
        case FieldKind.BOOLEAN if isinstance(value, bool):
            return value
        case FieldKind.TEXT | FieldKind.TEXTS:
            return _checked_text(field, value)
        case FieldKind.INTEGERS if isinstance(value, list) and value:
            if all(_is_integer(field, each) for each in value) and len(set(value)) == len(value):
                return value
        case FieldKind.SETTINGS | FieldKind.CHANGES if isinstance(value, dict):
            for key, each in value.items():
                _checked_text(field, key)
                if each is not None or field.kind is FieldKind.SETTINGS:
                    _checked_text(field, each)
            return value
    raise _wrong(field, value)


def _is_integer(field: ApiField, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and field.least <= value <= field.most


def _checked_text(field: ApiField, value: object) -> str:
    if isinstance(value, str) and len(value) <= min(field.most, MAX_TEXT_CHARS):
        is_text = not re.search("[\ud800-\udfff]", value)  # an unpaired surrogate can't be encoded
        if is_text and (not field.choices or value in field.choices):
            return value
    raise _wrong(field, value)


_TAKES = {
    FieldKind.BOOLEAN: "true or false",
    FieldKind.SETTINGS: "an object of texts by key",
    FieldKind.CHANGES: "an object of texts by key, or null for a default",
}


def _wrong(field: ApiField, value: object) -> Exception:
    takes = _TAKES.get(field.kind, f"a text of at most {min(field.most, MAX_TEXT_CHARS)} characters")
    if field.choices:
        takes = f"one of {', '.join(field.choices)}"
    if field.kind is FieldKind.INTEGER:
        takes = f"an integer from {field.least} to {field.most}"
    if field.kind is FieldKind.INTEGERS:
        takes = f"a list of integers from {field.least} to {field.most}, each once"
    return invalid(f"`{field.name}` takes {takes}, not {_shown(value)}")


def _shown(value: object) -> str:
    """The value, shortened for a message."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
