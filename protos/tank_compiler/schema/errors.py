"""Errors in definitions."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a definition, for error messages."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class DefinitionError(Exception):
    """A definition that cannot be compiled; its text is `file:line: field: what is wrong and what to do`."""

    def __init__(self, place: Place, subject: str, what: str) -> None:
        self.place = place
        self.subject = subject
        self.what = what
        super().__init__(f"{place}: {subject}: {what}" if subject else f"{place}: {what}")
