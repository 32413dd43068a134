"""The users of Iggy's clients, as a part of the cluster's state. Plain data: commands change it."""

from dataclasses import dataclass, field
from typing import Final

from tank_protos.users.rules import ROOT

FIRST_OF_OTHERS: Final = ROOT + 1


@dataclass(slots=True, frozen=True)
class TokenState:
    """A personal access token, of which the cluster keeps a digest alone."""

    name: str
    digest: bytes = field(repr=False)
    """The token's SHA-256."""
    expires_us: int
    """Microseconds of the epoch; 0: never."""


@dataclass(slots=True, frozen=True)
class UserState:
    """A user. Replaced, never changed: a snapshot may be reading it."""

    number: int
    """From 0; the lowest free one when the user was created."""
    name: str
    created_ms: int
    born: int
    """The entry that created it. A user with the number of a deleted one is another user."""
    password_hash: str = field(repr=False)
    credentials_index: int
    """The entry that set the password."""
    active: bool = True
    permissions: bytes | None = None
    """Iggy's document as it was given, with numbers from 0."""
    births: tuple[int, ...] = ()
    """For each stream and topic in it: the entry that had made it when the document was given; 0: none."""
    tokens: tuple[TokenState, ...] = ()
    """In the order in which they were created; each name once."""
    token_deleted_index: int = 0
    """The last entry that deleted one of its tokens."""


@dataclass(slots=True)
class UsersState:
    """All users, and what follows from them."""

    by_number: dict[int, UserState] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)
    """By name."""
    owners: dict[bytes, int] = field(default_factory=dict, repr=False)
    """The numbers of users by the digests of their tokens."""
    permissions_bytes: int = 0
    """Of the documents of all users."""

    def user(self, number: int, born: int) -> UserState | None:
        """The user with this number, if it is the one that this entry created."""
        user = self.by_number.get(number)
        return user if user is not None and user.born == born else None

    def named(self, name: str) -> UserState | None:
        """The user with this name."""
        number = self.numbers.get(name)
        return None if number is None else self.by_number[number]

    def lowest_free(self) -> int:
        """The number of the next user. 0 is the root user's alone."""
        number = FIRST_OF_OTHERS
        while number in self.by_number:
            number += 1
        return number

    def put(self, user: UserState) -> None:
        """Adds a user, or puts its new state in the place of the old one."""
        self.remove(user.number)
        self.by_number[user.number] = user
        self.numbers[user.name] = user.number
        self.owners.update((token.digest, user.number) for token in user.tokens)
        self.permissions_bytes += len(user.permissions or b"")

    def remove(self, number: int) -> None:
        """Removes the user with this number, if there is one."""
        user = self.by_number.pop(number, None)
        if user is None:
            return
        del self.numbers[user.name]
        for token in user.tokens:
            del self.owners[token.digest]
        self.permissions_bytes -= len(user.permissions or b"")
