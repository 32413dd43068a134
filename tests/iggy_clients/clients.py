"""The stock clients: how each is installed beside the project, and how its walk is run.

Package registries are reached through the ordinary tools: pip, Maven, cargo. A client whose tool is missing
is left out, and the run says so. Clients that are in no registry are played by their frames.
"""

import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Final

from tests.iggy_clients.stock_client import PROGRAMS, StockClient
from tests.kafka_clients.libraries import ROOT, Jar, install_jars, install_python_packages, run_tool, tool

PYTHON, JAVA, RUST, FRAMES = "Python", "Java", "Rust", "Frames"
BUILD_TIMEOUT_S: Final = 3600.0
"""The longest that a build by cargo may take: 500 crates, where one processor has it."""
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


def _built(folder: Path, crate: str) -> list[str]:
    """How cargo builds: quickly, and with what was built already for the same version of the crate `iggy`."""
    return ["--config", "profile.dev.debug=0", "--target-dir", str(folder.parent / f"target-{crate}")]


def _install_cli(version: str, crate: str, folder: Path) -> None:
    if (folder / "bin" / "iggy").exists():
        return
    folder.mkdir(exist_ok=True)
    # Without the feature that keeps tokens in a desktop's key ring: it needs the desktop's libraries.
    wanted = ["iggy-cli", "--version", version, "--locked", "--no-default-features", "--debug"]
    command = [tool("cargo"), "install", *wanted, "--root", str(folder), *_built(folder, crate)]
    run_tool(command, folder, BUILD_TIMEOUT_S)


def _walk_cli(folder: Path, host: str, port: int) -> list[str]:
    return [sys.executable, str(PROGRAMS / "cli.py"), str(folder / "bin" / "iggy"), f"{host}:{port}"]


def _install_crate(crate: str, cli: str, features: tuple[str, ...], folder: Path) -> None:
    source = PROGRAMS / "rust"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(source / "src", folder / "src")
    manifest = (source / "manifest.toml").read_text().replace("VERSION", crate)
    (folder / "Cargo.toml").write_text(manifest)
    # The versions of all other crates that the CLI of this version was released with.
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    for lock in home.glob(f"registry/src/*/iggy-cli-{cli}/Cargo.lock"):
        shutil.copy(lock, folder)
    chosen = [f"--features={each}" for each in features]
    built = _built(folder, crate)
    run_tool([tool("cargo"), "build", "--quiet", *chosen, *built], folder, BUILD_TIMEOUT_S)
    shutil.copy(Path(built[-1]) / "debug" / "walk", folder)


def _walk_crate(folder: Path, host: str, port: int) -> list[str]:
    return [str(folder / "walk"), f"{host}:{port}"]


def _rust(crate: str, cli: str, *features: str) -> tuple[StockClient, StockClient]:
    """The CLI of a version of the crate, and the crate."""
    return (
        StockClient(f"iggy-cli {cli}", RUST, partial(_install_cli, cli, crate), _walk_cli),
        StockClient(f"iggy (Rust) {crate}", RUST, partial(_install_crate, crate, cli, features), _walk_crate),
    )


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
    *_rust("0.11.0", "0.14.0", "framed"),
    *_rust("0.10.0", "0.13.0"),
    StockClient("Go, September 2023", FRAMES, _nothing, partial(_play, "go_2023")),
    StockClient("Node 0.8", FRAMES, _nothing, partial(_play, "node_0_8")),
)
"""All clients, in the order of their columns."""

NOT_HAD: Final = {
    "C#": "it needs the .NET runtime, which no machine had where these were tried",
    "Go, newest": "its module, `github.com/apache/iggy/foreign/go`, is not served by Go's module proxy",
    "Node": "npm has no package `apache-iggy`; the frames of its version 0.8 are played",
    "Java 0.9": "Maven's newest is 0.8.0",
}
"""Why these clients are not among them."""
