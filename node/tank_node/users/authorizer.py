"""Decides what users of Iggy's clients may do, by the broker's view."""

from typing import Final

from tank_node.cluster.users.view import UsersView, UserView
from tank_node.users.logins import ANONYMOUS_USER, LoggedIn
from tank_node.users.rights import ALL_OF_STREAMS, EVERYTHING, NO_RIGHTS, IggyAction, UserRights, rights_of
from tank_protos.users.permissions import PermissionsError, decode
from tank_protos.users.rules import ROOT

_ROOT_RIGHTS: Final = UserRights(EVERYTHING, {}, {})
_ANONYMOUS_RIGHTS: Final = UserRights(ALL_OF_STREAMS, {}, {})


class IggyAuthorizer:
    """Judges requests by the permissions of the session's user, at the view's present version."""

    __slots__ = ("_kept", "_users")

    def __init__(self, users: UsersView) -> None:
        self._users = users
        self._kept: dict[int, tuple[UserView, UserRights]] = {}
        """By number: the rights of a user, and the object that they were made of."""

    @property
    def version(self) -> int:
        """Rises with each change of a user: a verdict holds for the version in which it was given."""
        return self._users.version

    def allows(self, who: LoggedIn, action: IggyAction, stream_born: int = 0, topic_born: int = 0) -> bool:
        """Whether the user may do this, with the stream and topic that were made by these entries; 0 for a
        request that is about none, or about one that doesn't exist.
        """
        return self._rights(who).allow(action, stream_born, topic_born)

    def _rights(self, who: LoggedIn) -> UserRights:
        if who is ANONYMOUS_USER:
            return _ANONYMOUS_RIGHTS
        user = self._users.by_number(who.number)
        if user is None or user.born != who.born or not user.active:
            return NO_RIGHTS
        if user.number == ROOT:
            return _ROOT_RIGHTS
        kept = self._kept.get(user.number)
        if kept is not None and kept[0] is user:
            return kept[1]
        rights = _judged(user)
        self._kept[user.number] = user, rights
        return rights


def _judged(user: UserView) -> UserRights:
    if user.permissions is None:
        return NO_RIGHTS
    try:
        return rights_of(decode(user.permissions), user.births)
    except PermissionsError:  # of a newer version, whose controllers judge documents otherwise
        return NO_RIGHTS
