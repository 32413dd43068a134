"""A click group whose commands are imported when they are needed, and that ends in sentences, not
tracebacks.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.failures import interrupted, open_missing_streams, report_failure, silence_stdout
from tank_cli.shell.interrupts import Interrupts, end_line


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """The place of a command, and its line in `--help`, so that `--help` need not import it."""

    target: str  # "module:attribute"
    summary: str

    def load(self) -> click.Command:
        """The command itself; imports its module."""
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command


class LazyGroup(click.Group):
    """A group over a table of `LazyCommand`s. Its `main` turns every failure into a sentence and an exit
    code.
    """

    def __init__(self, *args: Any, table: Mapping[str, LazyCommand] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table: dict[str, LazyCommand] = dict(table or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The table's order: the commands that a new user needs come first."""
        return [*self.table, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Imports the command's module at this moment, not before."""
        entry = self.table.get(cmd_name)
        return entry.load() if entry is not None else super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As in click, but the error for an unknown command names the nearest one."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            from tank_cli.shell.nearest import did_you_mean

            guess = did_you_mean(args[0], self.list_commands(ctx))
            ctx.fail(f"There is no command {args[0]!r}.{guess} See '{ctx.command_path} --help'.")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, from the table, so that `--help` imports none of them."""
        if not self.table:
            super().format_commands(ctx, formatter)
            return
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.table.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. When the reader of the output has closed the pipe, only the exit code says so."""
        try:
            outcome = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            silence_stdout()
            raise click.exceptions.Exit(ExitCode.OUTPUT_CLOSED) from None
        except KeyboardInterrupt as interrupt:
            raise interrupted() from interrupt
        return outcome

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """As in click, without its second line end after Ctrl-C."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except KeyboardInterrupt as interrupt:
            raise interrupted() from interrupt

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Runs the command line and exits. Where click is used as a library (`standalone_mode=False`),
        click's own."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        arguments = list(sys.argv[1:] if args is None else args)
        open_missing_streams()
        with Interrupts() as interrupts:
            try:
                outcome = super().main(arguments, prog_name, complete_var, standalone_mode=False, **extra)
            except BaseException as error:
                if isinstance(error, click.Abort) and not interrupts.came:
                    end_line()  # Ctrl-D in answer to a question
                sys.exit(report_failure(error, arguments))
        sys.exit(outcome if isinstance(outcome, int) else 0)
