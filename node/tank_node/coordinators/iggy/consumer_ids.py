"""The names of groups under which the positions of Iggy's consumers and groups are kept, and the numbers in
them: Iggy's offset is that of the last message that was consumed, Kafka's that of the next one."""

from hashlib import sha256
from typing import Final

from tank_protos.wire.names import IGGY_CONSUMER_PREFIX, IGGY_GROUP_PREFIX

_MOST_DIGITS: Final = 20
"""Of an index of the controllers' log."""
_MOST_NAME_BYTES: Final = 200
"""A longer name of a consumer stands as its SHA-256: what keeps groups' names short enough for one byte of
length in our own messages."""


def group_consumer(born: int) -> str:
    """The name of a group that was created at this index of the controllers' log."""
    return f"{IGGY_GROUP_PREFIX}{born}"


def numbered_consumer(number: int) -> str:
    """The name of a consumer that has a number, ours from 0 on."""
    return f"{IGGY_CONSUMER_PREFIX}#{number}"


def named_consumer(name: str) -> str:
    """The name of a consumer that has a name; one that could be mistaken for another kind stands as its
    digest, too."""
    data = name.encode("utf-8", "surrogateescape")
    if len(data) > _MOST_NAME_BYTES or name.startswith(("#", "sha256:")):
        return f"{IGGY_CONSUMER_PREFIX}sha256:{sha256(data).hexdigest()}"
    return IGGY_CONSUMER_PREFIX + name


def born_of(group_id: str) -> int | None:
    """When the group with this name was created; None: it is the name of none of Iggy's groups."""
    text = group_id.removeprefix(IGGY_GROUP_PREFIX)
    if text == group_id or len(text) > _MOST_DIGITS or not (text.isascii() and text.isdecimal()):
        return None
    if text != str(int(text)):
        return None
    return int(text)


def committed_of(offset: int) -> int:
    """What is committed when the message at this offset was the last one that was consumed."""
    return offset + 1


def offset_of(committed: int) -> int | None:
    """The offset of the last message that was consumed; None: none was."""
    return committed - 1 if committed > 0 else None
