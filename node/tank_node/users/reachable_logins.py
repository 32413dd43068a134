"""Logins by a listener that other machines reach."""

import logging

from tank_node.users.logins import LoginDone, LoginRefusal, UserLogins
from tank_node.users.root_credentials import is_default
from tank_protos.users.rules import ROOT
from tank_protos.users.secret import Secret

logger = logging.getLogger(__name__)


class ReachableLogins(UserLogins):
    """As UserLogins, but nobody is the root user by Iggy's default password: a broker of the cluster whose
    listener is on loopback may have given it that one, which everybody knows."""

    def by_password(self, name: str, password: Secret, host: str, done: LoginDone) -> None:
        user = self._users.by_name(name)
        if user is not None and user.number == ROOT and is_default(password):
            logger.warning(
                "a login of the root user from %s with the default password is refused: by this listener, "
                "which isn't on loopback, it needs another password: tank iggy user password %s",
                host,
                user.name,
            )
            self._fail(LoginRefusal.WRONG_CREDENTIALS, name, host, done)
            return
        super().by_password(name, password, host, done)
