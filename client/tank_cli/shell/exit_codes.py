"""The exit codes of the `tank` command, and the one error that its own modules raise."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of `tank`, for scripts. `tank --help` and docs/cli.md are made from this list."""

    OK = 0
    FAILED = 1
    USAGE = 2
    UNREACHABLE = 3
    NOT_FOUND = 4
    EXISTS = 5
    OUT_OF_BOUNDS = 6
    UNSUPPORTED = 7
    DAMAGED = 8
    INTERRUPTED = 130
    OUTPUT_CLOSED = 141


MEANINGS: dict[ExitCode, str] = {
    ExitCode.OK: "done",
    ExitCode.FAILED: "failed: the message on stderr says why",
    ExitCode.USAGE: "the command line is wrong",
    ExitCode.UNREACHABLE: "no broker or controller could be reached, or none answered in time",
    ExitCode.NOT_FOUND: "no such topic, partition, group, broker or folder",
    ExitCode.EXISTS: "it exists already",
    ExitCode.OUT_OF_BOUNDS: "the log does not hold the numbers that were asked for",
    ExitCode.UNSUPPORTED: "the broker lacks a feature that this needs",
    ExitCode.DAMAGED: "damaged data was found",
    ExitCode.INTERRUPTED: "interrupted (Ctrl-C)",
    ExitCode.OUTPUT_CLOSED: "the reader of the output went away",
}


class CliError(Exception):
    """The failure and its remedy, in one sentence, with the exit code of the command.

    `hint`, when there is one, is a command to type; it is shown on a line of its own.
    """

    def __init__(self, message: str, code: ExitCode = ExitCode.FAILED, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.hint = hint
