"""Generates a protocol's package into a temporary folder and imports it, for checks of generated code."""

import itertools
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType

from tank_compiler.emit import package as emit_package
from tank_compiler.schema.schema import Protocol

_numbers = itertools.count()


@contextmanager
def imported(protocol: Protocol) -> Iterator[Callable[[str], ModuleType]]:
    """Yields a function that imports a module of the package by its name; usable within the block."""
    package = f"tank_protos_tried_{next(_numbers)}"
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / package
        home.mkdir()
        for name, text in emit_package.files(protocol, package).items():
            (home / name).write_text(text, encoding="utf-8")
        sys.path.insert(0, folder)
        invalidate_caches()
        try:
            yield lambda name: import_module(f"{package}.{name}")
        finally:
            sys.path.remove(folder)
            for loaded in [name for name in sys.modules if name.split(".")[0] == package]:
                del sys.modules[loaded]
