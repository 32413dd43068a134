"""Turns every failure of a command into one sentence on stderr and an exit code."""

import contextlib
import itertools
import json
import os
import sys
import traceback
from collections.abc import Sequence

import click

from tank_cli.shell.exit_codes import CliError, ExitCode


def report_failure(error: BaseException, arguments: Sequence[str]) -> int:
    """Writes the failure to stderr and returns the exit code. With `--debug` among the arguments the
    traceback comes first.

    With `--output json` among them the sentence is a JSON object `{"error": {"code", "message", "hint"}}`.
    """
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return ExitCode.USAGE
    failure = as_cli_error(error)
    if wants_debug(arguments) and not isinstance(
        error, click.ClickException | KeyboardInterrupt | click.Abort
    ):
        traceback.print_exception(error, file=sys.stderr)
    say(
        failure,
        as_json=wants_json(arguments),
        debug_would_help=is_unforeseen(error) and not wants_debug(arguments),
    )
    return failure.code


def as_cli_error(error: BaseException) -> CliError:
    """Returns any error as a CliError: click's, the client's, the system's, or an unforeseen one."""
    if isinstance(error, CliError):
        return error
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return interrupted()
    if isinstance(error, click.UsageError):
        return usage_error(error)
    if isinstance(error, click.ClickException):
        return CliError(error.format_message())
    if type(error).__module__.startswith("tank_client"):
        from tank_cli.shell.client_failures import from_client

        return from_client(error)
    if isinstance(error, OSError):
        return CliError(os_sentence(error))
    if package := lacking(error):
        from tank_protos import server_packages

        return CliError(f"{server_packages.sentence(package)}.", hint=server_packages.INSTALL)
    return CliError(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def interrupted() -> CliError:
    """The error for Ctrl-C."""
    return CliError("Interrupted.", ExitCode.INTERRUPTED)


def usage_error(error: click.UsageError) -> CliError:
    """Click's message, with the `--help` to type."""
    path = error.ctx.command_path if error.ctx is not None else "tank"
    message = error.format_message()
    if message[-1:] not in ".?!":
        message += "."
    return CliError(message, ExitCode.USAGE, None if "--help" in message else f"{path} --help")


def os_sentence(error: OSError) -> str:
    """The system's reason, with the file it is about."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}." if error.filename else f"{reason}."


def is_unforeseen(error: BaseException) -> bool:
    """Whether the error is a bug of this command, which only a traceback explains."""
    foreseen = isinstance(error, CliError | click.ClickException | click.Abort | KeyboardInterrupt | OSError)
    return not foreseen and not lacking(error) and not type(error).__module__.startswith("tank_client")


def lacking(error: BaseException) -> str:
    """The server package whose absence caused the error; empty: another error."""
    if not isinstance(error, ModuleNotFoundError):
        return ""
    from tank_protos import server_packages

    return (error.name or "") if server_packages.is_of_server(error) else ""


def say(failure: CliError, *, as_json: bool, debug_would_help: bool) -> None:
    """Writes the failure to stderr; a stderr that is gone is no second failure."""
    if as_json:
        body = {"code": int(failure.code), "message": failure.message, "hint": failure.hint}
        text = json.dumps({"error": body}, ensure_ascii=False)
    elif failure.code == ExitCode.INTERRUPTED:
        return  # the user typed Ctrl-C and knows
    else:
        mark = click.style("error:", fg="red", bold=True)
        text = f"{mark} {failure.message}"
        if failure.hint:
            text += f"\n  try: {click.style(failure.hint, bold=True)}"
        if debug_would_help:
            text += "\n  This is a fault of tank itself; run it again with --debug to see where."
    with contextlib.suppress(OSError):
        click.echo(text, err=True)


def silence_stdout() -> None:
    """Points stdout at nothing, so that the interpreter's last flush into the closed pipe stays quiet."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass


def open_missing_streams() -> None:
    """Opens stdout and stderr to nowhere where the parent process has closed them (`>&-`)."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  # for as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def wants_debug(arguments: Sequence[str]) -> bool:
    """Whether `--debug` was given; read from the raw words, because parsing may be what failed."""
    return "--debug" in arguments


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether `--output json` was given, likewise."""
    pairs = itertools.pairwise(arguments)
    return bool({"--output=json", "-ojson"} & set(arguments)) or any(
        a in ("--output", "-o") and b == "json" for a, b in pairs
    )
