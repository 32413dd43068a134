"""The numbers of commands: codes, which all eras have, and operations, by which VSR requests are sorted."""

from enum import IntEnum
from typing import Final


class IggyCode(IntEnum):
    """A command."""

    PING = 1
    GET_STATS = 10
    GET_SNAPSHOT = 11
    GET_CLUSTER_METADATA = 12
    DESCRIBE_OPTIONS = 13
    ATTACH_CONSUMER_SESSION = 14
    GET_ME = 20
    GET_CLIENT = 21
    GET_CLIENTS = 22
    GET_USER = 31
    GET_USERS = 32
    CREATE_USER = 33
    DELETE_USER = 34
    UPDATE_USER = 35
    UPDATE_PERMISSIONS = 36
    CHANGE_PASSWORD = 37
    LOGIN_USER = 38
    LOGOUT_USER = 39
    LOGIN_SESSION = 40
    GET_TOKENS = 41
    CREATE_TOKEN = 42
    DELETE_TOKEN = 43
    LOGIN_WITH_TOKEN = 44
    LOGIN_SESSION_WITH_TOKEN = 45
    POLL_MESSAGES = 100
    SEND_MESSAGES = 101
    FLUSH_MESSAGES = 102
    GET_POLL_ROUTE = 103
    POLL_ON_PRIMARY = 104
    GET_CONSUMER_OFFSET = 120
    STORE_CONSUMER_OFFSET = 121
    DELETE_CONSUMER_OFFSET = 122
    GET_OFFSET_ROUTE = 123
    GET_STREAM = 200
    GET_STREAMS = 201
    CREATE_STREAM = 202
    DELETE_STREAM = 203
    UPDATE_STREAM = 204
    PURGE_STREAM = 205
    GET_TOPIC = 300
    GET_TOPICS = 301
    CREATE_TOPIC = 302
    DELETE_TOPIC = 303
    UPDATE_TOPIC = 304
    PURGE_TOPIC = 305
    ADD_PARTITIONS = 402
    REMOVE_PARTITIONS = 403
    DELETE_SEGMENTS = 503
    GET_CONSUMER_GROUP = 600
    GET_CONSUMER_GROUPS = 601
    CREATE_CONSUMER_GROUP = 602
    DELETE_CONSUMER_GROUP = 603
    JOIN_CONSUMER_GROUP = 604
    LEAVE_CONSUMER_GROUP = 605
    SYNC_CONSUMER_GROUP = 606


class VsrOperation(IntEnum):
    """What a VSR request does to a replicated state. Those from 128 on are counted by the client's session,
    and change something."""

    REGISTER = 1
    """A login."""
    READ = 2
    """Nothing is changed; the request has a code of its own."""
    LOGOUT = 3
    CREATE_STREAM = 128
    UPDATE_STREAM = 129
    DELETE_STREAM = 130
    PURGE_STREAM = 131
    CREATE_TOPIC = 132
    UPDATE_TOPIC = 133
    DELETE_TOPIC = 134
    PURGE_TOPIC = 135
    ADD_PARTITIONS = 136
    REMOVE_PARTITIONS = 137
    DELETE_SEGMENTS = 138
    CREATE_CONSUMER_GROUP = 139
    DELETE_CONSUMER_GROUP = 140
    CREATE_USER = 141
    UPDATE_USER = 142
    DELETE_USER = 143
    CHANGE_PASSWORD = 144
    UPDATE_PERMISSIONS = 145
    CREATE_TOKEN = 146
    DELETE_TOKEN = 147
    JOIN_CONSUMER_GROUP = 148
    LEAVE_CONSUMER_GROUP = 149
    SEND_MESSAGES = 160
    STORE_CONSUMER_OFFSET = 161
    DELETE_CONSUMER_OFFSET = 162


FIRST_REPLICATED: Final = VsrOperation.CREATE_STREAM

CODES: Final = {
    VsrOperation.REGISTER: IggyCode.LOGIN_SESSION,
    VsrOperation.LOGOUT: IggyCode.LOGOUT_USER,
    **{operation: IggyCode[operation.name] for operation in VsrOperation if operation >= FIRST_REPLICATED},
}
"""The command of each operation but READ. A login by token is a REGISTER, too."""
OPERATIONS: Final = {code: operation for operation, code in CODES.items()} | {
    IggyCode.LOGIN_SESSION_WITH_TOKEN: VsrOperation.REGISTER
}
"""The operation of each command that is no READ."""


def operation_of(code: int) -> VsrOperation:
    """Returns the operation under which clients send a command."""
    return OPERATIONS.get(IggyCode(code), VsrOperation.READ) if code in _KNOWN else VsrOperation.READ


def is_replicated(operation: int) -> bool:
    """Whether the client counts requests of this operation, so that a repeat of one must change nothing."""
    return operation >= FIRST_REPLICATED


def is_framed(operation: int) -> bool:
    """Whether a successful answer begins with a u32 of 0, and a rejection with one of 1."""
    return operation != VsrOperation.SEND_MESSAGES and (
        operation >= FIRST_REPLICATED or operation == VsrOperation.REGISTER
    )


_KNOWN: Final = frozenset(int(code) for code in IggyCode)
