"""Identifiers on the wire and what they name: a number of the state, or a name."""

from typing import Final

from tank_protos.generated.iggy import Identifier
from tank_protos.iggy.eras import Era
from tank_protos.iggy.errors import IggyError, IggyRefusal

NUMERIC: Final = 1
NAME: Final = 2
_NUMBER_BYTES: Final = 4


def named(identifier: Identifier, era: Era) -> int | str:
    """Returns the number in the state, or the name, which may have surrogates for bytes that are not UTF-8.

    Raises IggyRefusal (INVALID_IDENTIFIER) for another kind, a number of another length, a number that no
    client of this era has, or an empty name.
    """
    value = bytes(identifier.value)
    if identifier.kind == NUMERIC and len(value) == _NUMBER_BYTES:
        number = int.from_bytes(value, "little") - era.base
        if number >= 0:
            return number
    elif identifier.kind == NAME and value:
        return value.decode("utf-8", "surrogateescape")
    what = f"an identifier of kind {identifier.kind} with the bytes {value.hex()[:64]}"
    raise IggyRefusal(IggyError.INVALID_IDENTIFIER, what)


def number_of(wire: int, era: Era) -> int:
    """Returns the number in the state of an id that stands alone. Raises IggyRefusal as `named`."""
    if wire < era.base:
        raise IggyRefusal(IggyError.INVALID_IDENTIFIER, f"the id {wire}, where the first is {era.base}")
    return wire - era.base


def of_number(number: int, era: Era) -> Identifier:
    """Returns the identifier of a number in the state."""
    return Identifier(NUMERIC, (number + era.base).to_bytes(_NUMBER_BYTES, "little"))


def of_name(name: str) -> Identifier:
    """Returns the identifier of a name."""
    return Identifier(NAME, name.encode("utf-8", "surrogateescape"))
