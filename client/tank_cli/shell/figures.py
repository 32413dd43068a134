"""Formats numbers, sizes, times and bytes for people, and reads times that they type."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

from tank_protos.topic_settings import in_units, parse_duration_ms

LITTLE_ROOM = 10
"""A disk with less than one part in so many free counts as nearly full."""
# Control characters, which a terminal obeys instead of showing: C0 (except tab), DEL, C1, and those that
# change the direction of writing.
OBEYED = re.compile(
    "[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)  # and lone surrogates, which can't be written
KEPT_AT = 0xDC00  # decoders keep a byte that is not UTF-8 as the surrogate of this number and the byte
FIRST_BYTE, LAST_BYTE = KEPT_AT + 0x80, KEPT_AT + 0xFF
NAMED = {"\n": "\\n", "\r": "\\r"}


def count_text(number: int) -> str:
    """12345 as 12,345."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """1 partition, 2,000 partitions."""
    return f"{count_text(number)} {noun}{'' if number == 1 else 's'}"


def bytes_text(size: float) -> str:
    """A size in bytes as 1.5 MiB."""
    if size < 1024:
        return f"{size:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        size /= 1024
        if size < 1024:
            return f"{size:.1f} {unit}"
    return f"{size / 1024:.1f} TiB"


def is_nearly_full(free_bytes: int, disk_bytes: int) -> bool:
    """Whether a disk is about to be full; None of an unknown size is."""
    return disk_bytes > 0 and free_bytes * LITTLE_ROOM < disk_bytes


def settings_text(settings: Iterable[tuple[str, str]]) -> str:
    """Topic settings as `log.retention.secs=7d, flush=disk`."""
    return ", ".join(f"{key}={in_units(key, value)}" for key, value in settings)


def seconds_text(seconds: float) -> str:
    """A duration as 850 ms, 4.2 s, 3 min 20 s, 2 h 5 min or 3 d 4 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = int(seconds)
    for unit, size, lesser, lesser_size in (
        ("d", 86_400, "h", 3_600),
        ("h", 3_600, "min", 60),
        ("min", 60, "s", 1),
    ):
        if whole >= size:
            rest = whole % size // lesser_size
            return f"{whole // size} {unit} {rest} {lesser}" if rest else f"{whole // size} {unit}"
    raise AssertionError("a duration of a minute or more has a unit")


def micros_text(seconds: float) -> str:
    """A latency as 85 µs, 1.24 ms or 2.10 s."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    return f"{seconds * 1e3:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"


def time_text(timestamp_ms: int) -> str:
    """Milliseconds of the epoch as 2013-01-01T05:17:00.000Z; the bare number where a calendar ends."""
    try:
        moment = datetime.fromtimestamp(timestamp_ms // 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{timestamp_ms % 1000:03d}Z"


def safe_text(content: bytes) -> str:
    """Bytes as a terminal may show them: UTF-8 where it is, \\xNN where it is not or where a terminal
    would obey.
    """
    return OBEYED.sub(escaped, content.decode("utf-8", "backslashreplace"))


def escaped(match: re.Match[str]) -> str:
    """A control character as an escape that the terminal shows; so is a byte that is not UTF-8."""
    sign = match.group()
    if sign in NAMED:
        return NAMED[sign]
    if FIRST_BYTE <= ord(sign) <= LAST_BYTE:
        return f"\\x{ord(sign) - KEPT_AT:02x}"
    return f"\\x{ord(sign):02x}" if ord(sign) < 0x100 else f"\\u{ord(sign):04x}"


def parse_time_ms(text: str, now_ms: int) -> int:
    """A moment in milliseconds of the epoch: ISO 8601 (UTC where it has no zone), @SECONDS, now,
    now-10min."""
    text = text.strip()
    if text.startswith("@"):
        try:
            return int(float(text[1:]) * 1000)
        except ValueError:
            raise ValueError(f"{text!r} is no time; behind @ stand seconds of the epoch") from None
    if text == "now":
        return now_ms
    if text.startswith("now-"):
        try:
            return max(0, now_ms - parse_duration_ms(text[4:]))
        except ValueError as error:
            raise ValueError(f"{text!r} is no time: behind now- {error}") from None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; write 2013-01-01, 2013-01-01T05:00, now-10min or @SECONDS"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))
