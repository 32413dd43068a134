"""What a document of permissions allows. Pure.

The rules are those of Iggy's server. A right in a stream or topic hangs on the entry that made it (`born`),
and not on its number: a stream that is made anew under an old number is another stream, where nobody has a
right.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tank_protos.users.permissions import GlobalRight, Permissions, StreamRight, TopicRight


class IggyAction(IntEnum):
    """What a request of an Iggy client does; rights are judged by these."""

    READ_SERVERS = 0
    MANAGE_SERVERS = 1
    READ_USERS = 2
    MANAGE_USERS = 3
    CREATE_STREAM = 4
    READ_STREAM = 5
    MANAGE_STREAM = 6
    """Rename, purge or delete a stream."""
    CREATE_TOPIC = 7
    """In a stream."""
    READ_TOPIC = 8
    """See a topic, and use and make consumer groups of it."""
    MANAGE_TOPIC = 9
    """Change, purge or delete a topic, its partitions and its segments."""
    POLL = 10
    """Read messages, and read and store offsets."""
    SEND = 11


def _mask(*actions: IggyAction) -> int:
    return sum(1 << action for action in actions)


_SERVERS: Final = _mask(IggyAction.READ_SERVERS)
_USERS: Final = _mask(IggyAction.READ_USERS)
_SEE_TOPIC: Final = _mask(IggyAction.READ_TOPIC)
_SEE_STREAM: Final = _mask(IggyAction.READ_STREAM) | _SEE_TOPIC
_RUN_TOPIC: Final = _mask(IggyAction.MANAGE_TOPIC) | _SEE_TOPIC
_RUN_TOPICS: Final = _mask(IggyAction.CREATE_TOPIC) | _RUN_TOPIC
_RUN_STREAM: Final = _mask(IggyAction.MANAGE_STREAM) | _SEE_STREAM | _RUN_TOPICS
_POLL: Final = _mask(IggyAction.POLL)
_SEND: Final = _mask(IggyAction.SEND)
EVERYTHING: Final = _mask(*IggyAction)
"""What root may."""
ALL_OF_STREAMS: Final = _SERVERS | _mask(IggyAction.CREATE_STREAM) | _RUN_STREAM | _POLL | _SEND
"""What a client that never logs in may, on a listener that takes such clients: all but what is about users
and servers."""

_GLOBAL: Final[dict[int, int]] = {
    GlobalRight.MANAGE_SERVERS: _mask(IggyAction.MANAGE_SERVERS) | _SERVERS,
    GlobalRight.READ_SERVERS: _SERVERS,
    GlobalRight.MANAGE_USERS: _mask(IggyAction.MANAGE_USERS) | _USERS,
    GlobalRight.READ_USERS: _USERS,
    GlobalRight.MANAGE_STREAMS: _mask(IggyAction.CREATE_STREAM) | _RUN_STREAM,
    GlobalRight.READ_STREAMS: _SEE_STREAM,
    GlobalRight.MANAGE_TOPICS: _RUN_TOPICS,
    GlobalRight.READ_TOPICS: _SEE_TOPIC,
    GlobalRight.POLL_MESSAGES: _POLL,
    GlobalRight.SEND_MESSAGES: _SEND,
}
_STREAM: Final[dict[int, int]] = {
    StreamRight.MANAGE_STREAM: _RUN_STREAM | _SEND,
    StreamRight.READ_STREAM: _SEE_STREAM | _POLL,
    StreamRight.MANAGE_TOPICS: _RUN_TOPICS | _POLL | _SEND,
    StreamRight.READ_TOPICS: _SEE_TOPIC | _POLL,
    StreamRight.POLL_MESSAGES: _POLL,
    StreamRight.SEND_MESSAGES: _SEND,
}
_TOPIC: Final[dict[int, int]] = {
    TopicRight.MANAGE_TOPIC: _RUN_TOPIC | _POLL | _SEND,
    TopicRight.READ_TOPIC: _SEE_TOPIC | _POLL,
    TopicRight.POLL_MESSAGES: _POLL,
    TopicRight.SEND_MESSAGES: _SEND,
}


@dataclass(slots=True, frozen=True)
class UserRights:
    """The rights of one user, in the form in which requests are judged: a question costs three look-ups."""

    everywhere: int
    """The actions that are allowed for all streams and topics, a bit each."""
    streams: Mapping[int, int]
    """By the stream's birth: further actions in it and its topics."""
    topics: Mapping[int, int]
    """By the topic's birth: further actions in it."""

    def allow(self, action: IggyAction, stream_born: int = 0, topic_born: int = 0) -> bool:
        """Whether the action is allowed; of the stream and the topic that were made by these entries. 0: the
        action is about none."""
        bit = 1 << action
        if self.everywhere & bit:
            return True
        if stream_born and self.streams.get(stream_born, 0) & bit:
            return True
        return topic_born != 0 and self.topics.get(topic_born, 0) & bit != 0


NO_RIGHTS: Final = UserRights(0, {}, {})


def rights_of(permissions: Permissions | None, births: Sequence[int]) -> UserRights:
    """The rights of a user with these permissions.

    `births`: for each of `Permissions.places`, the entry that had made it when the permissions were given; 0
    where there was no such stream or topic. A shorter list stands for one that ends with zeros.
    """
    if permissions is None:
        return NO_RIGHTS
    streams: dict[int, int] = {}
    topics: dict[int, int] = {}
    born = iter(births)
    for stream in permissions.streams or ():
        if stream_born := next(born, 0):
            streams[stream_born] = _of(_STREAM, stream.rights)
        for topic in stream.topics or ():
            if topic_born := next(born, 0):
                topics[topic_born] = _of(_TOPIC, topic.rights)
    return UserRights(_of(_GLOBAL, permissions.rights), streams, topics)


def _of(table: Mapping[int, int], rights: int) -> int:
    allowed = 0
    for right, actions in table.items():
        if rights & right:
            allowed |= actions
    return allowed
