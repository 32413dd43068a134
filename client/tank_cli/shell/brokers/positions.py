"""Where reading begins and ends: the text that a person types, and the number in each partition."""

import time
from dataclasses import dataclass
from enum import Enum

import click

from tank_cli.shell.figures import parse_time_ms
from tank_protos.topic_settings import parse_duration_ms, parse_size

MAX_PARTITION = 0xFFFF


class At(Enum):
    """The kinds of position."""

    FIRST = "first"
    END = "end"
    COMMITTED = "committed"
    NUMBER = "number"
    BACK = "back"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class LogPosition:
    """A place in a log. `value`: the number, how many messages back from the end, or milliseconds of the
    epoch.
    """

    at: At
    value: int = 0


class PositionType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """first, end, committed, a number, -N (the last N), or a time."""

    name = "POSITION"

    def __init__(self, *, committed: bool = False, back: bool = False) -> None:
        self.committed = committed
        self.back = back

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> LogPosition:
        """Returns the typed text as a position; a usage error lists the possible forms."""
        if isinstance(value, LogPosition):
            return value
        text = str(value).strip()
        if text in ("first", "end") or (text == "committed" and self.committed):
            return LogPosition(At(text))
        if text.isdecimal():
            return LogPosition(At.NUMBER, int(text))
        if self.back and text.startswith("-") and text[1:].isdecimal():
            return LogPosition(At.BACK, int(text[1:]))
        try:
            return LogPosition(At.TIME, parse_time_ms(text, time.time_ns() // 1_000_000))
        except ValueError:
            words = ["first", "end", "committed"] if self.committed else ["first", "end"]
            words += ["a sequence number"] + (["-N for the last N"] if self.back else [])
            self.fail(
                f"{text!r} is no position; it can be {', '.join(words)}, or a time such as 2013-01-01T05:00, "
                "now-10min or @SECONDS.",
                param,
                ctx,
            )


class PartitionsType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """Partitions as 0, 0,3 or 0-3."""

    name = "PARTITIONS"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """The partitions, in rising order."""
        if isinstance(value, tuple):
            return value
        chosen: set[int] = set()
        for part in str(value).split(","):
            low, dash, high = part.strip().partition("-")
            if not low.isdecimal() or (dash and not high.isdecimal()) or int(high or low) > MAX_PARTITION:
                self.fail(f"{part!r} is no partition; write 0, or 0,3, or 0-3.", param, ctx)
            chosen.update(range(int(low), int(high or low) + 1))
        return tuple(sorted(chosen))


class SizeType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """A size in bytes, with k, m, g, t."""

    name = "SIZE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes."""
        try:
            return value if isinstance(value, int) else parse_size(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no size: {error}.", param, ctx)


class DurationType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """A duration with its unit, in milliseconds."""

    name = "DURATION"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds. A number without a unit would be seconds in a setting; here it is refused."""
        if isinstance(value, int):
            return value
        try:
            if str(value).strip().isdecimal():
                raise ValueError("write its unit, such as 250ms or 10s")
            return parse_duration_ms(str(value))
        except ValueError as error:
            self.fail(f"{value!r} is no duration: {error}.", param, ctx)


class SettingType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """KEY=VALUE."""

    name = "KEY=VALUE"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        """The key and the value, without spaces around them."""
        if isinstance(value, tuple):
            return value
        key, equals, setting = str(value).partition("=")
        if not equals or not key.strip():
            self.fail(
                f"{value!r} is no setting; write KEY=VALUE, as in retention.segments.count=8.", param, ctx
            )
        return key.strip(), setting.strip()
