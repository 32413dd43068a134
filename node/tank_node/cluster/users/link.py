"""What a broker asks of the controllers about users, as an interface for rooms that do no I/O.

`done` is called once, on the event loop, at once or later. When it is called without an error, the view has
the change.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tank_node.cluster.users.view import UserView
from tank_protos.error_codes import ErrorCode
from tank_protos.users.permissions import Permissions


@dataclass(slots=True)
class NewUser:
    """A user to create."""

    name: str
    password_hash: str = field(repr=False)
    active: bool = True
    permissions: Permissions | None = None


@dataclass(slots=True, frozen=True)
class UserOutcome:
    """The outcome of a change of users. `message` explains an error, and is empty without one."""

    error: ErrorCode
    message: str = ""
    number: int = 0
    """The number of the user that was created."""


UserDone: TypeAlias = Callable[[UserOutcome], None]


class UserRequests(Protocol):
    """Changes of users. Below feature level 5 all fail with LEVEL_TOO_LOW; each may fail with OVERLOADED and
    TIMED_OUT, too. Those that take a user fail with UNKNOWN_USER when it is gone, also when another one has
    its number or name by now.
    """

    def found_root(self, name: str, password_hash: str, done: UserDone) -> None:
        """Creates the root user. Errors: USER_EXISTS (there is one, with another hash), INVALID_NAME."""

    def create_user(self, user: NewUser, done: UserDone) -> None:
        """Creates a user. Errors: USER_EXISTS, INVALID_NAME, LIMIT_REACHED; INVALID_REQUEST while there is no
        root user."""

    def delete_user(self, user: UserView, done: UserDone) -> None:
        """Deletes a user with its tokens. Errors: ROOT_USER."""

    def update_user(self, user: UserView, name: str | None, active: bool | None, done: UserDone) -> None:
        """Renames a user, or makes it active or inactive; None: unchanged. Errors: USER_EXISTS (the name is
        another's), INVALID_NAME, ROOT_USER (it stays active)."""

    def change_password(self, user: UserView, password_hash: str, done: UserDone) -> None:
        """Sets a user's password. Sessions that began with the old one end. Errors: STALE_USER (the user has
        another password than `user`)."""

    def update_permissions(self, user: UserView, permissions: Permissions | None, done: UserDone) -> None:
        """Sets a user's permissions in the streams and topics of this broker's view; None: it has none.
        Errors: ROOT_USER, TOO_LARGE, LIMIT_REACHED (the documents of all users together)."""

    def create_token(self, user: UserView, name: str, digest: bytes, expires_us: int, done: UserDone) -> None:
        """Creates a token, of which the digest is kept; `expires_us`: microseconds of the epoch, 0: never.
        Errors: TOKEN_EXISTS (the user has one of this name), INVALID_NAME, LIMIT_REACHED, STALE_USER (a token
        was deleted that `user` still has)."""

    def delete_token(self, user: UserView, name: str, done: UserDone) -> None:
        """Deletes a token. Errors: UNKNOWN_TOKEN."""
