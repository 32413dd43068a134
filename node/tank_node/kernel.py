"""The choice, at import, between the compiled (mypyc) and the plain Python form of the node's hot modules.

Both forms have the same source. The compiled modules lie in `compiled/`, in the layout of the sources
(`compiled/tank_node/log/log.*.so`), and packages search that folder before their own: importers don't see the
difference. Either all of them are used, or none.

The environment variable TANK_KERNEL decides, as for the twins of `tank_protos.kernel`. In a checkout the
compiled modules are used only while their sources are unchanged.
"""

import warnings
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Final

from tank_protos import kernel
from tank_protos.compiled import changed, recorded

_PACKAGE: Final = Path(__file__).parent
FOLDER: Final = _PACKAGE / "compiled"
LIBRARY: Final = "kernel__mypyc"
"""The library with the code of all compiled modules; each other file only names one module of it."""
STALE: Final = "the node's compiled modules are older than their sources"
"""The beginning of the warning about changed sources."""


def _missing() -> str:
    """The reason why the compiled modules can't be used; empty when they can."""
    library = FOLDER / (LIBRARY + EXTENSION_SUFFIXES[0])
    if not library.exists():
        return "the node's modules were not compiled"
    # A wheel has no record. Where there is one, the package lies in a checkout, two levels below its root.
    if newer := changed(_PACKAGE.parents[1], recorded(FOLDER).get(library.name, {})):
        more = f" and {len(newer) - 3} more" if len(newer) > 3 else ""
        return f"{STALE} ({', '.join(newer[:3])}{more})"
    try:
        import_module(f"{__package__}.compiled.{LIBRARY}")
    except ImportError as error:
        return f"the node's compiled modules can't be loaded ({error})"
    return ""


def choose() -> str:
    """What is to run: "compiled" or "pure", by TANK_KERNEL and by what was compiled. Warns where compiled
    modules are older than their sources; raises ImportError where TANK_KERNEL demands what is not there."""
    if kernel.MODE == "pure":
        return "pure"
    missing = _missing()
    if not missing:
        return "compiled"
    if kernel.MODE == "compiled":
        raise ImportError(
            f"TANK_KERNEL=compiled, and {missing}. In a checkout run `make kernel`; else install again where "
            "a C compiler and Python's headers are, or set TANK_KERNEL=auto"
        )
    if missing.startswith(STALE):
        warnings.warn(f"{missing}: the plain ones run. Run `make kernel`", RuntimeWarning, stacklevel=2)
    return "pure"


NAME: Final = choose()
"""The form that runs: "compiled" or "pure"."""


def compiled_path(package: str) -> list[str]:
    """The folder of a package's compiled modules, for the front of the package's path; empty when the plain
    ones run."""
    return [str(FOLDER.joinpath(*package.split(".")))] if NAME == "compiled" else []
