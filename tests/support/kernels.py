"""Tests on both kernels in one process: plain functions and their compiled twins change places."""

import sys

from tank_protos import kernel

# What runs tests: both where the compiled kernel is there and not switched off.
NAMES = ["pure", "compiled"] if kernel.NAME == "compiled" else ["pure"]
_SEEN_BY = ("tank_", "pyspark_tank", "tests", "benchmarks", "conftest")


def use(name: str) -> None:
    """From here on every module of the project and of its tests calls the functions of that kernel.

    A module that holds a function under a name of its own is found; one that hides it in a closure is not.
    """
    chosen: dict[object, object] = {pair.plain: pair.compiled for pair in kernel.PAIRS}
    if name == "pure":
        chosen = {pair.compiled: pair.plain for pair in kernel.PAIRS}
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith(_SEEN_BY) or ".compiled." in module_name:
            continue
        for key, value in list(vars(module).items()):
            if callable(value) and (other := _other(chosen, value)) is not None:
                setattr(module, key, other)


def _other(chosen: dict[object, object], value: object) -> object:
    try:
        return chosen.get(value)
    except TypeError:  # what cannot be hashed is no function
        return None
