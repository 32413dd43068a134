"""Decodes one message's JSON object into a row, exactly as Spark's `from_json` does. Not fast."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import ROUND_HALF_UP, Context, Decimal, DecimalException
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pyspark_tank.errors import TankSourceError
from pyspark_tank.json.text import json_text
from pyspark_tank.options import ParseMode

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[[Any], object]

JSON_SPACE = " \t\r\n"
SHOWN = 200  # characters of bad content in an error

# Text that Spark reads as a number in a float or double field, beside NaN, Infinity and -Infinity.
_NOT_FINITE = {
    "NaN": "nan", "+INF": "inf", "+Infinity": "inf", "Infinity": "inf", "-INF": "-inf", "-Infinity": "-inf",
}  # fmt: skip
# What Spark reads and JSON lacks: text between single quotes, and signed infinities. Text between double
# quotes is matched, too, so that nothing is found within it. Nothing here ever backtracks.
_LOOSE = re.compile(
    r""" "(?:[^"\\]|\\.?)*+"? | '(?:[^'\\]|\\.?)*+'? | \+INF | \+Infinity | -INF """, re.X | re.S
)
_ESCAPED = re.compile(r"\\.|\"", re.S)
_TIME = re.compile(
    r"(?P<year>\d{4})(?:-(?P<month>\d\d?)(?:-(?P<day>\d\d?)(?:[ T](?P<hour>\d\d?)(?::(?P<minute>\d\d?)"
    r"(?::(?P<second>\d\d?)(?:\.(?P<fraction>\d*))? ?(?P<zone>[A-Za-z+-].*)?)?)?)?)?)?",
    re.A,
)
_TIME_PARTS = (("year", 1), ("month", 1), ("day", 1), ("hour", 0), ("minute", 0), ("second", 0))
_OFFSET = re.compile(r"Z|(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d?))?", re.A)
_DATE = re.compile(r"\s*(\d{4})(?:-(\d\d?)(?:-(\d\d?)(?:[ T].*)?)?)?\s*", re.A | re.S)


def _exact(number: str) -> Decimal | float:
    """A number with a fraction keeps its digits until its field's type is known, unless its exponent is too
    great for any type.
    """
    try:
        return Decimal(number)
    except DecimalException:
        return float(number)


_DECODER = json.JSONDecoder(parse_float=_exact)
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,7}", re.A)
_ROUNDING = Context(prec=76, rounding=ROUND_HALF_UP)  # as many digits as Arrow's widest decimal


class Misfit(ValueError):
    """A value that is not of its field's type."""


class RowReader:
    """Decodes content by one schema; made once for each task.

    `corrupt` names the field that gets the whole content where it doesn't fit; None: there is no such field.
    """

    def __init__(self, fields: pa.Schema, mode: ParseMode, corrupt: str | None = None) -> None:
        self._fail_fast = mode is ParseMode.FAILFAST
        self._corrupt = corrupt
        self._fields = [
            (field.name, str(field.type), self._converter(field.type))
            for field in fields
            if field.name != corrupt
        ]
        self._misfit: str | None = None
        """The first value that did not fit in the content that is read; None: all of it fits so far."""

    def read(self, content: bytes) -> dict[str, object] | None:
        """Returns the fields' values; None for content without a value. A field that doesn't fit is null; all
        fields are null for content that is no JSON object. Under FAILFAST both raise TankSourceError.
        """
        text = content.decode("utf-8", "replace")
        if not text.strip(JSON_SPACE):
            return None
        try:
            document = first_value(text)
        except (ValueError, ArithmeticError, RecursionError):
            document = None
        self._misfit = None
        if isinstance(document, dict):
            row = self._object(document, self._fields)
        else:
            self._misfit = f"content is not a JSON object: {text[:SHOWN]!r}"
            row = {name: None for name, _, _ in self._fields}
        if self._misfit is not None and self._fail_fast:
            raise TankSourceError(f"{self._misfit}; leave out mode=FAILFAST to get null there")
        if self._corrupt is not None:
            row[self._corrupt] = None if self._misfit is None else _text(text)
        return row

    def _object(
        self, document: dict[str, object], fields: list[tuple[str, str, Convert]]
    ) -> dict[str, object]:
        """The fields that fit; the others are null, and the first of them is noted."""
        row: dict[str, object] = {}
        for name, kind, convert in fields:
            value = document.get(name)
            try:
                row[name] = None if value is None else convert(value)
            except (TypeError, ValueError, ArithmeticError):  # Arrow's errors are subclasses of these
                row[name] = None
                if self._misfit is None:
                    self._misfit = f"field {name!r} is {_shown(value)}, not {kind}"
        return row

    def _converter(self, kind: pa.DataType) -> Convert:
        """Returns a function that makes a value of this type for Arrow. It raises the errors that `_object`
        catches.

        An object with a field that doesn't fit stays, without that field. A list or map with an element that
        doesn't fit is given up whole."""
        import pyarrow as pa

        if pa.types.is_struct(kind):
            fields = [(part.name, str(part.type), self._converter(part.type)) for part in kind]
            return lambda value: self._object(_of_types(value, dict), fields)
        if pa.types.is_map(kind):
            item = _or_null(self._converter(kind.item_type))
            return lambda value: [
                (_text(name), item(inner)) for name, inner in _of_types(value, dict).items()
            ]
        if pa.types.is_list(kind):
            element = _or_null(self._converter(kind.value_type))
            return lambda value: [element(inner) for inner in _of_types(value, list)]
        return _plain_converter(kind)


def first_value(text: str) -> object:
    """Returns the first JSON value of a text, in JSON as Spark reads it; the text behind the value is
    ignored. Raises ValueError, RecursionError."""
    text = text.lstrip(JSON_SPACE)
    try:
        return _DECODER.raw_decode(text)[0]
    except ValueError:
        strict = _LOOSE.sub(_as_json, text)
        if strict == text:
            raise
        return _DECODER.raw_decode(strict)[0]


def _as_json(token: re.Match[str]) -> str:
    """A token of Spark's JSON in strict JSON."""
    text = token[0]
    if text[0] not in "\"'":
        return "-Infinity" if text[0] == "-" else "Infinity"
    if len(text) < 2 or text[-1] != text[0]:
        return text  # the text has no closing quote
    inner = _ESCAPED.sub(lambda found: {"\\'": "'", '"': '\\"'}.get(found[0], found[0]), text[1:-1])
    return f'"{inner}"'


def _plain_converter(kind: pa.DataType) -> Convert:
    """The converter of a type without parts."""
    import pyarrow as pa

    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _as_text
    if pa.types.is_boolean(kind):
        return lambda value: _of_types(value, bool)
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1) - 1
        return lambda value: _within(_of_types(value, int), most)
    if pa.types.is_floating(kind):
        return _fraction
    if pa.types.is_decimal(kind):
        return lambda value: _decimal(_of_types(value, int, Decimal, str), kind.precision, kind.scale)
    if pa.types.is_timestamp(kind):
        return lambda value: _time(_of_types(value, str, int), kind)
    if pa.types.is_date(kind):
        return lambda value: _date(_of_types(value, str))
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda value: _bytes(_of_types(value, str))
    return lambda value: _by_arrow(_of_types(value, str, int, Decimal), kind)


def _or_null(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _of_types(value: object, *kinds: type) -> Any:
    """The value when its type is exactly one of these: a boolean is no number, nor a fraction an integer."""
    if type(value) not in kinds:
        raise Misfit
    return value


def _as_text(value: object) -> str:
    """A string, or the JSON of another value."""
    if isinstance(value, str):
        return _text(value)
    try:
        return json_text(value)
    except RecursionError:
        raise Misfit from None


def _text(value: str) -> str:
    """Text that UTF-8 holds: half a surrogate pair is a question mark, as in Java."""
    return value.encode("utf-8", "replace").decode()


def _within(value: int, most: int) -> int:
    if not -most - 1 <= value <= most:
        raise Misfit
    return value


def _fraction(value: object) -> float:
    if isinstance(value, str):
        if value not in _NOT_FINITE:
            raise Misfit
        return float(_NOT_FINITE[value])
    if type(value) is float:  # NaN and the infinities
        return value
    return float(Decimal(_of_types(value, int, Decimal)))


def _decimal(value: int | Decimal | str, precision: int, scale: int) -> Decimal:
    """Rounded to the field's scale. Raises Misfit where the precision doesn't hold it."""
    try:
        exact = Decimal(value)
        if not exact.is_finite() or (exact and exact.adjusted() >= precision - scale):
            raise Misfit
        rounded = exact.quantize(Decimal(1).scaleb(-scale), context=_ROUNDING)
    except DecimalException:
        raise Misfit from None
    if len(rounded.as_tuple().digits) > precision:
        raise Misfit
    return rounded


def _time(value: str | int, kind: pa.DataType) -> object:
    """A time as Spark casts text to one, where one without a zone is UTC; or seconds since 1970, where the
    type has a zone.
    """
    if isinstance(value, int):
        if kind.tz is None:
            raise Misfit
        return _within(1_000_000 * value, 2**63 - 1)
    found = _TIME.fullmatch(value.strip())
    if found is None:
        raise Misfit
    micros = (found["fraction"] or "0").ljust(6, "0")[:6]  # finer fractions are cut off
    year, month, day, hour, minute, second = (int(found[name] or least) for name, least in _TIME_PARTS)
    moment = datetime(year, month, day, hour, minute, second, int(micros), _zone(found["zone"]))
    return moment if kind.tz is not None else moment.astimezone(UTC).replace(tzinfo=None)


def _zone(name: str | None) -> tzinfo:
    """Of Z, +2, -02:30 or a region's name. Raises Misfit where it is none."""
    offset = _OFFSET.fullmatch(name or "Z")
    if offset is None:
        try:
            return ZoneInfo(str(name))
        except (ValueError, OSError, ZoneInfoNotFoundError):
            raise Misfit from None
    minutes = 60 * int(offset["hours"] or 0) + int(offset["minutes"] or 0)
    return timezone(timedelta(minutes=-minutes if offset["sign"] == "-" else minutes))


def _date(value: str) -> date:
    """A date as Spark casts text to one: months and days may have one digit, or be left out. Text that is
    another number is days since 1970.
    """
    found = _DATE.fullmatch(value)
    if found is None:
        if _WHOLE_NUMBER.fullmatch(value) is None:
            raise Misfit
        return date(1970, 1, 1) + timedelta(days=int(value))
    return date(int(found[1]), int(found[2] or 1), int(found[3] or 1))


def _bytes(value: str) -> bytes:
    if len(value) % 4:
        raise Misfit  # Python's decoder would ignore the rest
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        raise Misfit from None


def _by_arrow(value: object, kind: pa.DataType) -> object:
    """Rare types, and rare forms of times, as Arrow reads their text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(pa.scalar(str(value)), kind).as_py()


def _shown(value: object) -> str:
    """The value as text for an error, shortened."""
    text = repr(float(value) if isinstance(value, Decimal) else value)
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
