"""Who Iggy's clients are, and what they may do, as far as sessions ask."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from tank_node.users.authorizer import IggyAuthorizer
from tank_node.users.logins import UserLogins
from tank_node.users.password_threads import Passwords


class CommandAccess(Enum):
    """Who may send a command, apart from those that need a permission which is about no stream."""

    PUBLIC = "public"
    LOGGED_IN = "logged_in"
    """What the command is about is checked by its handler."""


@dataclass(slots=True, frozen=True)
class IggyAccess:
    """What proves and judges the users of Iggy's clients, for all sessions of a broker."""

    logins: UserLogins
    authorizer: IggyAuthorizer
    passwords: Passwords
    random: Callable[[int], bytes]
    """Returns so many random bytes, for tokens."""
