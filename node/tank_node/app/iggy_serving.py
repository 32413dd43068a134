"""What serves Iggy's clients in a broker's process: their sessions' parts, and the root user of a new
cluster."""

import asyncio
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tank_node.app.config import ANY_ERA, NodeConfig
from tank_node.app.host_facts import HostWatch
from tank_node.app.ports import ListenError, Port
from tank_node.app.recent_log import RecentLog
from tank_node.app.snapshot_maker import SnapshotMaker
from tank_node.broker.broker import Broker
from tank_node.iggy.access import IggyAccess
from tank_node.iggy.dispatch import open_session
from tank_node.iggy.services import IggyServices
from tank_node.iggy.session import IggySession
from tank_node.iggy.settings import IggySettings
from tank_node.limits import SNAPSHOT_LOG_CHARS, SNAPSHOT_LOG_LINES
from tank_node.users.argon2_hasher import Argon2Hasher
from tank_node.users.authorizer import IggyAuthorizer
from tank_node.users.logins import UserLogins
from tank_node.users.password_threads import PasswordThreads
from tank_node.users.reachable_logins import ReachableLogins
from tank_node.users.recent_logins import RecentLogins
from tank_node.users.root_credentials import RootCredentials, RootCredentialsError, root_credentials
from tank_node.users.root_founder import RootUserFounder
from tank_protos import feature_levels
from tank_protos.users.secret import Secret

logger = logging.getLogger(__name__)

PASSWORD_FILE_VARIABLE: Final = "IGGY_ROOT_PASSWORD_FILE"
"""Names the file with the root user's name and password, in one line."""
_LOOK_S: Final = 1.0
_KEY_BYTES: Final = 32


class IggyServing:
    """Iggy's protocol of one process. Made on the event loop, after the broker."""

    def __init__(
        self,
        config: NodeConfig,
        port: Port,
        broker: Broker,
        loop: asyncio.AbstractEventLoop,
        metrics: Callable[[], bytes],
    ) -> None:
        """metrics: the broker's metrics as text. Raises ListenError for a root user that can't be configured
        so."""
        view, requests = broker.link.view, broker.link.requests
        is_local = port.address.is_loopback
        self._broker = broker
        self._loop = loop
        self._passwords = PasswordThreads(self._post, Argon2Hasher())
        recent = RecentLogins(os.urandom(_KEY_BYTES))
        logins = (UserLogins if is_local else ReachableLogins)(
            view.users, self._passwords, recent, broker.clock, self._later, broker.metrics.logins
        )
        access = IggyAccess(logins, IggyAuthorizer(view.users), self._passwords, os.urandom)
        anonymous = config.iggy_anonymous
        settings = IggySettings(
            "" if config.iggy_era == ANY_ERA else config.iggy_era,
            is_local if anonymous is None else anonymous,
            config.iggy_poll_wait_ms,
            config.iggy_heartbeat,
            config.iggy_format,
            port.address.port,
        )
        self._log = RecentLog(SNAPSHOT_LOG_LINES, SNAPSHOT_LOG_CHARS)
        logging.getLogger().addHandler(self._log)
        snapshots = SnapshotMaker(config, self._log, self._facts, metrics, self._post)
        self._services = IggyServices(access, settings, HostWatch(str(config.data)).look, snapshots)
        credentials = _root_credentials(is_local=is_local)
        self._founder = RootUserFounder(view.users, requests.users, self._passwords, credentials, _tell)
        self._waits = False
        """Whether the feature level of Iggy's clients was not in force at the last look."""
        self._timer = loop.call_soon(self._look)

    def open_session(self) -> IggySession:
        """Makes the session of a client that has connected."""
        return open_session(self._broker, self._services)

    def close(self) -> None:
        """Ends the threads and the look at the root user."""
        self._timer.cancel()
        self._passwords.close()
        logging.getLogger().removeHandler(self._log)

    def _facts(self) -> dict[str, object]:
        view = self._broker.link.view
        return {
            "cluster": view.cluster_id,
            "broker": view.broker_id,
            "feature level": view.feature_level,
            "brokers": len(view.brokers),
            "topics": sum(1 for _ in view.topics()),
            "partitions here": sum(1 for _ in self._broker.partitions()),
        }

    def _look(self) -> None:
        level = self._broker.link.view.feature_level
        if level >= feature_levels.IGGY:
            self._founder.look()
        waits = level < feature_levels.IGGY
        if waits is not self._waits:
            self._waits = waits
            _tell_level(level)
        self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _post(self, call: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._in_tick, call)

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._loop.call_later(delay_ms / 1000, self._in_tick, call)

    def _in_tick(self, call: Callable[[], None]) -> None:
        """Calls within a tick of the broker, as sessions expect it."""
        self._broker.begin_tick()
        call()
        self._broker.wake()


def _tell_level(level: int) -> None:
    """Logs that Iggy's clients wait for their feature level, or that they wait no more."""
    needed = feature_levels.IGGY
    if level < needed:
        logger.warning(
            "Iggy's clients can't log in yet: they wait for feature level %d, and level %d is in force; it "
            "rises when all processes know the next one: `tank cluster status` says what it waits for",
            needed,
            level,
        )
    else:
        logger.info("feature level %d is in force: Iggy's clients can log in", level)


def _root_credentials(*, is_local: bool) -> RootCredentials:
    file = os.environ.get(PASSWORD_FILE_VARIABLE, "")
    try:
        text = Path(file).read_text() if file else None
        return root_credentials(os.environ, text, loopback_only=is_local, random=os.urandom)
    except (OSError, UnicodeDecodeError) as error:
        raise ListenError(f"--iggy: {PASSWORD_FILE_VARIABLE}: {file} can't be read: {error}") from None
    except RootCredentialsError as error:
        raise ListenError(f"--iggy: {error}") from None


def _tell(name: str, password: Secret) -> None:
    """Shows a generated password, once, to whoever has started the process."""
    sys.stderr.write(
        f"Iggy's root user is {name}, with the password {password.reveal().decode()}: it is not shown again\n"
    )
