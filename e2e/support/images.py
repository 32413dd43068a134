"""The image: built once from the sources as they are, and brought to the nodes."""

import hashlib
import shlex
import subprocess
from collections.abc import Iterable
from pathlib import Path

from e2e.support.environment import BESIDE, ROOT, MissingError, docker_answers

NAME = "localhost/tank"
ARCHIVES = ROOT / "out" / "e2e"
KEPT = 2
"""Archives of a name: an image, and the one that it is upgraded to. Each has hundreds of megabytes."""
COMMAND_S = 3600.0
"""For a build that hangs: with the compiled kernel one takes some minutes."""
BASE_BYTES = 130_000_000
"""Of the base's archive, at most: Debian's Python 3.11 took 119.6 MB."""
OVER_BASE_BYTES = 200_000_000
TAG = 12
"""Its digits."""
SOURCES = (
    ".dockerignore",
    "pyproject.toml",
    "README.md",
    "protos",
    "node",
    "controller",
    "client",
    "spark",
    "examples",
)
DEBIAN = "localhost/python:3.11-slim"
"""The base that the scripts beside the repository make, where no registry is reached."""


def built(name: str, dockerfile: str, *arguments: str) -> tuple[str, Path]:
    """(name:tag, archive) of what this Dockerfile makes of the sources as they are; the tag follows from them
    and from the build's arguments, and what was built before is not built again. MissingError."""
    tag = digest([ROOT / dockerfile, *(ROOT / each for each in SOURCES)], arguments)
    image, archive = f"{name}:{tag}", ARCHIVES / f"{name.replace('/', '_')}-{tag}.tar"
    if archive.exists():
        archive.touch()
        return image, archive
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    fresh = archive.with_suffix(".new")
    more = [word for each in arguments for word in ("--build-arg", each)]
    try:
        if (BESIDE / "image-build").exists():
            command = [str(BESIDE / "image-build"), str(ROOT), "-f", str(ROOT / dockerfile), "-t", image]
            _run([*command, "-o", str(fresh), "--build-arg", f"BASE={DEBIAN}", *more])
        elif docker_answers():
            _run(["docker", "build", str(ROOT), "-f", str(ROOT / dockerfile), "-t", image, *more])
            _run(["docker", "save", image, "-o", str(fresh)])
        else:
            raise MissingError(
                "there is no Docker to build the image with; set TANK_IMAGE to one that is there"
            )
        fresh.rename(archive)
    finally:
        fresh.unlink(missing_ok=True)  # half of one, of a build that failed
    forget(archive)
    return image, archive


def forget(newest: Path) -> None:
    """Removes the archives of the same name that were used longest ago."""
    same = newest.parent.glob(f"{newest.stem[:-TAG]}{'?' * TAG}.tar")
    for old in sorted(same, key=lambda each: each.stat().st_mtime_ns)[:-KEPT]:
        old.unlink()


def is_small_enough(archive: Path) -> bool:
    """Whether brokers' and controllers' image is at most OVER_BASE_BYTES larger than its base."""
    return archive.stat().st_size <= BASE_BYTES + OVER_BASE_BYTES


def load(archive: Path, command: str) -> None:
    """Brings it to all nodes by TANK_IMAGE_LOAD."""
    _run([*shlex.split(command), str(archive)])


def digest(places: Iterable[Path], more: Iterable[str]) -> str:
    """Of all files there, but for what is made of others, and of these words."""
    found = hashlib.sha256("\0".join(more).encode())
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            if file.is_file() and not _is_made(file):
                found.update(f"{file.relative_to(place.parent)}\0".encode() + file.read_bytes())
    return found.hexdigest()[:TAG]


def _is_made(file: Path) -> bool:
    """Of others, and so no part of the image: .dockerignore has the same."""
    return (
        "__pycache__" in file.parts
        or file.suffix in (".so", ".c")
        or file.name == "built.json"
        or "/node/tank_node/compiled/" in file.as_posix()
    )


def _run(command: list[str]) -> None:
    print(f"$ {shlex.join(command)}", flush=True)
    subprocess.run(command, check=True, timeout=COMMAND_S)
