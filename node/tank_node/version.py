"""Which version of the software this is, and which kernel it runs."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from tank_node import kernel as node_kernel
from tank_protos import kernel


@cache
def software_version() -> str:
    """The version of the distribution that is installed; empty when it runs from a folder that is not."""
    try:
        return version("tank-cluster")
    except PackageNotFoundError:
        return ""


def kernel_name() -> str:
    """Which kernel runs: "compiled" or "pure"; both words where the node's modules and the twins differ."""
    if node_kernel.NAME == kernel.NAME:
        return kernel.NAME
    return f"{kernel.NAME} twins, {node_kernel.NAME} node"


def version_and_kernel() -> str:
    """For people: "0.1.0 (compiled kernel)"; the kernel alone where the version is not known."""
    number = software_version()
    return f"{number} ({kernel_name()} kernel)" if number else f"{kernel_name()} kernel"
