"""Parses `when`: comparisons of earlier integer fields with numbers, joined by `and` and `or`.

A comparison with a field that is not on the wire itself is false, whatever the field's value in memory is,
because readers never see that value.
"""

import re
from collections.abc import Iterator
from itertools import chain, product
from typing import Final

from tank_compiler.schema.errors import DefinitionError, Place
from tank_compiler.schema.schema import (
    BOOL,
    Comparison,
    Field,
    FieldCondition,
    Marker,
    Operator,
    Scalar,
    Varint,
)

_COMPARISON: Final = re.compile(
    r"\s*([A-Za-z0-9_]+)\s*(==|!=|<=|>=|<|>|&)\s*(-?(?:0[xX][0-9a-fA-F]{1,16}|0|[1-9][0-9]{0,19}))\s*"
)
_HOW: Final = "write it as FIELD == NUMBER (or != < <= > >= &), joined by 'and' and 'or'"


class Scope:
    """The fields that a name in a condition can refer to: earlier fields of the struct, then of enclosing
    structs."""

    def __init__(self, outer: "Scope | None" = None) -> None:
        self._outer = outer
        self._fields: dict[str, Field] = {}

    def add(self, field: Field) -> None:
        self._fields[field.name] = field

    def find(self, name: str) -> Field | None:
        found = self._fields.get(name)
        if found is None and self._outer is not None:
            return self._outer.find(name)
        return found


def parse(text: str, scope: Scope, place: Place, subject: str) -> FieldCondition:
    """Returns the condition. Raises DefinitionError when the text is no condition, or a field in it is
    unknown or no integer."""
    alternatives: list[list[Comparison]] = []
    for alternative in re.split(r"\bor\b", text):
        parts = re.split(r"\band\b", alternative)
        together = [_comparison(part, text, scope, place, subject) for part in parts]
        alternatives.extend(_where_fields_are(together))
    return FieldCondition(text, alternatives)


def _where_fields_are(together: list[Comparison]) -> Iterator[list[Comparison]]:
    """Puts before the comparisons those that test whether the compared fields are on the wire themselves."""
    there: list[list[list[Comparison]]] = [
        one.field.when.alternatives if one.field.when is not None else [[]] for one in together
    ]
    for before in product(*there):
        found: list[Comparison] = []
        for one in [*chain.from_iterable(before), *together]:
            if one not in found:
                found.append(one)
        yield found


def _comparison(part: str, text: str, scope: Scope, place: Place, subject: str) -> Comparison:
    match = _COMPARISON.fullmatch(part)
    if match is None:
        raise DefinitionError(place, subject, f"cannot read the condition '{text}'; {_HOW}")
    name, operator, digits = match.groups()
    field = scope.find(name)
    if field is None:
        what = (
            f"the condition '{text}' names '{name}', which is no earlier field of this or an enclosing struct"
        )
        raise DefinitionError(place, subject, f"{what}; name one, or move '{name}' before this field")
    number = int(digits, 0)
    low, high = _range(field, text, place, subject)
    if not low <= number <= high:
        what = f"the condition '{text}' compares '{name}' with {number}, but it lies in {low}..{high}"
        raise DefinitionError(place, subject, f"{what}; write a number that it can have")
    if operator == "&" and number == 0:
        raise DefinitionError(place, subject, f"the condition '{text}' is never true; name the bits")
    return Comparison(field, Operator(operator), number)


def _range(field: Field, text: str, place: Place, subject: str) -> tuple[int, int]:
    if isinstance(field.type, Marker) or field.type is BOOL:
        return 0, 1
    if isinstance(field.type, Varint):
        return 0, (1 << 32) - 1
    if isinstance(field.type, Scalar) and field.type.high:
        return field.type.low, field.type.high
    what = f"the condition '{text}' compares '{field.name}', which is no integer"
    raise DefinitionError(place, subject, f"{what}; compare an integer or a bool")
