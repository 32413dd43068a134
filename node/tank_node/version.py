"""Which version of the software this is."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def software_version() -> str:
    """The version of the distribution that is installed; empty when it runs from a folder that is not."""
    try:
        return version("tank-cluster")
    except PackageNotFoundError:
        return ""
