"""All bounds of Iggy's protocol, each with its reason. Sizes are bytes."""

from typing import Final

MIB: Final = 1024 * 1024

MAX_FRAME_BYTES: Final = 128 * MIB
"""The longest request: one message of the greatest size with its headers, and a send of the SDKs' greatest
batch. A broker may take less."""

MAX_COMMAND_BYTES: Final = 10_000_000
"""The longest payload of a request that sends no messages: Iggy's own bound."""

MAX_PAYLOAD_BYTES: Final = 64_000_000
"""Of one message: Iggy's own bound."""

MAX_HEADERS_BYTES: Final = 100_000
"""Of the user headers of one message: Iggy's own bound."""

MAX_HEADER_FIELD_BYTES: Final = 255
"""Of a header's key, and of its value: Iggy's own bound."""

MAX_TOPIC_PARTITIONS: Final = 1000
"""Of one topic: Iggy's own bound."""

UNBOUNDED: Final = 2**64 - 1
"""Iggy's value for never, and for unlimited."""

MAX_SENT_MESSAGES: Final = 1_000_000
"""In one send. Each costs objects of some 300 bytes until the send is stored."""

MAX_SDK_VERSION_CHARS: Final = 64
"""What is kept of the version that a client's library says at the login; versions have some ten characters.
The client is nobody yet, and its request may be as long as any."""
