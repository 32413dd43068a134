"""The one place where commands open a client; and where an unknown topic becomes advice while the client
is open.
"""

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

PATIENCE_S = 2.0
"""For the first connection: a broker that has just been started is there by then, and a person waits no
longer.
Once there was one, the client's own retries (30 s) bridge a restart."""
RETRY_EVERY_S = 0.1
GREETING_S = 10.0
"""For the ping with which every broker greets a connection, all servers together: one that is frozen, or
whose machine has nothing left for it, takes connections and says nothing. A busy one takes a second or
two."""
PING = 3
"""The id of that message, its first byte."""
ENDS_PATIENCE_MS = 3_000
"""For one leader to say how far its partitions reach: who looks at a cluster in trouble doesn't wait long for
the dead."""


@contextmanager
def open_client(servers: str, *, unknown_topic_hint: str = "tank topic create {topic}") -> Iterator[Client]:
    """A client for `with`. Says at once when nobody is there. An `UnknownTopic` that leaves the block names
    the nearest topic and the command to type.
    """
    require_server(parse_servers(servers))
    show_warnings()
    with Client(servers=servers) as client:
        try:
            yield client
        except errors.UnknownTopic as error:
            hint = unknown_topic_hint.format(topic=error.topic)
            raise unknown_topic(error.topic, topic_names(client), hint) from error


class ShownWarnings(logging.Handler):
    """What the client logs as a warning, as this command says one."""

    def emit(self, record: logging.LogRecord) -> None:
        warn(record.getMessage())


def show_warnings() -> None:
    """From now on the client's warnings are on stderr, for the person who typed the command."""
    log = logging.getLogger("tank_client")
    if not any(isinstance(handler, ShownWarnings) for handler in log.handlers):
        log.addHandler(ShownWarnings(logging.WARNING))


def ends_by_leader(servers: str, groups: Iterable[list[tuple[str, int]]]) -> dict[tuple[str, int], Ends]:
    """How far (topic, partition)s reach; each group has a leader of its own. Left out is what it can't tell,
    and all of a leader that doesn't answer in time."""
    found: dict[tuple[str, int], Ends] = {}
    with Client(servers=servers, settings=ClientSettings(request_timeout_ms=ENDS_PATIENCE_MS)) as client:
        for group in groups:
            try:
                found |= client.admin.await_ends(dict.fromkeys(group))
            except (errors.RequestTimedOut, errors.ServerUnreachable):
                continue
            except errors.TankError:  # of one of them: it hides the others' ends
                for route in group:
                    with suppress(errors.TankError):
                        found |= client.admin.await_ends({route: None})
    return found


def require_server(servers: list[Address]) -> None:
    """Waits until one of the servers takes a connection, and greets. CliError when none does."""
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
    """Why none of the servers is a broker that answers; empty when one is. timeout_s: for each connection;
    a greeting has its own time."""
    reasons = []
    for server in servers:
        try:
            with socket.create_connection(server, timeout=timeout_s) as connected:
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
    """What is wrong with the first byte that comes; empty: nothing is."""
    try:
        first = connected.recv(1)
    except TimeoutError:
        return f"takes connections and says nothing for {connected.gettimeout():g} s"
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
    """There is no such topic: the nearest one, and the command to type."""
    return CliError(
        f"There is no topic {topic!r}.{did_you_mean(topic, names)}",
        ExitCode.NOT_FOUND,
        hint=hint,
    )
