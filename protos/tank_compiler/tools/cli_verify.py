"""`tank-protos verify`: checks the generated code against test vectors of another implementation."""

import sys
from pathlib import Path

import click

from tank_compiler.emit.generated_import import imported
from tank_compiler.schema import definition_files
from tank_compiler.tools import verify


@click.command("verify")
@click.argument("definitions")
@click.argument("vectors", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--show", default=10, show_default=True, type=click.IntRange(0), help="How many failures to show."
)
def verify_vectors(definitions: str, vectors: Path, show: int) -> None:
    """Check generated code against VECTORS. The exit code is 1 when one fails.

    Each vector is checked in both directions: its bytes must decode to its JSON, and its JSON encode to its
    bytes.

    DEFINITIONS is a folder, one definition, or REVISION:PATH in git. VECTORS has a vector on each line:
    {"name": "FetchRequest", "version": 12, "json": {...}, "hex": "..."}, bytes in base64, uuids in base64
    for URLs, as the Kafka project's JSON converters write them. The code is generated into a temporary folder
    and imported from there.
    """
    protocol = definition_files.load(definitions)
    lines = [line for line in vectors.read_text(encoding="utf-8").split("\n") if line.strip()]
    if not lines:
        raise click.ClickException(f"{vectors} has no vectors; give a file with one on each line")
    failed = 0
    with imported(protocol) as modules:
        verifier = verify.VectorVerifier(protocol, modules)
        with click.progressbar(
            lines, label="vectors", file=sys.stderr, hidden=not sys.stderr.isatty(), show_pos=True
        ) as progress:
            shown: list[str] = []
            for number, line in enumerate(progress, 1):
                found = _differences(verifier, line)
                failed += bool(found)
                if found and failed <= show:
                    shown += [f"{vectors.name}:{number}: {text}" for text in found]
    for text in shown:
        click.echo(text)
    if failed > show:
        click.echo(f"... and {failed - show} more; --show {failed} shows them all")
    if verifier.unknown_tags:
        click.echo(f"tagged fields that no definition has, kept and written back: {verifier.unknown_tags}")
    click.echo(f"{len(lines) - failed} passed, {failed} failed")
    if failed:
        sys.exit(1)


def _differences(verifier: verify.VectorVerifier, line: str) -> list[str]:
    try:
        vector = verify.parse(line)
    except verify.VectorError as error:
        return [str(error)]
    return [f"{vector.name} version {vector.version}: {text}" for text in verifier.differences(vector)]
