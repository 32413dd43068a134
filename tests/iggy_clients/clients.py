"""The stock clients: how each is installed beside the project, and how its walk is run.

Package registries are reached through the ordinary tools: pip and Maven. A client whose tool is missing
is left out, and the run says so. Clients that are in no registry are played by their frames.
"""

import sys
from functools import partial
from pathlib import Path
from typing import Final

from tests.iggy_clients.stock_client import PROGRAMS, StockClient
from tests.kafka_clients.libraries import ROOT, Jar, install_jars, install_python_packages, run_tool, tool

PYTHON, JAVA, FRAMES = "Python", "Java", "Frames"
_NO_LOGS: Final[Jar] = ("org.slf4j", "slf4j-nop", "2.0.17")


def _install_package(package: str, folder: Path) -> None:
    install_python_packages(folder, (package.replace(" ", "=="),))


def _walk_package(folder: Path, host: str, port: int) -> list[str]:
    return [str(folder / "bin" / "python"), str(PROGRAMS / "walk.py"), f"{host}:{port}"]


def _package(package: str) -> StockClient:
    return StockClient(package, PYTHON, partial(_install_package, package), _walk_package)


def _install_java(version: str, folder: Path) -> None:
    install_jars(folder, (("org.apache.iggy", "iggy", version), _NO_LOGS), alone=False)
    sources = [str(each) for each in sorted((PROGRAMS / "java").glob("*.java"))]
    run_tool([tool("javac"), "-cp", "libs/*", "-d", "classes", *sources], folder)


def _walk_java(folder: Path, host: str, port: int) -> list[str]:
    classes = f"{folder / 'libs'}/*:{folder / 'classes'}"
    return ["java", "-Xmx256m", "-cp", classes, "Walk", host, str(port)]


def _java(version: str) -> StockClient:
    return StockClient(f"iggy (Java) {version}", JAVA, partial(_install_java, version), _walk_java)


def _nothing(folder: Path) -> None:
    """Frames need no library."""


def _play(script: str, folder: Path, host: str, port: int) -> list[str]:
    return ["env", f"PYTHONPATH={ROOT}", sys.executable, str(PROGRAMS / "frames.py"), script, host, str(port)]


CLIENTS: Final = (
    _package("apache-iggy 0.9.0"),
    _package("apache-iggy 0.8.0"),
    _package("apache-iggy 0.7.0"),
    _package("apache-iggy 0.6.0"),
    _package("apache-iggy 0.5.0"),
    _package("iggy-py 0.4.0"),
    _java("0.8.0"),
    _java("0.7.0"),
    StockClient("Go, September 2023", FRAMES, _nothing, partial(_play, "go_2023")),
    StockClient("Node 0.8", FRAMES, _nothing, partial(_play, "node_0_8")),
)
"""All clients, in the order of their columns."""

NOT_HAD: Final = {
    "Rust": "the crate `iggy` is below Python's packages; it and `iggy-cli` have no walks yet",
    "C#": "it needs the .NET runtime, which no machine had where these were tried",
    "Go, newest": "its module, `github.com/apache/iggy/foreign/go`, is not served by Go's module proxy",
    "Node": "npm has no package `apache-iggy`; the frames of its version 0.8 are played",
    "Java 0.9": "Maven's newest is 0.8.0",
}
"""Why these clients are not among them."""
