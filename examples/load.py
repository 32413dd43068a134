"""Streams a year of flights into a topic, in order of departure: `python -m examples.load --help`."""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from examples.flights_data import Slice, marker, read_flights, slices

if TYPE_CHECKING:
    import pandas as pd

    from tank_client.sync import Client


class Loader(threading.Thread):
    """Sends the flights in the background, a year in `seconds`. `sent` and `date_ms` are its progress; it
    calls `on_day`, in this thread, after each day that was acknowledged.

    A day is acknowledged as a whole before the next one leaves, so no partition is ever a day ahead of
    another: far within the pipeline's watermark, however fast the year goes by.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: int,
        seconds: float,
        on_day: Callable[[Loader], None] | None = None,
    ) -> None:
        super().__init__(name="loader", daemon=True)
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._seconds = seconds
        self._on_day = on_day
        self._stopping = threading.Event()
        self.sent = 0
        self.date_ms = 0
        self.error: BaseException | None = None
        self.flights: pd.DataFrame | None = None

    def run(self) -> None:
        try:
            self._load()
        except BaseException as error:
            self.error = error

    def stop(self) -> None:
        """Ends it before its time."""
        self._stopping.set()

    def _load(self) -> None:
        from tank_client.sync import Client

        flights = self.flights if self.flights is not None else read_flights()
        total = len(flights)
        began = time.monotonic()
        with Client(self._servers) as client:
            send = _sender(client, self._topic)
            for day in slices(flights):
                if self._stopping.wait(
                    max(0.0, began + self._seconds * self.sent / total - time.monotonic())
                ):
                    return
                send(day, None)
                self.sent += len(day.values)
                self.date_ms = day.times_ms[-1]
                if self._on_day is not None:
                    self._on_day(self)
            value, time_ms = marker(flights)
            for partition in range(self._partitions):
                send(Slice([value], [b""], [time_ms]), partition)


def _sender(client: Client, topic: str) -> Callable[[Slice, int | None], None]:
    """Sends a slice and returns when the broker has acknowledged it."""
    producer = client.producer()

    def send(part: Slice, partition: int | None) -> None:
        keys = [key or None for key in part.keys]
        producer.send_many(topic, part.values, keys=keys, partition=partition, timestamps_ms=part.times_ms)
        producer.flush()

    return send


def main() -> None:
    parser = argparse.ArgumentParser(description="Stream the flights of 2013 into a topic.")
    parser.add_argument("--servers", default="127.0.0.1:11011", help="brokers, HOST:PORT,HOST:PORT")
    parser.add_argument("--topic", default="flights", help="the topic (create it first)")
    parser.add_argument("--seconds", type=float, default=60, help="how long the year takes; 0: at full speed")
    given = parser.parse_args()
    from tank_client.sync import Client

    with Client(given.servers) as client:
        (topic,) = client.admin.describe_topics([given.topic])
    loader = Loader(given.servers, given.topic, len(topic.partitions), given.seconds)
    loader.run()
    if loader.error is not None:
        raise SystemExit(f"load: {loader.error}")
    print(f"{loader.sent:,} flights are in topic {given.topic!r}")


if __name__ == "__main__":
    main()
