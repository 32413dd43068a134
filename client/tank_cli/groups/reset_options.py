"""What is typed for `tank group reset`: the goal, and the partitions."""

import time

import click

from tank_cli.shell.brokers.positions import PartitionsType
from tank_cli.shell.figures import parse_time_ms
from tank_protos.position_reset import Goal, To

_OPTIONS = "--to-first, --to-end, --to-time, --to-number, --by"


class TimeType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """A moment, in milliseconds of the epoch."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Milliseconds of the epoch."""
        if isinstance(value, int):
            return value
        try:
            return parse_time_ms(str(value), time.time_ns() // 1_000_000)
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class TopicPartitionsType(click.ParamType):  # type: ignore[type-arg]  # generic from click 8.5 on
    """TOPIC for all its partitions, or TOPIC:0,2-3."""

    name = "TOPIC[:PARTITIONS]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, ...] | None]:
        """The topic, and its chosen partitions; None: all."""
        if isinstance(value, tuple):
            return value
        topic, colon, partitions = str(value).partition(":")
        if not topic:
            self.fail(f"{value!r} names no topic; write flights, or flights:0,2-3.", param, ctx)
        return topic, PartitionsType().convert(partitions, param, ctx) if colon else None


def goal_of(to_first: bool, to_end: bool, to_time: int | None, to_number: int | None, by: int | None) -> Goal:
    """The goal that the options say. Raises a usage error unless exactly one is said."""
    said = [Goal(To.FIRST)] if to_first else []
    said += [Goal(To.END)] if to_end else []
    said += [
        Goal(to, value)
        for to, value in ((To.TIME, to_time), (To.NUMBER, to_number), (To.BY, by))
        if value is not None
    ]
    if len(said) != 1:
        raise click.UsageError(f"Say where to: exactly one of {_OPTIONS}.")
    return said[0]
