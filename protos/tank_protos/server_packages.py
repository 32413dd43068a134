"""The packages that brokers and controllers need, and clients do not: the extra `server`."""

from collections.abc import Iterator
from importlib.util import find_spec

SERVER_PACKAGES = (
    "aiohttp",
    "argon2",
    "google",
    "grpc",
    "grpc_health",
    "grpc_reflection",
    "prometheus_client",
    "xxhash",
)
"""The names by which they are imported. `google`: protobuf, which shares that package with others."""
INSTALL = "pip install 'tank-cluster[server]'"


def is_of_server(error: ModuleNotFoundError) -> bool:
    """Whether the module that was not found comes with the extra."""
    return (error.name or "").partition(".")[0] in SERVER_PACKAGES


def missing() -> Iterator[str]:
    """The packages that are not installed."""
    return (name for name in SERVER_PACKAGES if find_spec(name) is None)


def sentence(package: str) -> str:
    """The sentence for a user when a package is missing."""
    return f"This needs the packages of a server, and {package.partition('.')[0]} is not installed"


def need() -> None:
    """Raises ModuleNotFoundError when a package is missing. For code that starts servers."""
    if (package := next(missing(), None)) is not None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def demand() -> None:
    """Exits with SystemExit, which says what to do, when a package is missing. For a server's first line."""
    try:
        need()
    except ModuleNotFoundError as error:
        raise SystemExit(f"error: {sentence(error.name or '')}: {INSTALL}") from None
