"""Creates the root user of a cluster that has none."""

import logging
from collections.abc import Callable
from enum import Enum

from tank_node.cluster.users.link import UserOutcome, UserRequests
from tank_node.cluster.users.view import UsersView
from tank_node.users.password_threads import Passwords
from tank_node.users.root_credentials import RootCredentials, RootOrigin
from tank_protos.error_codes import ErrorCode
from tank_protos.users.rules import ROOT
from tank_protos.users.secret import Secret

logger = logging.getLogger(__name__)


class _Step(Enum):
    WAITS = "waits"
    AT_WORK = "at_work"
    DONE = "done"


class RootUserFounder:
    """Has the controllers create the root user, once. All brokers may try: the first command wins, and the
    others learn from their views that there is one.
    """

    def __init__(
        self,
        users: UsersView,
        requests: UserRequests,
        passwords: Passwords,
        credentials: RootCredentials,
        told: Callable[[str, Secret], None],
    ) -> None:
        """`told`: gets name and password when the password was generated here, and is the root user's now: it
        is called once at most, and must show them to the operator, and write them nowhere else.
        """
        self._users = users
        self._requests = requests
        self._passwords = passwords
        self._credentials = credentials
        self._told = told
        self._step = _Step.WAITS
        self._encoded = ""
        """The hash that was sent. It stays the same over all tries, by which a try that was carried out, but
        whose answer was lost, is known again."""

    def look(self) -> None:
        """Founds the root user when there is none, and nothing is under way. Called every second or so."""
        if self._step is not _Step.WAITS:
            return
        if self._users.by_number(ROOT) is not None and not self._encoded:
            self._step = _Step.DONE
            return
        self._step = _Step.AT_WORK
        if self._encoded:
            self._ask(self._encoded)
        else:
            self._passwords.make(self._credentials.password, self._ask)

    def _ask(self, encoded: str | None) -> None:
        if encoded is None:
            self._step = _Step.WAITS
            return
        self._encoded = encoded
        self._requests.found_root(self._credentials.name, encoded, self._answered)

    def _answered(self, outcome: UserOutcome) -> None:
        if outcome.error is ErrorCode.NONE:
            self._step = _Step.DONE
            logger.info("the root user %s was created", self._credentials.name)
            if self._credentials.origin is RootOrigin.GENERATED:
                self._told(self._credentials.name, self._credentials.password)
        elif outcome.error is ErrorCode.USER_EXISTS:
            self._step = _Step.DONE  # another broker was first
        else:
            self._step = _Step.WAITS
