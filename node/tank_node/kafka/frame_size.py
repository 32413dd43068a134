"""Frames of a wrong size on the port for Kafka's clients: mostly their clients speak another protocol."""

from typing import ClassVar, Final

from tank_protos.wire.errors import WireError

_HTTP: Final = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PRI ")
_TLS: Final = b"\x16\x03"
_SSH: Final = b"SSH-"
"""The first bytes of other protocols, which would be an enormous size."""


class InvalidFrameSize(WireError):
    """A frame whose size is below that of a header, or above the limit of its request."""

    reason: ClassVar[str] = "invalid_frame_size"


def wrong_size(size: int, least: int, most: int) -> InvalidFrameSize:
    """The error for a frame of this size, which is not between the two others."""
    said = f"a request of {size} bytes; {least} to {most} are taken"
    first = size.to_bytes(4, "big", signed=True)
    other = "HTTP" if first in _HTTP else "TLS" if first.startswith(_TLS) else "SSH" if first == _SSH else ""
    if other:
        said = f"{said}. The client speaks {other}; this port is for Kafka's protocol without TLS"
    return InvalidFrameSize(said)
