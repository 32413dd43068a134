"""The errors of codecs: for malformed bytes from a peer, a client or a disk, and for values without a
form."""

from typing import ClassVar


class WireError(ValueError):
    """Bytes that don't follow their format.

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
    """A message in a version that this code doesn't know."""

    reason = "unsupported_version"


class OutOfRange(WireError):
    """A value outside the range that its field can hold, or that has a meaning."""

    reason = "out_of_range"


class TooManyEntries(WireError):
    """A request whose lists have too many elements together."""

    reason = "too_many_entries"


class InvalidBundle(WireError):
    """A bundle whose header, counts, numbers or compression are wrong."""

    reason = "invalid_bundle"
