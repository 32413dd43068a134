"""`tank-protos check`: compares two states of a protocol's definitions; `compatibility` has the rules."""

import sys

import click

from tank_compiler.schema import definition_files
from tank_compiler.tools import compatibility

_HELP = """Refuse a change of definitions that breaks readers of a version that exists.

OLD and NEW are each a folder of definitions, one definition, or either in git: REVISION:PATH.

\b
Examples:
  tank-protos check HEAD:protos/tank protos/tank
  tank-protos check ../released/protos/tank protos/tank
  tank-protos check old/FetchRequest.json new/FetchRequest.json

Readers of a version break when its bytes change: a field that is added (but as a tagged one), removed, moved,
of another type, length or condition, that can be null where it could not or the other way round; another
tag, id or byte order; flexibleVersions that reach further or less far. They break, too, when the same bytes
mean something else: another default where a field is not on the wire. And when a version is gone that
deprecatedVersions did not announce. The highest version may change while latestVersionUnstable says so.

Names are not on the wire: new names, and other changes that break no reader, are notes. The check can't see
the meaning of numbers: give an error code or a flag a new meaning only with a new version. Each line of the
output begins with the place in NEW. The exit code is 1 when there is a break.
"""


@click.command(help=_HELP, short_help="Refuse a change of definitions that breaks readers.")
@click.argument("old")
@click.argument("new")
def check(old: str, new: str) -> None:
    """Its help text is _HELP."""
    found = compatibility.compare(definition_files.load(old), definition_files.load(new))
    for finding in sorted(found.findings, key=lambda finding: not finding.is_break):
        click.echo(str(finding))
    click.echo(f"{found.messages} messages compared, {found.breaks} breaks")
    if found.breaks:
        sys.exit(1)
