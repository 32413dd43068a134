"""Which form of the node's hot modules runs: compiled by mypyc, or plain Python. Chosen here, at import.

Both are made of the same source. The compiled modules lie in a folder of their own, ordered as the sources
are (`compiled/tank_node/log/append.*.so`), which the packages search before their own: `tank_node.log.append`
is the compiled one or the plain one, and whoever imports it does not know. It is all of them or none.

The environment variable TANK_KERNEL decides, as it does for the twins of `tank_protos.kernel`. In a checkout
the compiled modules are used only as long as none of the sources that they were made of was changed.
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
"""In it is the code of all compiled modules; the files beside it only name one each."""
STALE: Final = "the node's compiled modules are older than their sources"
"""How the warning begins."""


def _missing() -> str:
    """Why the compiled modules can't be used; empty when they can."""
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


def _chosen() -> str:
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


NAME: Final = _chosen()
"""What runs: "compiled" or "pure"."""


def compiled_path(package: str) -> list[str]:
    """Where a package has its compiled modules: what it puts before its own path. Nothing where plain ones
    run."""
    return [str(FOLDER.joinpath(*package.split(".")))] if NAME == "compiled" else []
