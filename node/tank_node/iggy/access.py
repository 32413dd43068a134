"""Who a client is, and what it may do, as far as sessions ask: an interface, and its form for a broker that
has the root user alone."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hmac import compare_digest
from typing import Final, Protocol

from tank_protos.iggy.errors import IggyError


class Access(Enum):
    """What a command needs. Those from READ_STREAM on are asked for a stream or a topic, by the handler that
    has found it."""

    PUBLIC = "public"
    LOGGED_IN = "logged_in"
    """What the command is about is checked by its handler."""
    READ_SERVERS = "read_servers"
    MANAGE_SERVERS = "manage_servers"
    READ_USERS = "read_users"
    MANAGE_USERS = "manage_users"
    CREATE_STREAM = "create_stream"
    READ_STREAM = "read_stream"
    MANAGE_STREAM = "manage_stream"
    CREATE_TOPIC = "create_topic"
    READ_TOPIC = "read_topic"
    MANAGE_TOPIC = "manage_topic"
    POLL = "poll"
    SEND = "send"


class IggyPrincipal(Protocol):
    """The user that a connection belongs to."""

    @property
    def number(self) -> int:
        """The user's number; the root user has 0."""

    @property
    def name(self) -> str:
        """The user's name."""


@dataclass(slots=True, frozen=True)
class LoginResult:
    """The outcome of a login: an error, or the user."""

    error: IggyError | None
    principal: IggyPrincipal | None = None


class IggyAccess(Protocol):
    """Proves and judges the users of Iggy's clients, for all sessions of a broker."""

    @property
    def anonymous(self) -> IggyPrincipal:
        """Whom clients stand for that can't log in."""

    @property
    def version(self) -> int:
        """Rises with each change of users and permissions: what a session has learned holds for one version.
        """

    def is_current(self, principal: IggyPrincipal) -> bool:
        """Whether the user is still there, is active, and has the password of the login."""

    def allows(
        self, principal: IggyPrincipal, access: Access, stream_born: int = 0, topic_born: int = 0
    ) -> bool:
        """Whether the user may do this with a stream or topic; 0: with all of them."""

    def login(self, name: str, password: str, host: str, done: Callable[[LoginResult], None]) -> None:
        """Proves a user by password, and calls `done` once, at once or later. host: the client's, for the
        log."""

    def login_with_token(self, token: str, host: str, done: Callable[[LoginResult], None]) -> None:
        """As `login`, by a personal access token."""


@dataclass(slots=True, frozen=True)
class SoleUser:
    """A user of a broker that keeps no users."""

    number: int
    name: str


ANONYMOUS_NAME: Final = "iggy-anonymous"
ROOT: Final = "iggy"
"""The name and password of Iggy's root user: of brokers that only this machine reaches."""


class RootAccess:
    """Implements IggyAccess for the root user alone, who may do everything."""

    def __init__(self, name: str = ROOT, password: str = ROOT) -> None:
        self._password = password.encode()
        self._root = SoleUser(0, name)
        self.anonymous: IggyPrincipal = SoleUser(0, ANONYMOUS_NAME)
        self.version = 0

    def is_current(self, principal: IggyPrincipal) -> bool:
        """As IggyAccess: users do not change."""
        return True

    def allows(
        self, principal: IggyPrincipal, access: Access, stream_born: int = 0, topic_born: int = 0
    ) -> bool:
        """As IggyAccess."""
        return True

    def login(self, name: str, password: str, host: str, done: Callable[[LoginResult], None]) -> None:
        """As IggyAccess."""
        is_right = compare_digest(password.encode(), self._password) and name == self._root.name
        done(LoginResult(None, self._root) if is_right else LoginResult(IggyError.INVALID_CREDENTIALS))

    def login_with_token(self, token: str, host: str, done: Callable[[LoginResult], None]) -> None:
        """As IggyAccess: there are no tokens."""
        done(LoginResult(IggyError.INVALID_TOKEN))
