"""`python -m tank_cli.reference > docs/cli.md`: the reference of the `tank` command, from the command
itself.
"""

import json
from collections.abc import Iterator

import click

from tank_cli.main import main
from tank_cli.shell.exit_codes import MEANINGS
from tank_cli.shell.shapes import SHAPES

INTRODUCTION = """# The `tank` command

Made by `python -m tank_cli.reference > docs/cli.md`; a test compares it with the command.

stdout is data, stderr is talk: messages, progress and errors go to stderr. Where stdout is a terminal, tables
are drawn and control characters in messages are shown as `\\xNN`; in a pipe tables are plain columns and
messages are their bytes.

With `--output json` the answer on stdout is one JSON document (for `consume` and `log dump`: one a line), and
an error on stderr is `{"error": {"code": …, "message": …, "hint": …}}`, with the exit code in `code`. No key
goes away or changes its type; new ones may come. `null`: the broker can't say.

Times are UTC unless they say their zone. Sizes take k, m, g, t (powers of 1024);
durations take ms, s, min, h, d, w.

The shell completes commands, options and topics: `eval "$(tank completion bash)"`, likewise for zsh and fish.
"""


def reference() -> str:
    """The whole page, in Markdown."""
    lines = [INTRODUCTION, "## Exit codes", "", "| Code | Meaning |", "|---:|---|"]
    lines += [f"| {int(code)} | {meaning} |" for code, meaning in MEANINGS.items()]
    lines += ["", "## Commands", ""]
    for path, command in commands(main, ("tank",)):
        lines += section(path, command)
    return "\n".join(lines).rstrip() + "\n"


def commands(
    command: click.Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """The command and all below it, in the order of `--help`."""
    yield path, command
    if isinstance(command, click.Group):
        with click.Context(command, info_name=path[-1]) as ctx:
            for name in command.list_commands(ctx):
                below = command.get_command(ctx, name)
                if below is not None and not below.hidden:
                    yield from commands(below, (*path, name))


def section(path: tuple[str, ...], command: click.Command) -> list[str]:
    """One command: its help as the terminal shows it, and the shape of its JSON."""
    lines = [f"### `{' '.join(path)}`", "", "```text", help_text(path, command), "```", ""]
    shape = SHAPES.get(" ".join(path[1:]))
    if shape is not None:
        documents = [
            json.dumps(document, ensure_ascii=False, indent=None if len(shape) > 1 else 2)
            for document in shape
        ]
        lines += ["With `--output json`:", "", "```json", *documents, "```", ""]
    return lines


def help_text(path: tuple[str, ...], command: click.Command) -> str:
    """What `--help` prints, at a fixed width."""
    parent = None
    for name in path[:-1]:
        parent = click.Context(main, info_name=name, parent=parent)
    settings = {**main.context_settings, "terminal_width": 100, "max_content_width": 100}
    with click.Context(command, info_name=path[-1], parent=parent, **settings) as ctx:
        return "\n".join(line.rstrip() for line in command.get_help(ctx).splitlines())


if __name__ == "__main__":
    click.echo(reference(), nl=False)
