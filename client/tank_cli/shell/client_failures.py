"""The client's errors as sentences and exit codes. Imported only when one has happened."""

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_client import errors

CODES: dict[type[BaseException], ExitCode] = {
    errors.InvalidArgument: ExitCode.USAGE,
    errors.ServerUnreachable: ExitCode.UNREACHABLE,
    errors.ConnectionLost: ExitCode.UNREACHABLE,
    errors.RequestTimedOut: ExitCode.UNREACHABLE,
    errors.NoLeader: ExitCode.UNREACHABLE,
    errors.UnknownTopic: ExitCode.NOT_FOUND,
    errors.UnknownPartition: ExitCode.NOT_FOUND,
    errors.UnknownGroup: ExitCode.NOT_FOUND,
    errors.GroupBusy: ExitCode.UNREACHABLE,
    errors.TopicExists: ExitCode.EXISTS,
    errors.OutOfBounds: ExitCode.OUT_OF_BOUNDS,
    errors.FeatureMissing: ExitCode.UNSUPPORTED,
    errors.LevelTooLow: ExitCode.UNSUPPORTED,
    errors.Damaged: ExitCode.DAMAGED,
    errors.CorruptBundle: ExitCode.DAMAGED,
}

LISTING = "listing topics"  # a feature that the old document lacks, and that produce and consume don't need


def from_client(error: BaseException) -> CliError:
    """The client's message as a sentence, with the exit code of the nearest class it derives from."""
    if isinstance(error, errors.FeatureMissing) and error.feature == LISTING:
        return CliError(f"{sentence(error)} Here: --partition N.", ExitCode.UNSUPPORTED)
    for kind in type(error).__mro__:
        if kind in CODES:
            return CliError(sentence(error), CODES[kind])
    return CliError(sentence(error))


def sentence(error: BaseException) -> str:
    """A message with a capital letter, unless it begins with a name, and a full stop."""
    text = str(error) or type(error).__name__
    if text.partition(" ")[0].isalpha():
        text = text[:1].upper() + text[1:]
    return text + ("" if text[-1:] in ".?!`" else ".")
