"""Chooses, once at import, whether the compiled twins of hot functions run, or the plain functions.

    @twin("bundle")          # tank_protos.compiled.bundle.validate, where it was built; else what stands here
def validate(batch): ...

The environment variable TANK_KERNEL decides: `auto` (the default: compiled where it is there), `pure`, or
`compiled` (an error that says what to do where it is not there). In a checkout where a twin is older than its
source, no twin is used, with a warning. Both have the same interface, raise the same errors and pass the same
tests. Callers import the function from the module that defines it.
"""

import os
import warnings
from collections.abc import Callable
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar, cast

from tank_protos import compiled
from tank_protos.compiled import outdated

Function = TypeVar("Function", bound=Callable[..., Any])

ROOM: Final = compiled.__name__
_FOLDER: Final = Path(compiled.__file__).parent
MODES: Final = ("auto", "pure", "compiled")

MODE: Final = os.environ.get("TANK_KERNEL") or "auto"
if MODE not in MODES:
    raise ImportError(f"TANK_KERNEL={MODE!r}: use 'auto', 'pure' or 'compiled'")


class Pair(NamedTuple):
    """A plain function and its compiled twin; for tests and benchmarks, which try both."""

    plain: Callable[..., Any]
    compiled: Callable[..., Any]


PAIRS: Final[list[Pair]] = []
"""The functions that run compiled, each with its plain function."""


def load(name: str) -> Any:
    """Returns the compiled module; None when plain functions are to run. Raises ImportError where TANK_KERNEL
    demands what was not compiled."""
    if MODE == "pure":
        return None
    try:
        found = find_spec(name)
        if found is None or not isinstance(found.loader, ExtensionFileLoader):
            raise ImportError(f"{name} was not compiled")
        return import_module(name)
    except ImportError as error:
        if MODE == "auto":
            return None
        raise _not_there(str(error)) from error


def _not_there(why: str) -> ImportError:
    return ImportError(
        f"TANK_KERNEL=compiled, and the compiled kernel is not there ({why}). In a checkout run "
        "`make kernel`; else install again where a C compiler and Python's headers are, or set "
        "TANK_KERNEL=auto"
    )


def _chosen() -> str:
    """Whether twins run: all of them or none, because a twin older than its source may lack a new
    function.
    """
    if MODE == "pure":
        return "pure"
    if old := outdated(_FOLDER, EXTENSION_SUFFIXES[0]):
        stale = f"compiled twins are older than their sources ({', '.join(old)})"
        if MODE == "compiled":
            raise _not_there(stale)
        warnings.warn(f"{stale}: the plain functions run. Run `make kernel`", RuntimeWarning, stacklevel=2)
        return "pure"
    return "pure" if load(f"{ROOM}.checksum") is None else "compiled"


NAME: Final = _chosen()
"""What runs: "compiled" or "pure"."""


def twin(module: str) -> Callable[[Function], Function]:
    """Puts the function of the same name from `tank_protos.compiled.MODULE` into the place of a plain one.

    `module` with a dot is a full name. Without such a module the plain function stays; with
    TANK_KERNEL=compiled that raises ImportError. The plain function is added to the module's dictionary
    PLAIN, if it has one: a twin calls it for bad input, so that both kernels raise the same errors.
    """
    full_name = module if "." in module else f"{ROOM}.{module}"

    def choose(plain: Function) -> Function:
        loaded = load(full_name) if NAME == "compiled" else None
        if loaded is None:
            return plain
        compiled = getattr(loaded, plain.__name__)
        getattr(loaded, "PLAIN", {})[plain.__name__] = plain
        PAIRS.append(Pair(plain, compiled))
        return cast(Function, compiled)

    return choose
