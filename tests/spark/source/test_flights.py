"""The example's pipeline on the first days of the year: every flight in one closed hour, none dropped."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from examples import flights as pipeline
from examples.flights_data import data_folder, marker, read_flights, slices
from examples.flights_plot import draw, worst_routes

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from tests.spark.conftest import NewTopic

pytestmark = pytest.mark.spark

HOUR_MS = 3_600_000
DAYS = 20  # well beyond the watermark: hours close while flights still come


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    return read_flights()


def test_every_flight_is_in_one_closed_hour(
    spark: SparkSession,
    new_topic: NewTopic,
    year: pd.DataFrame,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, result = new_topic(partitions=2), new_topic()
    sent = 0
    for day in itertools.islice(slices(year), DAYS):
        for partition in range(2):
            rows = range(partition, len(day.values), 2)
            topic.add(
                [day.values[row] for row in rows], keys=[day.keys[row] for row in rows],
                timestamps=[day.times_ms[row] for row in rows], partition=partition,
            )  # fmt: skip
        sent += len(day.values)
    value, time_ms = marker(year)
    weather = pipeline.read_weather(spark, str(data_folder() / "weather.csv"))
    queries = pipeline.start(spark, topic.servers, topic.name, result.name, weather, tmp_path)
    try:
        for query in queries:
            query.processAllAvailable()
        closed_before_the_end = result.ends()[1]
        for partition in range(2):
            topic.add([value], timestamps=time_ms, partition=partition)
        pipeline.watch(queries, until="2013-02-01")
        operators = [
            part for query in queries for done in query.recentProgress for part in done["stateOperators"]
        ]
    finally:
        for query in queries:
            query.stop()
    assert operators
    assert all(part["numRowsDroppedByWatermark"] == 0 for part in operators)
    assert 0 < closed_before_the_end < result.ends()[1]

    capsys.readouterr()
    pipeline.report(spark, result.servers, result.name, tmp_path)
    in_hours, on_routes = capsys.readouterr().out.splitlines()
    assert in_hours.startswith(f"{sent:,} flights in {result.ends()[1]:,} hours in topic")
    assert on_routes.startswith(f"{sent:,} flights in ")

    hours = pipeline.hours_written(spark, result.servers, result.name).toPandas()
    routes = spark.read.parquet(str(tmp_path / "routes")).toPandas()
    flown = year.head(sent)
    assert int(hours["flights"].sum()) == int(routes["flights"].sum()) == sent
    assert int(hours["departures"].sum()) == int(flown["dep_delay"].notna().sum())
    expected = flown.groupby([flown["origin"], flown["event_time_ms"] // HOUR_MS])["dep_delay"].mean()
    hour = hours["hour"].astype("datetime64[ms]").astype("int64") // HOUR_MS
    found = hours.set_index([hours["origin"], hour.rename("event_time_ms")])["mean_delay"]
    assert set(found.index) == set(expected.index)
    assert (found - expected).abs().max() < 1e-9

    draw(hours, routes, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_worst_routes_are_of_those_flown_often() -> None:
    import pandas as pd

    routes = pd.DataFrame(
        [
            ("EWR", "AAA", 150, 3000.0),
            ("EWR", "AAA", 150, 0.0),
            ("JFK", "BBB", 5, 5000.0),
            ("LGA", "CCC", 300, 6000.0),
        ],
        columns=["origin", "dest", "departures", "total_delay"],
    )
    assert [tuple(row) for row in worst_routes(routes).itertuples(index=False)] == [
        ("LGA", "CCC", 300, 20.0),
        ("EWR", "AAA", 300, 10.0),
    ]
