"""Lines of generated code with their indentation."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar


class Writer:
    """Collects lines, each with the present indentation."""

    def __init__(self, indent: int = 0) -> None:
        self.lines: list[str] = []
        self._indent = indent

    def line(self, text: str = "") -> None:
        self.lines.append("    " * self._indent + text if text else "")

    def insert(self, at: int, text: str) -> None:
        """Inserts a line before the one with the index `at`, with the present indentation."""
        self.lines.insert(at, "    " * self._indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Writes a line that ends in a colon; lines within the `with` block are indented below it."""
        self.line(head)
        self._indent += 1
        yield
        self._indent -= 1


class StructFormats:
    """The struct formats that one generated module needs, as its constants: `_read_HIB`, `_write_HIB`, ..."""

    _METHODS: ClassVar = {"read": "unpack_from", "write": "pack", "each": "iter_unpack", "patch": "pack_into"}

    def __init__(self, *, little_endian: bool) -> None:
        self._order = "<" if little_endian else ">"
        self._used: set[tuple[str, str]] = set()

    @property
    def order(self) -> str:
        return self._order

    def name(self, verb: str, codes: str) -> str:
        """The name of the constant for a method of Struct(codes). `verb`: read, write, each, patch."""
        self._used.add((verb, codes))
        return f"_{verb}_{codes.replace('?', 'bool')}"

    def lines(self) -> list[str]:
        return [
            f'{self.name(verb, codes)} = Struct("{self._order}{codes}").{self._METHODS[verb]}'
            for verb, codes in sorted(self._used, key=lambda used: (used[1], used[0]))
        ]
