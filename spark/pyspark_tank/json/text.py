"""The text that `from_json` makes of a JSON value in a field of text: as Spark's JSON generator writes it."""

from __future__ import annotations

import math
import re
from decimal import Decimal

_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# It escapes what takes two units of UTF-16, and halves of such pairs.
_ESCAPED = re.compile('[\x00-\x1f"\\\\\ud800-\udfff\U00010000-\U0010ffff]')
# Powers of ten within which Java writes a number without an exponent.
_LEAST_PLAIN, _MOST_PLAIN = -3, 6


def json_text(value: object) -> str:
    """Of what Python's JSON decoder makes of JSON, with Decimal or float for numbers with a fraction.
    Raises RecursionError.
    """
    if isinstance(value, str):
        return _quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float | Decimal):
        number = float(value)
        return double_text(number) if math.isfinite(number) else f'"{double_text(number)}"'
    if isinstance(value, list):
        return f"[{','.join([json_text(each) for each in value])}]"
    if isinstance(value, dict):
        return f"{{{','.join([f'{_quoted(name)}:{json_text(each)}' for name, each in value.items()])}}}"
    return str(value)


def double_text(number: float) -> str:
    """A double as Java writes it from version 19 on: the fewest digits that give it back, at least one behind
    the point. Earlier ones write a digit more of some.
    """
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    shortest = Decimal(repr(number)).normalize()
    if not shortest:
        return repr(number)
    if len(shortest.as_tuple().digits) == 1:
        shortest = Decimal(f"{number:.1e}").normalize()  # of two digits the nearest: 4.9E-324, not 5.0E-324
    power = shortest.adjusted()
    if _LEAST_PLAIN <= power <= _MOST_PLAIN:
        return _with_point(f"{shortest:f}")
    return f"{_with_point(f'{shortest.scaleb(-power):f}')}E{power}"


def _with_point(digits: str) -> str:
    return digits if "." in digits else f"{digits}.0"


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    sign = found[0]
    if sign in _SHORT:
        return _SHORT[sign]
    units = sign.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))
