"""The handler of each of Iggy's commands, and the making of sessions that call these handlers: the only table
of commands, which docs/protocol/iggy.md and the tests follow.

A handler's module, and the messages that it imports, are imported at the first request for it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Final

from tank_node.broker.broker import Broker
from tank_node.iggy.access import CommandAccess
from tank_node.iggy.clients import note_session
from tank_node.iggy.services import IggyServices
from tank_node.iggy.session import EVERY_ERA, Carries, IggyCall, IggyCommand, IggySession
from tank_node.users.rights import IggyAction
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A1, A3, B2, V11

_CLASSIC: Final = range(A1.version, V11.version)
_FRAMED: Final = range(V11.version, EVERY_ERA.stop)


def open_session(broker: Broker, services: IggyServices) -> IggySession:
    """Makes the session of a connection with an Iggy client."""
    session = IggySession(broker, COMMANDS, services)
    note_session(broker, session)
    return session


def _since(version: int) -> range:
    return range(version, EVERY_ERA.stop)


def _at_first_use(module: str, function: str) -> Callable[[IggyCall, memoryview], None]:
    """Returns a handler that imports a module of this room, and puts its function into its row, where the
    next requests find it."""

    def handle(call: IggyCall, payload: memoryview) -> None:
        found = getattr(import_module(f"tank_node.iggy.{module}"), function)
        assert call.command is not None
        call.command.handle = found
        found(call, payload)

    return handle


def _row(
    code: IggyCode,
    module: str,
    access: CommandAccess | IggyAction = CommandAccess.LOGGED_IN,
    eras: range = EVERY_ERA,
    function: str = "",
    carries: Carries = Carries.FIELDS,
) -> IggyCommand:
    handle = _at_first_use(module, function or code.name.lower())
    return IggyCommand(code, handle, access, eras, carries, code in _CHANGES)


_CHANGES: Final = frozenset(
    {
        IggyCode.CREATE_USER,
        IggyCode.DELETE_USER,
        IggyCode.UPDATE_USER,
        IggyCode.UPDATE_PERMISSIONS,
        IggyCode.CHANGE_PASSWORD,
        IggyCode.DELETE_STREAM,
        IggyCode.UPDATE_STREAM,
        IggyCode.PURGE_STREAM,
        IggyCode.CREATE_TOPIC,
        IggyCode.DELETE_TOPIC,
        IggyCode.UPDATE_TOPIC,
        IggyCode.PURGE_TOPIC,
        IggyCode.ADD_PARTITIONS,
        IggyCode.REMOVE_PARTITIONS,
        IggyCode.DELETE_SEGMENTS,
        IggyCode.CREATE_CONSUMER_GROUP,
        IggyCode.DELETE_CONSUMER_GROUP,
    }
)
"""The commands that change or remove what they name, or make something in it. Streams, topics, groups and
users may get other names, so each of these is looked up in a view that is not behind."""

_ROWS: Final = (
    _row(IggyCode.PING, "system", CommandAccess.PUBLIC),
    _row(IggyCode.GET_STATS, "system", IggyAction.READ_SERVERS),
    _row(IggyCode.GET_SNAPSHOT, "snapshots", IggyAction.MANAGE_SERVERS, _since(A3.version)),
    _row(IggyCode.GET_CLUSTER_METADATA, "system", eras=_since(B2.version)),
    _row(IggyCode.DESCRIBE_OPTIONS, "system", eras=_FRAMED),
    _row(IggyCode.ATTACH_CONSUMER_SESSION, "routes", eras=_FRAMED),
    _row(IggyCode.GET_ME, "system"),
    _row(IggyCode.GET_CLIENT, "system", IggyAction.READ_SERVERS),
    _row(IggyCode.GET_CLIENTS, "system", IggyAction.READ_SERVERS),
    _row(IggyCode.LOGIN_USER, "logins", CommandAccess.PUBLIC, _CLASSIC),
    _row(IggyCode.LOGIN_WITH_TOKEN, "logins", CommandAccess.PUBLIC, _CLASSIC),
    _row(IggyCode.LOGIN_SESSION, "logins", CommandAccess.PUBLIC, _FRAMED),
    _row(IggyCode.LOGOUT_USER, "logins", eras=_since(A1.version)),
    _row(IggyCode.GET_USER, "users", eras=_since(A1.version)),
    _row(IggyCode.GET_USERS, "users", IggyAction.READ_USERS, _since(A1.version)),
    _row(IggyCode.CREATE_USER, "users", IggyAction.MANAGE_USERS, _since(A1.version)),
    _row(IggyCode.DELETE_USER, "users", IggyAction.MANAGE_USERS, _since(A1.version)),
    _row(IggyCode.UPDATE_USER, "users", IggyAction.MANAGE_USERS, _since(A1.version)),
    _row(IggyCode.UPDATE_PERMISSIONS, "users", IggyAction.MANAGE_USERS, _since(A1.version)),
    _row(IggyCode.CHANGE_PASSWORD, "users", eras=_since(A1.version)),
    _row(IggyCode.GET_TOKENS, "tokens", eras=_since(A1.version)),
    _row(IggyCode.CREATE_TOKEN, "tokens", eras=_since(A1.version)),
    _row(IggyCode.DELETE_TOKEN, "tokens", eras=_since(A1.version)),
    _row(IggyCode.GET_STREAM, "streams"),
    _row(IggyCode.GET_STREAMS, "streams"),
    _row(IggyCode.CREATE_STREAM, "streams", IggyAction.CREATE_STREAM),
    _row(IggyCode.DELETE_STREAM, "streams"),
    _row(IggyCode.UPDATE_STREAM, "streams", eras=_since(A1.version)),
    _row(IggyCode.PURGE_STREAM, "streams", eras=_since(A1.version)),
    _row(IggyCode.GET_TOPIC, "topics"),
    _row(IggyCode.GET_TOPICS, "topics"),
    _row(IggyCode.CREATE_TOPIC, "topics"),
    _row(IggyCode.DELETE_TOPIC, "topics"),
    _row(IggyCode.UPDATE_TOPIC, "topics", eras=_since(A1.version)),
    _row(IggyCode.PURGE_TOPIC, "topics", eras=_since(A1.version)),
    _row(IggyCode.ADD_PARTITIONS, "partitions"),
    _row(IggyCode.REMOVE_PARTITIONS, "partitions"),
    _row(IggyCode.FLUSH_MESSAGES, "partitions", eras=_since(A1.version)),
    _row(IggyCode.DELETE_SEGMENTS, "partitions", eras=_since(A3.version)),
    _row(IggyCode.SEND_MESSAGES, "send", carries=Carries.MESSAGES),
    _row(IggyCode.POLL_MESSAGES, "poll"),
    _row(IggyCode.GET_POLL_ROUTE, "routes", eras=_FRAMED),
    _row(IggyCode.POLL_ON_PRIMARY, "poll", eras=_FRAMED, function="poll_messages"),
    _row(IggyCode.GET_CONSUMER_OFFSET, "offsets"),
    _row(IggyCode.STORE_CONSUMER_OFFSET, "offsets"),
    _row(IggyCode.DELETE_CONSUMER_OFFSET, "offsets", eras=_since(A1.version)),
    _row(IggyCode.GET_OFFSET_ROUTE, "routes", eras=_FRAMED),
    _row(IggyCode.GET_CONSUMER_GROUP, "groups"),
    _row(IggyCode.GET_CONSUMER_GROUPS, "groups"),
    _row(IggyCode.CREATE_CONSUMER_GROUP, "groups"),
    _row(IggyCode.DELETE_CONSUMER_GROUP, "groups"),
    _row(IggyCode.JOIN_CONSUMER_GROUP, "groups"),
    _row(IggyCode.LEAVE_CONSUMER_GROUP, "groups"),
    _row(IggyCode.SYNC_CONSUMER_GROUP, "groups", eras=_FRAMED),
)
COMMANDS: Final[dict[int, IggyCommand]] = {int(row.code): row for row in _ROWS}
"""By code. A command without a row, or of another era, is answered with INVALID_COMMAND."""
