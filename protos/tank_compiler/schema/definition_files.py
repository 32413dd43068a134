"""Finds and reads definitions: a folder, one file, or either as it was in a git revision."""

import io
import subprocess
import tarfile
from pathlib import Path

import click

import tank_compiler
from tank_compiler.schema.errors import DefinitionError
from tank_compiler.schema.loading import load_protocol
from tank_compiler.schema.schema import Protocol


def load(place: str | Path, shown_from: Path | None = None) -> Protocol:
    """Loads the protocol of a folder of definitions, of one definition, or of `REVISION:PATH` in git.

    `shown_from`: errors name files relative to this folder. Raises click.ClickException.
    """
    path = Path(place)
    if path.is_dir():
        files = sorted(path.glob("*.json"))
    elif path.is_file():
        files = [path]
    elif ":" in str(place):
        return _parsed(path.name, _in_git(str(place)))
    else:
        raise click.ClickException(f"{place}: there is no such folder or file")
    if not files:
        raise click.ClickException(f"there are no definitions (*.json) in {place}")
    texts = [
        ((file.relative_to(shown_from) if shown_from else file).as_posix(), file.read_bytes())
        for file in files
    ]
    return _parsed(path.resolve().name, texts)


def shipped(protocol: str) -> Path:
    """The folder with the definitions of `tank` or `kafka` that belong to this version.

    It is inside the installed package, or beside it in the repository.
    """
    package = Path(tank_compiler.__file__).parent
    installed = package / "definitions" / protocol
    return installed if installed.is_dir() else package.parent / protocol


def _parsed(name: str, files: list[tuple[str, bytes]]) -> Protocol:
    texts = []
    for file, raw in files:
        try:
            texts.append((file, raw.decode()))
        except UnicodeDecodeError as error:
            line = raw.count(b"\n", 0, error.start) + 1
            raise click.ClickException(f"{file}:{line}: not UTF-8; save the file as UTF-8") from None
    try:
        return load_protocol(name, texts)
    except DefinitionError as error:
        raise click.ClickException(str(error)) from None


def _in_git(place: str) -> list[tuple[str, bytes]]:
    """The definitions at `REVISION:PATH`; git knows a folder there as a tree, which it can pack."""
    if _git("cat-file", "-t", place).strip() == b"blob":
        return [(place, _git("cat-file", "blob", place))]
    found = []
    with tarfile.open(fileobj=io.BytesIO(_git("archive", "--format=tar", place))) as packed:
        for member in packed:
            file = packed.extractfile(member) if member.isfile() else None
            if file is not None and member.name.endswith(".json") and "/" not in member.name:
                found.append((f"{place.rstrip('/')}/{member.name}", file.read()))
    if not found:
        raise click.ClickException(f"there are no definitions (*.json) in {place}")
    return found


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, check=False)
    except OSError as error:
        raise click.ClickException(f"a revision is read with git, which does not run here: {error}") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise click.ClickException(f"git cannot read {arguments[-1]}: {said}")
    return done.stdout
