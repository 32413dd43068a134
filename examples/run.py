"""`make run`: a cluster, a year of flights streaming into it, and the Spark pipeline on them while they flow.
In the middle of the year a broker is killed, and nothing is missing at the end.

    python -m examples.run --out out

Everything runs on this machine, in processes of its own that end with it; only `out` stays: the picture
`flights.png`, the Parquet folders `hours` and `routes`, and `spark.log`. Exits with 1 when the pipeline's
windows, or the topic, don't hold every flight exactly once.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from examples import flights as pipeline
from examples.cluster import Cluster, ClusterError
from examples.display import Display, State, day_text, tables
from examples.flights_data import FLIGHTS, NEVER_LEFT, WITHOUT_WEATHER, data_folder, read_flights
from examples.flights_plot import draw, worst_routes
from examples.load import Loader
from examples.outage import Kill, Outage
from tank_cli.cluster.folder import DEFAULT_MEMBERS
from tank_client.sync import Client

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

TOPIC, RESULT_TOPIC = "flights", "flights-by-hour"
PARTITIONS = 4
LOOK_S = 0.25


class RunError(Exception):
    """The example failed; the message says at which point."""


def main() -> int:
    parser = argparse.ArgumentParser(description="A year of flights through Tank and Spark.")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the results")
    parser.add_argument("--seconds", type=float, default=45, help="how long the year takes")
    given = parser.parse_args()
    console = Console(width=None if sys.stdout.isatty() else 140, highlight=False)
    began = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # not without taking the cluster along
    try:
        run(console, given.out, given.seconds)
    except (RunError, ClusterError) as error:
        console.print(f"[red]failed:[/red] {error}")
        return 1
    except KeyboardInterrupt:
        console.print("stopped")
        return 130
    console.print(f"all in {time.monotonic() - began:.0f} s")
    return 0


def run(console: Console, out: Path, seconds: float) -> None:
    """The whole example. Raises RunError."""
    for name in ("hours", "routes", "checkpoints"):
        shutil.rmtree(out / name, ignore_errors=True)
    out.mkdir(parents=True, exist_ok=True)
    console.print(f"starting {DEFAULT_MEMBERS} controllers and {DEFAULT_MEMBERS} brokers ...")
    with tempfile.TemporaryDirectory(prefix="tank-run-") as folder, Cluster(Path(folder)) as cluster:
        console.print(f"they run; the brokers are on {cluster.servers}")
        create_topics(cluster.servers)
        outage = Outage(cluster, TOPIC, console.print)
        loader = Loader(cluster.servers, TOPIC, PARTITIONS, seconds, outage.on_day)
        reading = threading.Thread(target=lambda: setattr(loader, "flights", read_flights()), daemon=True)
        reading.start()  # while Java starts
        with spark_session(out / "spark.log", Path(folder)) as spark:
            console.print(f"Spark {spark.version} started, its log is {out / 'spark.log'}")
            reading.join()
            stream(console, spark, cluster.servers, loader, out)
            check_topic(cluster.servers)
            hours, routes = results(spark, cluster.servers, out)
    report(console, hours, routes, out, outage.killed)


def create_topics(servers: str) -> None:
    with Client(servers) as client:
        client.admin.create_topic(TOPIC, partitions=PARTITIONS)
        client.admin.create_topic(RESULT_TOPIC, partitions=1)


@contextmanager
def spark_session(log: Path, folder: Path) -> Iterator[SparkSession]:
    """A session on two cores. What Java and Spark's workers have to say goes to the log."""
    from pyspark_tank.errors import JavaError
    from pyspark_tank.java_home import use_java

    try:
        use_java()
    except JavaError as error:
        raise RunError(str(error)) from None
    from pyspark.sql import SparkSession

    with _errors_to(log):
        spark = (
            SparkSession.builder.master("local[2]")
            .appName("flights")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.local.dir", str(folder / "spark"))
            .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
            .getOrCreate()
        )
    # Spark's own answer to Ctrl-C asks Java in the middle of another question to it, and fails.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    logging.basicConfig(filename=log)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _errors_to(log: Path) -> Iterator[None]:
    """Standard error goes to a file, for the processes that start meanwhile: Java inherits it."""
    sys.stderr.flush()
    kept = os.dup(2)
    log.write_bytes(b"")
    with open(log, "ab") as file:
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)


def stream(console: Console, spark: SparkSession, servers: str, loader: Loader, out: Path) -> None:
    """Loader and queries at the same time, until every flight went through both. Raises RunError."""
    weather = pipeline.read_weather(spark, str(data_folder() / "weather.csv"))
    queries = pipeline.start(spark, servers, TOPIC, RESULT_TOPIC, weather, out)
    done = threading.Event()
    failures: list[BaseException] = []

    def drain() -> None:
        try:
            loader.join()
            for query in queries:
                if loader.error is None:
                    query.processAllAvailable()
        except BaseException as error:
            failures.append(error)
        done.set()

    loader.start()
    threading.Thread(target=drain, name="drain", daemon=True).start()
    with (
        Client(servers) as client,
        Display(console, FLIGHTS, [str(query.name) for query in queries]) as display,
    ):
        while not done.wait(LOOK_S):
            display.show(look(client, loader, queries))
            if any(query.exception() is not None for query in queries):
                loader.stop()
        display.show(look(client, loader, queries))
    failed = loader.error or next(iter(failures), None)
    if failed is not None:
        raise RunError(f"{failed} (more in {out / 'spark.log'})") from failed
    dropped = sum(
        int(operator["numRowsDroppedByWatermark"])
        for query in queries
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )
    for query in queries:
        query.stop()
    if dropped:
        raise RunError(f"the watermark dropped {dropped:,} rows")


def look(client: Client, loader: Loader, queries: list[StreamingQuery]) -> State:
    """How far everything is now."""
    state = State(loader.sent, loader.date_ms, {})
    assert state.read is not None
    state.rows_closed = client.admin.await_ends({(RESULT_TOPIC, 0): None})[RESULT_TOPIC, 0].high_water_mark
    for query in queries:
        progress: Any = query.lastProgress
        if progress is None:
            continue
        ends = json.loads(progress["sources"][0]["endOffset"] or "{}")
        # Offsets name the next message; numbers begin with 1.
        state.read[str(query.name)] = sum(offset - 1 for offset in ends.get(TOPIC, {}).values())
        if query.name == "hourly":
            watermark = (progress.get("eventTime") or {}).get("watermark", "")
            state.watermark_ms = _parse_ms(watermark)
    return state


def _parse_ms(watermark: str) -> int:
    if not watermark or watermark.startswith("1970"):
        return 0
    return int(datetime.fromisoformat(watermark.replace("Z", "+00:00")).timestamp() * 1000)


def check_topic(servers: str) -> None:
    """Looks whether each flight got one number: the partitions' ends say how many there are. Raises
    RunError."""
    with Client(servers) as client:
        ends = client.admin.ends(TOPIC)
    found = sum(end.high_water_mark for end in ends.values())
    wanted = FLIGHTS + PARTITIONS  # each partition's marker comes last
    if found != wanted:
        raise RunError(f"messages in topic {TOPIC!r}: {found:,}, and not {wanted:,}")


def results(spark: SparkSession, servers: str, out: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Reads back the results of the queries, keeps the hours as Parquet, too, and checks the sums. Raises
    RunError."""
    pipeline.hours_written(spark, servers, RESULT_TOPIC).coalesce(1).write.parquet(str(out / "hours"))
    hours = spark.read.parquet(str(out / "hours")).toPandas()
    routes = spark.read.parquet(str(out / "routes")).toPandas()
    shutil.rmtree(out / "checkpoints", ignore_errors=True)
    expected = {
        "flights in the hours": (hours["flights"].sum(), FLIGHTS),
        "departures in the hours": (hours["departures"].sum(), FLIGHTS - NEVER_LEFT),
        "flights without weather": (hours["without_weather"].sum(), WITHOUT_WEATHER),
        "flights on the routes": (routes["flights"].sum(), FLIGHTS),
        "different hours": (len(hours.drop_duplicates(["origin", "hour"])), len(hours)),
    }
    for what, (found, wanted) in expected.items():
        if int(found) != wanted:
            raise RunError(f"{what}: {int(found):,}, and not {wanted:,}")
    return hours, routes


def report(
    console: Console, hours: pd.DataFrame, routes: pd.DataFrame, out: Path, killed: Kill | None
) -> None:
    """Prints the tables, the picture, and where everything is. Raises RunError when no broker was killed."""
    if killed is None:
        raise RunError("the broker that leads the topic was to be killed in the middle of the year")
    picture = out / "flights.png"
    draw(hours, routes, picture)
    tables(console, hours, worst_routes(routes))
    console.print(
        f"{FLIGHTS:,} flights went through, none lost, none twice, though broker {killed.broker_id} was "
        f"killed on {day_text(killed.date_ms)}: {len(hours):,} hours in topic "
        f"{RESULT_TOPIC!r} and {out / 'hours'}, {len(routes):,} rows in {out / 'routes'}",
        soft_wrap=True,
    )
    console.print(f"the picture: [bold]{picture}[/bold]", soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
