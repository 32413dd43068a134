"""The `tank-protos` command, and its subcommand `generate`, which writes all generated files."""

import subprocess
import sys
import tempfile
from pathlib import Path

import click

from tank_compiler.emit import module, package
from tank_compiler.schema import definition_files
from tank_compiler.tools import corpus, reference
from tank_compiler.tools.cli_check import check
from tank_compiler.tools.cli_decode import decode
from tank_compiler.tools.cli_verify import verify_vectors

_GENERATED = Path("protos/tank_protos/generated")
_REFERENCE = Path("docs/protocol")
_CORPUS = Path("tests/corpus")

_root_option = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The repository's folder. Definitions are in protos/PROTOCOL/*.json below it.",
)


@click.group()
def main() -> None:
    """Compile message definitions to Python codecs, a reference and a corpus; decode bytes from a wire."""


main.add_command(check)
main.add_command(decode)
main.add_command(verify_vectors)


@main.command(short_help="Write everything that is made from the definitions.")
@_root_option
@click.option(
    "--check", "only_check", is_flag=True, help="Write nothing; exit code 1 when there is something to write."
)
def generate(root: Path, only_check: bool) -> None:
    """Write everything that is made from the definitions, and remove what no definition asks for."""
    wanted = _compile(root)
    left_over = _left_over(root, wanted)
    stale = [path for path, text in wanted.items() if not _holds(root / path, text)]
    if only_check:
        _report_stale(stale, left_over)
        click.echo(f"{len(wanted)} files are fresh")
        return
    for path in stale:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(wanted[path], encoding="utf-8")
    for path in left_over:
        (root / path).unlink()
    click.echo(f"{len(wanted)} files: {len(stale)} written, {len(left_over)} removed")


def _report_stale(stale: list[Path], left_over: list[Path]) -> None:
    lines = [f"{path} is not made from its definition" for path in stale]
    lines += [f"{path} has no definition" for path in left_over]
    if lines:
        shown = "\n".join(sorted(lines)[:20])
        raise click.ClickException(f"{shown}\n{len(lines)} files are stale; run: tank-protos generate")


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


def _compile(root: Path) -> dict[Path, str]:
    """The texts of all files, by path under the root."""
    folders = sorted({path.parent for path in (root / "protos").glob("*/*.json")})
    if not folders:
        raise click.ClickException(
            f"there are no definitions in {root / 'protos'}; give the repository with --root"
        )
    python: dict[Path, str] = {}
    others: dict[Path, str] = {}
    for folder in folders:
        protocol = definition_files.load(folder, shown_from=root)
        for name, text in package.files(protocol).items():
            python[_GENERATED / protocol.name / name] = text
        for name, text in reference.pages(protocol).items():
            others[_REFERENCE / protocol.name / name] = text
        for message in protocol.messages:
            others[_CORPUS / protocol.name / f"{module.module_name(message)}.txt"] = corpus.lines(message)
    return _formatted(python) | others


def _formatted(texts: dict[Path, str]) -> dict[Path, str]:
    """The texts as ruff writes them, with the line length of the repository."""
    with tempfile.TemporaryDirectory() as scratch:
        for path, text in texts.items():
            target = Path(scratch) / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        options = ["--isolated", "--line-length", "110", "--target-version", "py311", "--quiet"]
        command = [sys.executable, "-m", "ruff", "format", *options, scratch]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            hint = "it formats generated code; install it with: pip install 'tank-cluster[dev]'"
            raise click.ClickException(f"ruff failed ({hint}):\n{done.stderr.strip()}")
        return {path: (Path(scratch) / path).read_text(encoding="utf-8") for path in texts}


def _left_over(root: Path, wanted: dict[Path, str]) -> list[Path]:
    """Files in the generated folders that were made from a definition, or a protocol, that is gone."""
    folders = {path.parent for path in wanted}
    for tables in (root / _GENERATED).glob("*/by_id.py"):
        folders |= {kind / tables.parent.name for kind in (_GENERATED, _REFERENCE, _CORPUS)}
    present = [path.relative_to(root) for folder in folders for path in (root / folder).glob("*.*")]
    return sorted(path for path in present if path not in wanted)
