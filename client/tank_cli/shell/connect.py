"""Opens the client of a command; an unknown topic becomes advice while the client is open."""

import logging
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from tank_cli.shell.exit_codes import CliError, ExitCode
from tank_cli.shell.nearest import did_you_mean
from tank_cli.shell.output import warn
from tank_client import errors
from tank_client.model import Address, Ends, parse_servers
from tank_client.settings import ClientSettings
from tank_client.sync import Client
from tank_client.wire.sockets import open_socket

PATIENCE_S = 2.0
"""The longest wait for the first connection: enough for a broker that has just been started. After it, the
client's own retries (30 s) bridge a restart.
"""
RETRY_EVERY_S = 0.1
GREETING_S = 10.0
"""The longest wait for the ping that every broker sends first on a connection, for all servers together. A
frozen or starved broker accepts connections and sends nothing; a busy one takes a second or two.
"""
PING = 3
"""The id of the ping, which is its first byte."""
ENDS_PATIENCE_MS = 3_000
"""The longest wait for one broker's answer about the ends of partitions or the positions of a group, so that
dead brokers delay the command little.
"""


@contextmanager
def open_client(servers: str, *, unknown_topic_hint: str = "tank topic create {topic}") -> Iterator[Client]:
    """A client for `with`. Raises CliError at once when no broker answers. An `UnknownTopic` that leaves the
    block names the nearest topic and the command to type."""
    require_server(parse_servers(servers))
    show_warnings()
    with Client(servers=servers) as client:
        try:
            yield client
        except errors.UnknownTopic as error:
            hint = unknown_topic_hint.format(topic=error.topic)
            raise unknown_topic(error.topic, topic_names(client), hint) from error


class ShownWarnings(logging.Handler):
    """Prints the client's warnings as the command's own."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def show_warnings() -> None:
    """Prints the client's warnings on stderr from now on."""
    log = logging.getLogger("tank_client")
    if not any(isinstance(handler, ShownWarnings) for handler in log.handlers):
        log.addHandler(ShownWarnings(logging.WARNING))


def ends_by_leader(servers: str, groups: Iterable[list[tuple[str, int]]]) -> dict[tuple[str, int], Ends]:
    """Returns the ends of (topic, partition)s; each group has a leader of its own. Leaves out partitions
    whose leader does not answer in time or does not know them.
    """
    found: dict[tuple[str, int], Ends] = {}
    with hasty_client(servers) as client:
        for group in groups:
            try:
                found |= client.admin.await_ends(dict.fromkeys(group))
            except (errors.RequestTimedOut, errors.ServerUnreachable):
                continue
            except errors.TankError:  # one partition's error hides the ends of the others
                for route in group:
                    with suppress(errors.TankError):
                        found |= client.admin.await_ends({route: None})
    return found


def hasty_client(servers: str) -> Client:
    """Returns a client, for `with`, whose requests end after `ENDS_PATIENCE_MS`: for questions that a dead
    broker may leave open."""
    return Client(servers=servers, settings=ClientSettings(request_timeout_ms=ENDS_PATIENCE_MS))


def require_server(servers: list[Address]) -> None:
    """Waits until one of the servers accepts a connection and sends its ping. Raises CliError when
    none does.
    """
    deadline = time.monotonic() + PATIENCE_S
    while True:
        reasons = unreachable(servers, max(deadline - time.monotonic(), RETRY_EVERY_S))
        if not reasons:
            return
        if time.monotonic() + RETRY_EVERY_S >= deadline:
            raise CliError(
                f"No broker answers ({reasons}): start one, or name it with --servers HOST:PORT "
                "or TANK_SERVERS.",
                ExitCode.UNREACHABLE,
                hint="tank serve",
            )
        time.sleep(RETRY_EVERY_S)


def unreachable(servers: list[Address], timeout_s: float) -> str:
    """Returns why no server answers as a broker; empty when one does. timeout_s: for each connection; the
    ping has its own time.
    """
    reasons = []
    for server in servers:
        try:
            with open_socket(server, timeout_s) as connected:
                connected.settimeout(max(GREETING_S / len(servers), timeout_s))
                greeted = _greets(connected)
        except OSError as error:
            reasons.append(f"{server}: {reason_of(error)}")
        else:
            if not greeted:
                return ""
            reasons.append(f"{server}: {greeted}")
    return "; ".join(reasons)


def _greets(connected: socket.socket) -> str:
    """What is wrong with the first byte that comes; empty: nothing."""
    try:
        first = connected.recv(1)
    except TimeoutError:
        return f"accepts connections, but sends nothing for {connected.gettimeout():g} s"
    if not first:
        return "closes the connection at once"
    return "" if first[0] == PING else "is no TANK broker"


def reason_of(error: OSError) -> str:
    """Why a connection failed, in the system's words."""
    if isinstance(error, TimeoutError):
        return "no answer"
    return (error.strerror or str(error)).lower()


def topic_names(client: Client) -> list[str]:
    """The names of all topics; none when the broker can't say, because this is asked on the way to
    another error.
    """
    try:
        return [topic.name for topic in client.admin.describe_topics()]
    except errors.TankError:
        return []


def unknown_topic(topic: str, names: list[str], hint: str) -> CliError:
    """The error for an unknown topic, with the nearest name and the command to type."""
    return CliError(
        f"There is no topic {topic!r}.{did_you_mean(topic, names)}",
        ExitCode.NOT_FOUND,
        hint=hint,
    )
