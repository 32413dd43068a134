"""What codecs raise when bytes from a peer, a client or a disk are not what they should be."""

from typing import ClassVar


class WireError(ValueError):
    """Bytes that do not follow the format they claim to be in.

    `reason` is a short word for counters (a label of `tank_refused_total`): never data of the sender.
    """

    reason: ClassVar[str] = "malformed"


class Truncated(WireError):
    """The bytes end before the value does."""

    reason = "truncated"


class TrailingBytes(WireError):
    """Bytes are left after the end of the message."""

    reason = "trailing_bytes"


class UnsupportedVersion(WireError):
    """A message in a version that is not understood here."""

    reason = "unsupported_version"


class OutOfRange(WireError):
    """A value that its place on the wire, or its meaning, cannot hold."""

    reason = "out_of_range"


class InvalidBundle(WireError):
    """A bundle whose header, counts, numbers or compression are wrong."""

    reason = "invalid_bundle"
