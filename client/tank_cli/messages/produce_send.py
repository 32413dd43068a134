"""Hands messages to the client's producer, and counts those that the broker has stored."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tank_cli.messages.produce_input import InputMessage, Records, grouped
from tank_cli.shell.brokers.watch import BrokerWatch
from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.figures import count_text, plural
from tank_cli.shell.output import note
from tank_cli.shell.progress import TransferProgress

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tank_client.model import Stored
    from tank_client.settings import ProducerSettings
    from tank_client.sync import Client, Producer


@dataclass(slots=True)
class Sent:
    """The messages handed to the producer, and its answers; the client's thread changes `stored` and the
    fields below it."""

    watch: BrokerWatch
    messages: int = 0
    size_bytes: int = 0
    pending: "set[Future[Stored]]" = field(default_factory=set)
    stored: int = 0
    numbers_known: bool = True
    """Whether the broker gives numbers of stored messages; if not, the progress shows messages handed
    over.
    """
    failed: BaseException | None = None
    """The first failure. Kept because the producer's `flush` raises only failures that the program has not
    looked at.
    """
    first: int | None = None
    last: int | None = None

    def hand_over(self, futures: "list[Future[Stored]]", records: Records) -> None:
        """Counts a run that the producer has taken."""
        self.messages += len(records.values)
        self.size_bytes += sum(len(value or b"") for value in records.values)
        for future in futures:
            if future not in self.pending:
                self.pending.add(future)
                future.add_done_callback(self.answered)
        self.watch.waits(bool(self.pending))

    def answered(self, future: "Future[Stored]") -> None:
        """A bundle was stored, or failed."""
        self.pending.discard(future)
        self.watch.alive()
        self.watch.waits(bool(self.pending))
        error = future.exception()
        if error is not None:
            self.failed = self.failed or error
            return
        stored = future.result()
        if not stored.known:
            self.numbers_known = False
            return
        self.stored += stored.last - stored.first + 1
        self.first = stored.first if self.first is None else min(self.first, stored.first)
        self.last = stored.last if self.last is None else max(self.last, stored.last)

    def check(self) -> None:
        """Raises the first failure."""
        if self.failed is not None:
            raise self.failed

    def so_far(self) -> str:
        """The text about messages known to be stored, for a sending that ends early."""
        if not self.numbers_known:
            sent = plural(self.messages, "message")
            return f"{sent} were sent; this broker does not report how many it stored."
        return f"Known to be stored: {count_text(self.stored)} of {plural(self.messages, 'message')}."

    def show(self, shown: TransferProgress) -> None:
        """Shows the stored messages as progress; their bytes by the mean size of a message."""
        stored = min(self.stored, self.messages) if self.numbers_known else self.messages
        size = self.size_bytes * stored // max(self.messages, 1)
        shown.advance(stored - shown.messages, size - shown.size_bytes)


def send_all(
    client: "Client",
    topic: str,
    runs: Iterator[list[InputMessage]],
    partition: int | None,
    settings: "ProducerSettings",
    shown: TransferProgress,
    watch: BrokerWatch,
) -> Sent:
    """Sends everything and waits until it is acknowledged. Messages that were read before a fault of the
    input, or before Ctrl-C, are sent, too; a second Ctrl-C drops them."""
    from tank_client import errors

    sent = Sent(watch)
    with client.producer(settings) as producer:
        watch.why = lambda: producer.trouble
        try:
            for run in runs:
                for records in grouped(run, partition):
                    send_run(producer, topic, records, sent)
                sent.show(shown)
            producer.flush()
            sent.check()
        except errors.TankError:
            note(sent.so_far())
            raise
        except CliError:
            producer.flush()
            sent.check()
            raise
        except KeyboardInterrupt:
            if sent.pending:
                note(
                    "Interrupted: the messages that were read are still being sent; Ctrl-C again drops them."
                )
            try:
                producer.flush()
                sent.check()
            except (KeyboardInterrupt, errors.TankError):
                note(sent.so_far())
                raise
            note(f"Interrupted after {plural(sent.messages, 'message')}, all of them stored.")
            raise
    return sent


def send_run(producer: "Producer", topic: str, records: Records, sent: Sent) -> None:
    """Hands a run to the producer, which waits when its memory is full."""
    now_ms = time.time_ns() // 1_000_000
    futures = producer.send_many(
        topic,
        records.values,
        keys=records.keys if any(key is not None for key in records.keys) else None,
        partition=records.partition,
        timestamps_ms=[now_ms if stamp is None else stamp for stamp in records.timestamps_ms],
        headers=records.headers if any(records.headers) else None,
    )
    sent.hand_over(futures, records)
