"""One change of the source of a class, function or constant, found by its full name."""

import ast
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("node", "controller", "protos", "client")


class EditError(ValueError):
    """The change doesn't fit the code; the message says why."""


@dataclass(slots=True, frozen=True)
class Edit:
    """In the source of `symbol` the text `old` stands once, and becomes `new`.

    Only the symbol's own source counts: other code may move and change, and hold the same text.
    """

    symbol: str
    """The module's name, then the names of classes, functions or a constant in it; the module alone means all
    of its source."""
    old: str
    new: str

    def file(self) -> Path:
        """The module's file, below the repository's root. EditError."""
        return self._find()[0]

    def applied(self, folder: Path = ROOT) -> str:
        """The whole module's source with the change, as it is read from this folder. EditError."""
        file, names = self._find()
        source = (folder / file).read_text()
        begin, end = _span(source, names) if names else (0, len(source))
        times = source.count(self.old, begin, end)
        if times != 1:
            raise EditError(f"its text is {times} times in {self.symbol}, and should be once")
        at = source.index(self.old, begin, end)
        return source[:at] + self.new + source[at + len(self.old) :]

    def _find(self) -> tuple[Path, list[str]]:
        """(the module's file, the names within the module)."""
        parts = self.symbol.split(".")
        for length in range(len(parts), 0, -1):
            for room in ROOMS:
                file = Path(room, *parts[:length]).with_suffix(".py")
                if (ROOT / file).is_file():
                    return file, parts[length:]
        raise EditError(f"no module has {self.symbol}")


def _span(source: str, names: list[str]) -> tuple[int, int]:
    """Where the symbol's lines begin and end in the source, in characters. EditError."""
    body: list[ast.stmt] = ast.parse(source).body
    found: ast.stmt | None = None
    for name in names:
        found = next((each for each in body if name in _named(each)), None)
        if found is None:
            raise EditError(f"there is no {'.'.join(names)}")
        body = found.body if isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) else []
    assert found is not None
    assert found.end_lineno is not None
    lines = source.splitlines(keepends=True)
    return sum(map(len, lines[: found.lineno - 1])), sum(map(len, lines[: found.end_lineno]))


def _named(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module or class defines."""
    match statement:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
        case _:
            return []
