"""The packages that brokers and controllers need, and clients do not: the extra `server`."""

from collections.abc import Iterator
from importlib.util import find_spec

SERVER_PACKAGES = ("aiohttp", "google", "grpc", "grpc_health", "grpc_reflection", "prometheus_client")
"""As they are imported. `google`: protobuf, which is in a package that others share."""
INSTALL = "pip install 'tank-cluster[server]'"


def is_of_server(error: ModuleNotFoundError) -> bool:
    """Whether the module that was not found comes with the extra."""
    return (error.name or "").partition(".")[0] in SERVER_PACKAGES


def missing() -> Iterator[str]:
    """Those that are not installed."""
    return (name for name in SERVER_PACKAGES if find_spec(name) is None)


def sentence(package: str) -> str:
    """What a person reads where one is missing."""
    return f"This needs the packages of a server, and {package.partition('.')[0]} is not installed"


def need() -> None:
    """For what starts servers. ModuleNotFoundError where a package is missing."""
    if (package := next(missing(), None)) is not None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def demand() -> None:
    """For a server's first line. SystemExit, with what to do, where a package is missing."""
    try:
        need()
    except ModuleNotFoundError as error:
        raise SystemExit(f"error: {sentence(error.name or '')}: {INSTALL}") from None
