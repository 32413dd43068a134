"""The users of Iggy's clients in a broker's copy of the metadata, as the controllers have them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from tank_protos.generated import control_pb2 as pb


@dataclass(slots=True, frozen=True)
class TokenView:
    """A personal access token of a user. The token itself is nowhere."""

    name: str
    digest: bytes = field(repr=False)
    """Its SHA-256."""
    expires_us: int
    """Microseconds of the epoch; 0: never."""


@dataclass(slots=True, frozen=True)
class UserView:
    """A user. Every change puts another object in its place: keep number and `born`, not the object."""

    number: int
    """From 0, which is the root user's; numbers of deleted users are given again."""
    name: str
    created_ms: int
    born: int
    """The entry that created it: never that of another user."""
    active: bool
    password_hash: str = field(repr=False)
    credentials_index: int
    """The entry that set the password."""
    permissions: bytes | None
    """Iggy's document, with numbers from 0; None: the user was given none."""
    births: tuple[int, ...]
    """The entries that had made the streams and topics in it (`tank_node.users.rights`)."""
    tokens: tuple[TokenView, ...]
    """In the order in which they were created."""
    token_deleted_index: int = 0
    """The last entry that deleted one of its tokens."""


class UsersView:
    """All users of the cluster, by number, name and token."""

    __slots__ = ("_by_digest", "_by_name", "_by_number", "version")

    def __init__(self) -> None:
        self.version = 0
        """Rises with every change of a user: what was judged at another version has to be judged again."""
        self._by_number: dict[int, UserView] = {}
        self._by_name: dict[str, UserView] = {}
        self._by_digest: dict[bytes, int] = {}
        """The numbers of users by the digests of their tokens."""

    def by_number(self, number: int) -> UserView | None:
        """The user of this number."""
        return self._by_number.get(number)

    def by_name(self, name: str) -> UserView | None:
        """The user of this name."""
        return self._by_name.get(name)

    def by_token(self, digest: bytes) -> tuple[UserView, TokenView] | None:
        """The token with this digest, whether it has expired or not, and its user."""
        number = self._by_digest.get(digest)
        if number is None:
            return None
        user = self._by_number[number]
        return user, next(token for token in user.tokens if token.digest == digest)

    def all(self) -> list[UserView]:
        """All users by number."""
        return [self._by_number[number] for number in sorted(self._by_number)]

    def __len__(self) -> int:
        return len(self._by_number)

    def __eq__(self, other: object) -> bool:
        """Whether both have the same users, by whatever changes."""
        return isinstance(other, UsersView) and self._by_number == other._by_number

    __hash__ = None  # type: ignore[assignment]

    def put(self, users: Iterable[UserView], removed: Iterable[int] = ()) -> None:
        """Removes users, then takes new and changed ones: a name may have gone from one to another."""
        gone = list(removed)
        came = list(users)
        if not gone and not came:
            return
        for number in [*gone, *(user.number for user in came)]:
            self._take_out(number)
        for user in came:
            self._by_number[user.number] = self._by_name[user.name] = user
            self._by_digest.update((token.digest, user.number) for token in user.tokens)
        self.version += 1

    def replace(self, users: Iterable[UserView]) -> None:
        """Replaces all users."""
        present = list(users)
        kept = {user.number for user in present}
        self.put(present, [number for number in self._by_number if number not in kept])

    def _take_out(self, number: int) -> None:
        user = self._by_number.pop(number, None)
        if user is not None:
            del self._by_name[user.name]
            for token in user.tokens:
                del self._by_digest[token.digest]


def user_view(user: pb.User) -> UserView:
    """A user as the controllers' messages hold it."""
    return UserView(
        number=user.number,
        name=user.name,
        created_ms=user.created_ms,
        born=user.born,
        active=not user.inactive,
        password_hash=user.password_hash,
        credentials_index=user.credentials_index,
        permissions=user.permissions if user.HasField("permissions") else None,
        births=tuple(user.births),
        tokens=tuple(TokenView(token.name, token.digest, token.expires_us) for token in user.tokens),
        token_deleted_index=user.token_deleted_index,
    )
