"""The name and the password with which a new cluster's root user is created. Pure."""

from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from tank_protos.users.rules import password_problem, user_name_problem
from tank_protos.users.secret import Secret

NAME_VARIABLE: Final = "IGGY_ROOT_USERNAME"
PASSWORD_VARIABLE: Final = "IGGY_ROOT_PASSWORD"
"""Iggy's own names."""
DEFAULT_NAME: Final = "iggy"
_DEFAULT_PASSWORD: Final = b"iggy"
_GENERATED_BYTES: Final = 18
"""24 characters of base 64."""


class RootCredentialsError(ValueError):
    """What was configured is no name or password; the message says what to do, and does not show it."""


class RootOrigin(Enum):
    """Where the password comes from."""

    CONFIGURED = "configured"
    LOOPBACK = "loopback"
    """Iggy's own default: for listeners that only programs of this machine reach."""
    GENERATED = "generated"
    """Nobody knows it yet: it has to be told once."""


@dataclass(slots=True, frozen=True)
class RootCredentials:
    """The root user's name and password."""

    name: str
    password: Secret
    origin: RootOrigin


def root_credentials(
    environment: Mapping[str, str],
    file_text: str | None,
    *,
    loopback_only: bool,
    random: Callable[[int], bytes],
) -> RootCredentials:
    """The credentials by the bootstrap file (one line NAME:PASSWORD; None: there is none), else by the
    environment, else Iggy's default where the listeners are on loopback alone, else a generated password.
    Raises RootCredentialsError.

    `random` gives so many random bytes.
    """
    if file_text is not None:
        name, colon, password = file_text.strip("\r\n").partition(":")
        if not colon:
            raise RootCredentialsError("the file of the root user has one line: NAME:PASSWORD")
        return _checked(name, Secret(password.encode()), RootOrigin.CONFIGURED)
    name = environment.get(NAME_VARIABLE, DEFAULT_NAME)
    if (given := environment.get(PASSWORD_VARIABLE)) is not None:
        return _checked(name, Secret(given.encode(errors="surrogateescape")), RootOrigin.CONFIGURED)
    if loopback_only:
        return _checked(name, Secret(_DEFAULT_PASSWORD), RootOrigin.LOOPBACK)
    generated = Secret(urlsafe_b64encode(random(_GENERATED_BYTES)))
    return _checked(name, generated, RootOrigin.GENERATED)


def is_default(password: Secret) -> bool:
    """Whether a password is the one that the root user has by default, which everybody knows."""
    return password.reveal() == _DEFAULT_PASSWORD


def _checked(name: str, password: Secret, origin: RootOrigin) -> RootCredentials:
    if problem := user_name_problem(name):
        raise RootCredentialsError(f"{problem}: change {NAME_VARIABLE}, or the file of the root user")
    if problem := password_problem(len(password)):
        raise RootCredentialsError(f"{problem}: change {PASSWORD_VARIABLE}, or the file of the root user")
    return RootCredentials(name, password, origin)
