"""The `tank-protos` command."""

import subprocess
import sys
from pathlib import Path

import click

from tank_protos.compiler import emit_module
from tank_protos.compiler.errors import DefinitionError
from tank_protos.compiler.loading import load_protocol


@click.group()
def main() -> None:
    """Compiles message definitions to Python codecs, a reference and a corpus."""


@main.command()
def generate() -> None:
    """Writes everything that is generated."""
    root = Path.cwd()
    definitions = root / "protos" / "tank"
    files = [(f"protos/tank/{path.name}", path.read_text()) for path in definitions.glob("*.json")]
    try:
        protocol = load_protocol("tank", files)
    except DefinitionError as error:
        raise click.ClickException(str(error)) from None
    folder = root / "protos/tank_protos/generated/tank"
    folder.mkdir(parents=True, exist_ok=True)
    for message in protocol.messages:
        text = emit_module.module(message, message.root.place.file)
        (folder / f"{emit_module.module_name(message)}.py").write_text(text)
    (folder / "__init__.py").write_text(emit_module.package(protocol))
    subprocess.run([sys.executable, "-m", "ruff", "format", "--quiet", str(folder)], check=True)
