"""What the controllers' answers and the brokers' requests have in common: error codes and text."""

from collections.abc import Iterable

from tank_protos.error_codes import ErrorCode


def known_error(error: int) -> ErrorCode:
    """The error code; INVALID_REQUEST for a code that only a newer controller knows."""
    try:
        return ErrorCode(error)
    except ValueError:
        return ErrorCode.INVALID_REQUEST


def known_errors(errors: Iterable[int]) -> list[ErrorCode]:
    """As `known_error`, of each."""
    return [known_error(error) for error in errors]


def is_text(*strings: str) -> bool:
    """Whether all strings are UTF-8: strings from the wire may have other bytes, as lone surrogates."""
    try:
        for string in strings:
            string.encode()
    except UnicodeEncodeError:
        return False
    return True
