"""Users as tests have them, and passwords that are checked at once, or when a test says so."""

from collections.abc import Callable
from dataclasses import replace

from tank_node.cluster.users.view import TokenView, UsersView, UserView
from tank_node.users.password_threads import PasswordVerdict
from tank_protos.users.permissions import Permissions
from tank_protos.users.secret import Secret
from tank_protos.users.tokens import token_digest


def hashed(password: str) -> str:
    """A stand-in for a hash."""
    return f"hash of {password}"


def user(number: int, name: str, password: str = "secret", *, born: int = 0) -> UserView:
    """An active user without permissions and tokens."""
    born = born or 10 + number
    return UserView(number, name, 5, born, True, hashed(password), born, None, (), ())


def with_token(of: UserView, token: str, expires_us: int = 0) -> UserView:
    """The user with one more token."""
    digest = token_digest(Secret(token.encode()))
    return replace(of, tokens=(*of.tokens, TokenView(f"token {len(of.tokens)}", digest, expires_us)))


def allowed(of: UserView, permissions: Permissions, *births: int) -> UserView:
    """The user with these permissions."""
    return replace(of, permissions=permissions.encode(), births=births)


def view_of(*users: UserView) -> UsersView:
    """A view with these users."""
    view = UsersView()
    view.put(users)
    return view


class StagedPasswords:
    """Implements `Passwords`: answers when `run` is called."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []
        self.checked: list[str] = []
        """The hashes that passwords were checked against."""
        self.is_full = False

    def check(self, encoded: str, password: Secret, done: Callable[[PasswordVerdict], None]) -> None:
        self.checked.append(encoded)
        right = encoded == hashed(password.reveal().decode())
        verdict = PasswordVerdict.RIGHT if right else PasswordVerdict.WRONG
        self.waiting.append(lambda: done(PasswordVerdict.NOT_CHECKED if self.is_full else verdict))

    def make(self, password: Secret, done: Callable[[str | None], None]) -> None:
        encoded = hashed(password.reveal().decode())
        self.waiting.append(lambda: done(None if self.is_full else encoded))

    def run(self) -> None:
        """Answers all that wait."""
        waiting, self.waiting = self.waiting, []
        for answer in waiting:
            answer()
