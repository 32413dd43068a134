"""The kill in the middle of the example: the broker that leads most of the topic dies, and the flights go
on."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.cluster import Cluster
from examples.display import day_text
from examples.flights_data import FLIGHTS
from tank_client.sync import Client

if TYPE_CHECKING:
    from examples.load import Loader

LOOK_S = 0.1
LOOKS = 50
"""So often, and so long apart, the leaders are looked up."""


@dataclass(slots=True, frozen=True)
class Kill:
    """The broker that was killed. `waited_s`: until the day behind it was acknowledged."""

    broker_id: int
    date_ms: int
    waited_s: float


class Outage:
    """Kills a broker once, when half of the flights are acknowledged, and reports it by `say`."""

    def __init__(self, cluster: Cluster, topic: str, say: Callable[[str], None]) -> None:
        self._cluster = cluster
        self._topic = topic
        self._say = say
        self._victim = 0
        self._led: list[int] = []
        self._killed_s = 0.0
        self._date_ms = 0
        self.killed: Kill | None = None
        """None: no broker was killed, or nothing was acknowledged since."""

    def on_day(self, loader: Loader) -> None:
        """A day of flights was acknowledged."""
        if not self._victim:
            if 2 * loader.sent >= FLIGHTS:
                self._kill(loader)
        elif self.killed is None:
            self.killed = Kill(self._victim, self._date_ms, time.monotonic() - self._killed_s)
            self._say_who_leads(self.killed)

    def _kill(self, loader: Loader) -> None:
        leaders = self.leaders()
        ((self._victim, _),) = Counter(leaders.values()).most_common(1)
        self._led = [partition for partition, leader in leaders.items() if leader == self._victim]
        pid = self._cluster.kill(self._victim)
        self._killed_s, self._date_ms = time.monotonic(), loader.date_ms
        self._say(
            f"[bold red]kill -9[/bold red] on {day_text(loader.date_ms)}, after {loader.sent:,} flights: "
            f"broker {self._victim} (process {pid}), which leads {_partitions(self._led)} of {self._topic!r}"
        )

    def _say_who_leads(self, killed: Kill) -> None:
        leaders = self.leaders()
        for _ in range(LOOKS):
            if self._victim not in leaders.values():
                break
            time.sleep(LOOK_S)  # the broker that was asked has yet to hear of it
            leaders = self.leaders()
        brokers = sorted({leaders[partition] for partition in self._led})
        lead = f"broker {brokers[0]} leads" if len(brokers) == 1 else f"brokers {_and(brokers)} lead"
        self._say(
            f"[bold green]{killed.waited_s:.2f} s later[/bold green] the next day is acknowledged: "
            f"{lead} {_partitions(self._led)} now, and broker {self._victim} stays dead"
        )

    def leaders(self) -> dict[int, int]:
        """By partition; 0: it has no leader."""
        with Client(self._cluster.servers) as client:
            (topic,) = client.admin.describe_topics([self._topic])
        return {each.partition: each.leader or 0 for each in topic.partitions}


def _partitions(numbers: list[int]) -> str:
    """partition 2; partitions 0 and 3."""
    return f"partition{'s' if len(numbers) > 1 else ''} {_and(numbers)}"


def _and(numbers: list[int]) -> str:
    return " and ".join(map(str, numbers))
