"""Logins of Iggy's clients, by name and password or by a token."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Final, TypeAlias

from tank_node.clock import Clock
from tank_node.cluster.users.view import UsersView, UserView
from tank_node.metrics import OK
from tank_node.users.failure_delays import FailureDelays
from tank_node.users.limits import ANSWERS_HELD
from tank_node.users.password_threads import Passwords, PasswordVerdict
from tank_node.users.recent_logins import RecentLogins
from tank_node.users.root_wait import RootWait
from tank_protos.users.rules import password_problem
from tank_protos.users.secret import Secret
from tank_protos.users.tokens import is_expired, token_digest

logger = logging.getLogger(__name__)

Later: TypeAlias = Callable[[int, Callable[[], None]], None]
"""Calls a function on the event loop after so many milliseconds."""
TOKEN: Final = "a token"
"""Stands for the name of a user in the count of failures of one host."""
NOBODYS_HASH: Final = (
    "$argon2id$v=19$m=19456,t=2,p=1$AAECAwQFBgcICQoLDA0ODw$/4VEUzcCvHwXsGKlnFI1PDV4ZjYXgZPiVpjCHQKM+Yw"
)
"""What a password is checked against when there is no user of the name: the answer takes as long as that for
a user with a wrong password. A match would count for nothing."""


class LoginRefusal(Enum):
    """Why a login failed; the value is the label of its count."""

    WRONG_CREDENTIALS = "wrong_credentials"
    WRONG_TOKEN = "wrong_token"
    INACTIVE = "inactive"
    EXPIRED_TOKEN = "expired_token"
    OVERLOADED = "overloaded"
    NO_USERS = "no_users"
    """The cluster has no root user: Iggy's feature level is not in force, or no broker could create it."""


@dataclass(slots=True, frozen=True)
class LoggedIn:
    """Who a session belongs to, and by what it was proved."""

    number: int
    name: str
    born: int
    """The user's birth: another user may have its number later."""
    credentials_index: int = 0
    """The entry that set the password; 0 for a login by token."""
    token: bytes = field(default=b"", repr=False)
    """The token's digest; empty for a login by password."""


ANONYMOUS_USER: Final = LoggedIn(0xFFFF_FFFF, "iggy-anonymous", 0)
"""Who never logs in, on a listener that takes such clients. It is no user of the cluster."""


@dataclass(slots=True, frozen=True)
class LoginOutcome:
    """The outcome of a login: one of the two is None."""

    refusal: LoginRefusal | None
    user: LoggedIn | None = None


LoginDone: TypeAlias = Callable[[LoginOutcome], None]


class UserLogins:
    """Judges logins by the broker's view. Only the event loop's thread calls its methods.

    The controllers are not asked, so that clients can log in while none of them leads.
    """

    def __init__(
        self,
        users: UsersView,
        passwords: Passwords,
        recent: RecentLogins,
        clock: Clock,
        later: Later,
        counts: Counter[str],
    ) -> None:
        """`counts`: logins by outcome, OK or the value of a LoginRefusal."""
        self._users = users
        self._passwords = passwords
        self._recent = recent
        self._clock = clock
        self._later = later
        self._counts = counts
        self._delays = FailureDelays()
        self._root = RootWait(users, clock, later)
        self._held = 0
        """Answers of failures that are held back."""

    def by_password(self, name: str, password: Secret, host: str, done: LoginDone) -> None:
        """Logs in by name and password. `host`: the client's; `done` gets the outcome, once, on the loop,
        perhaps at once. Without a root user the login waits for one, up to ROOT_WAIT_MS.
        """
        if not self._root.is_over:
            self._wait(partial(self.by_password, name, password, host, done), done)
            return
        user = self._users.by_name(name)
        if password_problem(len(password)) is not None:
            self._fail(LoginRefusal.WRONG_CREDENTIALS, name, host, done)
            return
        if user is not None and self._recent.knows(user.password_hash, password, self._clock.monotonic_ms()):
            self._proved(user, host, done)
            return

        def checked(verdict: PasswordVerdict) -> None:
            self._checked(verdict, user, name, password, host, done)

        self._passwords.check(user.password_hash if user else NOBODYS_HASH, password, checked)

    def by_token(self, token: Secret, host: str, done: LoginDone) -> None:
        """Logs in by a token; as `by_password`."""
        if not self._root.is_over:
            self._wait(partial(self.by_token, token, host, done), done)
            return
        digest = token_digest(token)
        found = self._users.by_token(digest)
        if found is None:
            self._fail(LoginRefusal.WRONG_TOKEN, TOKEN, host, done)
            return
        user, known = found
        if is_expired(known.expires_us, self._clock.now_ms() * 1000):
            self._fail(LoginRefusal.EXPIRED_TOKEN, TOKEN, host, done)
        elif not user.active:
            self._fail(LoginRefusal.INACTIVE, TOKEN, host, done)
        else:
            self._succeed(LoggedIn(user.number, user.name, user.born, token=digest), TOKEN, host, done)

    def is_current(self, who: LoggedIn) -> bool:
        """Whether the session of this user may go on: the user is there and active, and what proved it still
        would. It changes with `UsersView.version`, and when a token expires.
        """
        if who is ANONYMOUS_USER:
            return True
        user = self._users.by_number(who.number)
        if user is None or user.born != who.born or not user.active:
            return False
        if not who.token:
            return user.credentials_index == who.credentials_index
        found = self._users.by_token(who.token)
        return found is not None and not is_expired(found[1].expires_us, self._clock.now_ms() * 1000)

    def after_own_change(self, who: LoggedIn, password_hash: str = "") -> LoggedIn:
        """Who the session belongs to after it has changed users: one that set its own password, of this hash,
        goes on. Another password is another session's, or nobody's here: each hash has a salt of its own.
        """
        user = self._users.by_number(who.number)
        if user is None or user.born != who.born:
            return who
        is_own = not who.token and user.password_hash == password_hash
        index = user.credentials_index if is_own else who.credentials_index
        return LoggedIn(user.number, user.name, user.born, index, who.token)

    def _wait(self, judge: Callable[[], None], done: LoginDone) -> None:
        """Judges a login when the cluster has users."""
        if not self._root.hold(judge, partial(self._refuse, LoginRefusal.NO_USERS, done)):
            self._refuse(LoginRefusal.OVERLOADED, done)

    def _checked(
        self,
        verdict: PasswordVerdict,
        user: UserView | None,
        name: str,
        password: Secret,
        host: str,
        done: LoginDone,
    ) -> None:
        if verdict is PasswordVerdict.NOT_CHECKED:
            self._refuse(LoginRefusal.OVERLOADED, done)
        elif verdict is PasswordVerdict.WRONG or user is None:
            self._fail(LoginRefusal.WRONG_CREDENTIALS, name, host, done)
        else:
            self._recent.remember(user.password_hash, password, self._clock.monotonic_ms())
            self._proved(user, host, done)

    def _proved(self, user: UserView, host: str, done: LoginDone) -> None:
        """The password is that of `user`, who may have changed since it was looked up."""
        present = self._users.by_number(user.number)
        if present is None or (present.born, present.credentials_index) != (
            user.born,
            user.credentials_index,
        ):
            self._fail(LoginRefusal.WRONG_CREDENTIALS, user.name, host, done)
        elif not present.active:
            self._fail(LoginRefusal.INACTIVE, user.name, host, done)
        else:
            who = LoggedIn(present.number, present.name, present.born, present.credentials_index)
            self._succeed(who, user.name, host, done)

    def _succeed(self, who: LoggedIn, name: str, host: str, done: LoginDone) -> None:
        self._counts[OK] += 1
        self._delays.succeeded(name, host)
        done(LoginOutcome(None, who))

    def _fail(self, refusal: LoginRefusal, name: str, host: str, done: LoginDone) -> None:
        """Answers a failure after a while."""
        delay_ms = self._delays.failed(name, host, self._clock.monotonic_ms())
        # A name that is no user's may be a password that was typed into the wrong field.
        known = f"user {name}" if self._users.by_name(name) is not None else "no known user"
        logger.info("a login from %s failed: %s (%s)", host, refusal.value, known)
        if self._held >= ANSWERS_HELD:
            self._refuse(LoginRefusal.OVERLOADED, done)
            return
        self._held += 1

        def answer() -> None:
            self._held -= 1
            self._refuse(refusal, done)

        self._later(delay_ms, answer)

    def _refuse(self, refusal: LoginRefusal, done: LoginDone) -> None:
        self._counts[refusal.value] += 1
        done(LoginOutcome(refusal))
