"""Lines of generated code with their indentation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class Writer:
    """Collects lines."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self._indent = indent

    def line(self, text: str = "") -> None:
        self.lines.append("    " * self._indent + text if text else "")

    def insert(self, at: int, text: str) -> None:
        """A line before the one with the index `at`, with the present indentation."""
        self.lines.insert(at, "    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A line that ends in a colon, and what stands under it."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1


class Formats:
    """The struct formats that one module needs, as constants of it: `_read_HIB`, `_write_HIB`, ..."""

    _METHODS: ClassVar = {"read": "unpack_from", "write": "pack", "each": "iter_unpack", "patch": "pack_into"}

    def __init__(self, *, little_endian: bool) -> None:
        self._order = "<" if little_endian else ">"
        self._used: set[tuple[str, str]] = set()

    @property
    def order(self) -> str:
        return self._order

    def name(self, verb: str, codes: str) -> str:
        """The constant that holds a method of Struct(codes). `verb`: read, write, each, patch."""
        self._used.add((verb, codes))
        return f"_{verb}_{codes.replace('?', 'bool')}"

    def lines(self) -> list[str]:
        return [
            f'{self.name(verb, codes)} = Struct("{self._order}{codes}").{self._METHODS[verb]}'
            for verb, codes in sorted(self._used, key=lambda used: (used[1], used[0]))
        ]
