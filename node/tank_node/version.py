"""The version of the software, and the kernel that runs."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from tank_node import kernel as node_kernel
from tank_protos import kernel


@cache
def software_version() -> str:
    """The version of the installed distribution; empty when none is installed."""
    try:
        return version("tank-cluster")
    except PackageNotFoundError:
        return ""


def kernel_name() -> str:
    """The kernel that runs: "compiled" or "pure"; both words when the node's modules and the twins differ."""
    if node_kernel.NAME == kernel.NAME:
        return kernel.NAME
    return f"{kernel.NAME} twins, {node_kernel.NAME} node"


def version_and_kernel() -> str:
    """A text such as "0.1.0 (compiled kernel)"; the kernel alone when the version is unknown."""
    number = software_version()
    return f"{number} ({kernel_name()} kernel)" if number else f"{kernel_name()} kernel"
