"""Where `tank iggy user` gets a password from: a person who types it twice, or a file; never the command
line, which other users of the machine see.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tank_cli.shell.exit_codes import CliError, ExitCode

if TYPE_CHECKING:
    from tank_protos.users.secret import Secret


def password_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--password-file`; the function gets `password_file`."""
    option = click.option(
        "--password-file",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="A file with the password in its first line; - is stdin.  [default: ask for it]",
    )
    return option(function)


def new_password(password_file: Path | None, name: str) -> "Secret":
    """A user's new password. Raises CliError."""
    from tank_protos.users.rules import password_problem
    from tank_protos.users.secret import Secret

    if password_file is not None:
        password = Secret(_first_line(password_file))
    elif sys.stdin.isatty():
        typed = click.prompt(
            f"New password of {name}", hide_input=True, confirmation_prompt="Once more", err=True
        )
        password = Secret(str(typed).encode(errors="surrogateescape"))
    else:
        raise CliError("There is no terminal to ask for the password: say --password-file.", ExitCode.USAGE)
    if problem := password_problem(len(password)):
        raise CliError(f"{problem[:1].upper()}{problem[1:]}.", ExitCode.USAGE)
    return password


def hashed(password: "Secret") -> str:
    """The password's hash, which is all that leaves this machine. Raises CliError."""
    from tank_node.users.argon2_hasher import Argon2Hasher, HashingFailed

    try:
        return Argon2Hasher().hash(password)
    except HashingFailed as error:
        raise CliError(f"The password can't be hashed: {error}.") from None


def _first_line(file: Path) -> bytes:
    try:
        data = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        raise CliError(f"The password can't be read: {error.strerror}.", ExitCode.USAGE) from None
    return data.partition(b"\n")[0].rstrip(b"\r")
