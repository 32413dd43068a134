"""Numbers, sizes, durations, times and bytes, as they are shown and as they are typed."""

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_cli.bench.figures import percentile
from tank_cli.shell import figures
from tank_cli.shell.brokers.positions import DurationType, PartitionsType, SizeType


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 << 20, "5.0 MiB"),
        (3 << 40, "3.0 TiB"),
    ],
)
def test_sizes_are_shown_in_powers_of_1024(size: int, text: str) -> None:
    assert figures.bytes_text(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0123, "12 ms"),
        (4.25, "4.2 s"),
        (60, "1 min"),
        (200, "3 min 20 s"),
        (7500, "2 h 5 min"),
        (266_400, "3 d 2 h"),
    ],
)
def test_durations_are_shown_in_two_units_at_most(seconds: float, text: str) -> None:
    assert figures.seconds_text(seconds) == text


def test_times_are_shown_in_utc() -> None:
    assert figures.time_text(1_357_017_420_123) == "2013-01-01T05:17:00.123Z"


def test_a_time_beyond_the_calendar_is_shown_as_its_number() -> None:
    assert figures.time_text(2**64 - 1) == str(2**64 - 1)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"plain \xc3\xa9 \t tab", "plain é \t tab"),
        (b"\x1b[31mred", "\\x1b[31mred"),
        (b"two\nlines\r", "two\\nlines\\r"),
        (b"\xff\xfe", "\\xff\\xfe"),
        ("\u202ereversed".encode(), "\\u202ereversed"),
        ("\x9b31m".encode(), "\\x9b31m"),
        (b"\x07\x7f\x00", "\\x07\\x7f\\x00"),
    ],
)
def test_what_a_terminal_would_obey_is_shown_instead(content: bytes, text: str) -> None:
    assert figures.safe_text(content) == text


@given(st.binary())
def test_no_bytes_reach_a_terminal_as_control_characters(content: bytes) -> None:
    shown = figures.safe_text(content)
    assert all(sign == "\t" or (sign >= " " and not "\x7f" <= sign <= "\x9f") for sign in shown)


@pytest.mark.parametrize(("text", "size"), [("100", 100), ("64k", 65536), ("2GB", 2 << 30)])
def test_sizes_are_typed_as_in_settings(text: str, size: int) -> None:
    assert SizeType().convert(text, None, None) == size


@pytest.mark.parametrize(
    ("text", "ms"), [("250ms", 250), ("10s", 10_000), ("5min", 300_000), ("1h+1min", 3_660_000)]
)
def test_durations_are_typed_as_in_settings(text: str, ms: int) -> None:
    assert DurationType().convert(text, None, None) == ms


@pytest.mark.parametrize("text", ["", "10", "s", "-5s", "10 parsecs"])
def test_a_duration_needs_its_unit(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is no duration: write"):
        DurationType().convert(text, None, None)


@pytest.mark.parametrize(("text", "chosen"), [("0", (0,)), ("3,0", (0, 3)), ("0-2,5", (0, 1, 2, 5))])
def test_partitions_are_typed_as_lists_and_ranges(text: str, chosen: tuple[int, ...]) -> None:
    assert PartitionsType().convert(text, None, None) == chosen


@pytest.mark.parametrize("text", ["", "x", "-1", "0-", "65536", "1,,2"])
def test_what_is_no_partition_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write 0, or 0,3, or 0-3"):
        PartitionsType().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2013-01-01", 1_356_998_400_000),
        ("2013-01-01T05:17", 1_357_017_420_000),
        ("2013-01-01T05:17:00+01:00", 1_357_013_820_000),
        ("2013-01-01T05:17:00.5Z", 1_357_017_420_500),
        ("@1357017420", 1_357_017_420_000),
        ("now", 5_000_000),
        ("now-10min", 4_400_000),
    ],
)
def test_times_are_typed_in_iso_8601_or_from_now(text: str, ms: int) -> None:
    assert figures.parse_time_ms(text, now_ms=5_000_000) == ms


@pytest.mark.parametrize("text", ["yesterday", "@soon", "2013-13-01", "now-", "now-soon"])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        figures.parse_time_ms(text, now_ms=0)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.sampled_from([0.5, 0.9, 0.99, 0.999, 1.0]))
def test_a_percentile_is_the_smallest_value_that_the_share_does_not_exceed(
    values: list[float], share: float
) -> None:
    rising = sorted(values)
    found = percentile(rising, share)
    assert sum(value <= found for value in rising) >= share * len(rising) - 1e-9
    assert sum(value < found for value in rising) < share * len(rising)
