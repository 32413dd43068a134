"""The version of the header before a message, by Kafka's rule.

A reader has to know the header's version before it reads the header, so it follows from the message's api key
and version: flexible versions have the header with tagged fields, the others the last header without.
"""

from typing import Final

from tank_compiler.schema.schema import Kind, Message, Protocol

CONTROLLED_SHUTDOWN: Final = 7
"""The api key whose version 0 has a header older than all others, without a client id."""
API_VERSIONS: Final = 18
"""The api key whose answer has the oldest header: the client doesn't know our versions yet."""

_NAMES: Final = {Kind.REQUEST: "RequestHeader", Kind.RESPONSE: "ResponseHeader"}


def header_of(protocol: Protocol, message: Message) -> Message | None:
    """The header that stands before a message of this protocol; None: it has none."""
    if message.id is None or message.kind not in _NAMES:
        return None
    for header in protocol.messages:
        if header.kind is Kind.HEADER and header.root.name == _NAMES[message.kind]:
            return header
    return None


def header_version(header: Message, message: Message, version: int) -> int:
    """The version of `header` before this version of a message."""
    lowest, highest = header.versions.low, header.versions.high_end
    if message.kind is Kind.RESPONSE and message.id == API_VERSIONS:
        return lowest
    if message.kind is Kind.REQUEST and message.id == CONTROLLED_SHUTDOWN and version == 0:
        return lowest
    is_flexible = message.flexible is not None and version in message.flexible
    for candidate in range(highest, lowest - 1, -1):
        if (header.flexible is not None and candidate in header.flexible) == is_flexible:
            return candidate
    return highest
