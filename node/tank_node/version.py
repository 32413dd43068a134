"""Which version of the software this is, and which kernel it runs."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version

from tank_protos import kernel


@cache
def software_version() -> str:
    """The version of the distribution that is installed; empty when it runs from a folder that is not."""
    try:
        return version("tank-cluster")
    except PackageNotFoundError:
        return ""


def version_and_kernel() -> str:
    """For people: "0.1.0 (compiled kernel)"; the kernel alone where the version is not known."""
    number = software_version()
    return f"{number} ({kernel.NAME} kernel)" if number else f"{kernel.NAME} kernel"
