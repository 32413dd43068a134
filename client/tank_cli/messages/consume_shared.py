"""Reads as a member of a consumer group: the group's members share the topic's partitions."""

import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from tank_cli.groups.members import partitions_text
from tank_cli.messages.consume_cut import columns_of
from tank_cli.shell.output import note
from tank_cli.shell.render import Renderer

if TYPE_CHECKING:
    from tank_cli.shell.brokers.watch import BrokerWatch
    from tank_client.consuming.batch import MessageBatch
    from tank_client.model import Route
    from tank_client.sync import Client, Consumer

POLL_MS = 1_000
"""How long a read waits for messages, before positions are committed that are due."""
COMMIT_EVERY_S = 5.0


class SharedReader:
    """A member of a group that shows what it reads. Only what was shown is committed."""

    def __init__(self, client: "Client", topic: str, group: str, *, follow: bool, skip_damaged: bool) -> None:
        from tank_client.settings import ConsumerSettings, DamagedPolicy

        self._group = group
        self._follow = follow
        self.given = 0
        """How many messages were shown."""
        self._shown: dict[Route, int] = {}
        """The positions behind what was shown; where nothing was shown yet, where the partition was begun."""
        self._hears_of_all = True
        """Whether `_assigned` is called for each partition: not with brokers that don't share them out."""
        damaged = DamagedPolicy.SKIP if skip_damaged else DamagedPolicy.ERROR
        self._consumer: Consumer = client.consumer(
            topic,
            group=group,
            start="committed",
            stop_at_end=not follow,
            settings=ConsumerSettings(damaged=damaged),
            on_assigned=self._assigned,
            on_revoked=self._revoked,
            on_lost=self._lost,
        )

    def show(self, renderer: Renderer, count: int | None, watch: "BrokerWatch") -> None:
        """Writes messages until `count` of them, the end, or Ctrl-C. Commits from time to time and at the
        end, and leaves the group.
        """
        with self._consumer:
            self._shown = self._consumer.positions()
            self._hears_of_all = not self._shown
            try:
                self._read(renderer, count, watch)
            except KeyboardInterrupt:
                self._go_back()
                self._commit()
                raise
            self._commit()

    def _read(self, renderer: Renderer, count: int | None, watch: "BrokerWatch") -> None:
        out = sys.stdout.buffer
        commit_at = time.monotonic() + COMMIT_EVERY_S
        while (count is None or self.given < count) and (self._follow or not self._consumer.at_end):
            batch = self._consumer.poll(POLL_MS)
            if batch is not None:
                watch.alive()
                self._write(batch, renderer, len(batch) if count is None else count - self.given)
            if self._follow:
                out.flush()
            if time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + COMMIT_EVERY_S

    def _write(self, batch: "MessageBatch", renderer: Renderer, most: int) -> None:
        """Shows the first messages of a batch; those behind them are read again."""
        wanted = min(len(batch), most)
        sys.stdout.buffer.write(renderer(columns_of(batch, 0, wanted)))
        self.given += wanted
        route = batch.topic, batch.partition
        if wanted < len(batch):
            self._shown[route] = batch.numbers[wanted]
            self._consumer.seek(*route, self._shown[route])
        else:
            self._shown[route] = self._consumer.position(*route)

    def _go_back(self) -> None:
        """Makes the consumer forget what it handed out and was not shown."""
        for route, position in self._consumer.positions().items():
            # Of a partition that this reader has not heard of, nothing was handed out. When it hears of none,
            # those that it doesn't know were added to the topic, and begun at their first message.
            shown = self._shown.get(route, position if self._hears_of_all else 0)
            if position != shown:
                self._consumer.seek(*route, shown)

    def _commit(self) -> None:
        """Commits what was shown. Partitions that were lost meanwhile are others': the next read says so."""
        from tank_client import errors

        sys.stdout.buffer.flush()
        with suppress(errors.PartitionsLost):
            self._consumer.commit()

    def _assigned(self, routes: "list[Route]") -> None:
        self._shown |= {route: self._consumer.position(*route) for route in routes}
        if self._follow and routes:
            note(f"As a member of {self._group}: reads {partitions_text(routes)}.")

    def _revoked(self, routes: "list[Route]") -> None:
        sys.stdout.buffer.flush()  # what was shown is committed next
        self._forget(routes)
        if self._follow and routes:
            note(f"Another member of {self._group} gets {partitions_text(routes)}.")

    def _lost(self, routes: "list[Route]") -> None:
        self._forget(routes)
        if routes:
            lost = partitions_text(routes)
            note(f"{self._group} gave {lost} to others: they may show again what was shown here last.")

    def _forget(self, routes: "list[Route]") -> None:
        for route in routes:
            self._shown.pop(route, None)
