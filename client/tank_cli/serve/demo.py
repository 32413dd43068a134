"""`tank demo`: a broker at work, on one that is started, killed and removed again."""

import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tank_cli.serve.demo_broker import DemoBroker
from tank_cli.shell.connect import open_client
from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.figures import bytes_text, count_text, seconds_text
from tank_cli.shell.output import Json, print_json
from tank_cli.shell.session import CommandSession, offline_options
from tank_protos import server_packages

if TYPE_CHECKING:
    from concurrent.futures import Future

    from rich.console import Console

    from tank_client.model import Stored
    from tank_client.sync import Client

TOPIC = "sensors"
SENSORS = 50
READINGS = 200_000
PORTION = 2_000
KILLS = 3
LEDGER = "ledger"
ENTRIES_A_SECOND = 4_000
KILL_AFTER_S = 1.2  # enough for some thousand acknowledged entries between two kills


class Story:
    """Shows the steps to the user or, with `--output json`, prints the figures at the end."""

    def __init__(self, console: "Console | None") -> None:
        self._console = console
        self._steps: dict[str, Json] = {}
        self._count = 0

    def chapter(self, title: str) -> None:
        """A heading."""
        self._count += 1
        if self._console is not None:
            self._console.print(f"\n[bold cyan]{self._count}. {title}[/]")

    def command(self, line: str) -> None:
        """Shows the command that a user would type for the step."""
        if self._console is not None:
            self._console.print(f"   [dim]$[/] [green]{line}[/]", highlight=False, soft_wrap=True)

    def say(self, text: str) -> None:
        """Shows the result of the step."""
        if self._console is not None:
            self._console.print(f"   {text}", highlight=False, soft_wrap=True)

    def proof(self, text: str) -> None:
        """Shows that the step's check has passed."""
        self.say(f"[bold green]✓[/] {text}")

    def note(self, **figures: Json) -> None:
        """Notes figures for `--output json`."""
        self._steps.update(figures)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Shows a spinner inside `with`."""
        if self._console is not None and self._console.is_terminal:
            with self._console.status(f"   {text}"):
                yield
        else:
            yield

    def figures(self) -> dict[str, Json]:
        """The noted figures."""
        return self._steps


@click.command()
@click.option("--keep", is_flag=True, help="Leave the data folder where it is, to look into it.")
@offline_options
def demo(session: CommandSession, keep: bool) -> None:
    """Show a broker at work, in 30 seconds.

    Starts a broker in a folder of its own, writes, reads, repeats a write, kills the broker with kill -9
    while a producer writes, and checks that nothing was lost or stored twice. Everything is gone afterwards.
    """
    server_packages.need()
    from rich.console import Console

    story = Story(None if session.as_json else Console(highlight=False))
    folder = Path(tempfile.mkdtemp(prefix="tank-demo-"))
    broker = DemoBroker(folder)
    try:
        tell(story, broker)
    finally:
        broker.kill()
        if not keep:
            remove(folder)
    if session.as_json:
        print_json(story.figures())
        return
    if keep:
        story.say(f"\n   The data stays in {broker.data}; look into it with: tank log verify {broker.data}")
    story.say("\n   [bold]Next:[/] tank serve   ·   tank topic create NAME   ·   tank --help")


def tell(story: Story, broker: DemoBroker) -> None:
    """Runs the steps of the demo, in order."""
    began = time.perf_counter()
    story.chapter("A broker starts")
    story.command(f"tank serve --data {broker.data} --listen {broker.servers}")
    with story.working("starting"):
        started_s = broker.start()
    story.proof(f"It takes connections after {seconds_text(started_s)} (process {broker.pid}).")
    with open_client(broker.servers) as client:
        write_and_read(story, client)
        repeat(story, client)
        survive(story, client, broker)
    story.chapter("It stops in order")
    code, stopped_s = broker.stop()
    if code != 0:
        raise CliError(f"The broker ended with code {code} at SIGTERM.")
    story.proof(f"SIGTERM: everything synced, exit code 0 after {seconds_text(stopped_s)}.")
    story.note(start_seconds=round(started_s, 3), stop_seconds=round(stopped_s, 3))
    story.note(seconds=round(time.perf_counter() - began, 3))


def write_and_read(story: Story, client: "Client") -> None:
    """A topic, many messages into it, and all of them out again."""
    story.chapter("A topic with three partitions")
    story.command(f"tank topic create {TOPIC} --partitions 3")
    client.admin.create_topic(TOPIC, partitions=3)
    story.proof("Messages with the same key go to the same partition and stay in order.")

    story.chapter(f"{count_text(READINGS)} messages in")
    story.command(f"tank produce {TOPIC} readings.jsonl --format json --key-field sensor")
    values = [b'{"sensor":"s%d","reading":%d}' % (n % SENSORS, n) for n in range(READINGS)]
    keys: list[bytes | None] = [b"s%d" % (n % SENSORS) for n in range(READINGS)]
    size = sum(map(len, values))
    with story.working("writing"):
        began = time.perf_counter()
        with client.producer() as producer:
            for place in range(0, READINGS, PORTION):
                portion = slice(place, place + PORTION)
                producer.send_many(TOPIC, values[portion], keys=keys[portion])
        wrote_s = time.perf_counter() - began
    story.proof(f"{bytes_text(size)} acknowledged, and on disk, in {seconds_text(wrote_s)}: "
                f"{count_text(round(READINGS / wrote_s))} messages a second.")  # fmt: skip

    story.chapter("... and out again")
    story.command(f"tank consume {TOPIC}")
    last: dict[bytes | None, int] = {}
    in_order, seen = True, 0
    with story.working("reading"):
        began = time.perf_counter()
        for batch in client.consumer(TOPIC, stop_at_end=True):
            for key, value in zip(batch.keys, batch.values, strict=True):
                assert value is not None
                reading = int(value[value.rindex(b":") + 1 : -1])
                in_order = in_order and reading > last.get(key, -1)
                last[key] = reading
            seen += len(batch)
        read_s = time.perf_counter() - began
    if seen != READINGS or not in_order:
        raise CliError(
            f"{count_text(seen)} messages came back of {count_text(READINGS)}, in order: {in_order}."
        )
    story.proof(f"All {count_text(seen)} are there, in order for each of {SENSORS} sensors: "
                f"{count_text(round(seen / read_s))} messages a second.")  # fmt: skip
    story.note(messages=READINGS, produce_seconds=round(wrote_s, 3), consume_seconds=round(read_s, 3))


def repeat(story: Story, client: "Client") -> None:
    """Sends the same bundle again, as a producer does that got no answer."""
    from tank_protos.bundle import encode

    story.chapter("A write that is repeated is stored once")
    producer = client.admin.init_producer()
    bundle = encode([b"paid 100"], timestamps=time.time_ns() // 1_000_000)
    before = client.admin.ends(TOPIC, [0])[0].high_water_mark
    answers = [
        client.produce_bundle(
            TOPIC, 0, bundle, producer_id=producer.producer_id, producer_epoch=producer.epoch, sequence=0
        )
        for _ in range(3)
    ]
    grown = client.admin.ends(TOPIC, [0])[0].high_water_mark - before
    story.say(f"The same bundle, sent three times: answered with numbers {[each.first for each in answers]}.")
    if grown != 1:
        raise CliError(f"The log grew by {grown} messages instead of one.")
    story.proof("The log grew by one message.")
    story.note(repeats_sent=len(answers), repeats_stored=grown)


def survive(story: Story, client: "Client", broker: DemoBroker) -> None:
    """Kills the broker with kill -9 while a producer writes, and checks that no entry is lost or stored
    twice.
    """
    story.chapter(f"kill -9, {KILLS} times, while a producer writes")
    client.admin.create_topic(LEDGER)
    writer = LedgerWriter(broker.servers)
    writer.start()
    recoveries = []
    try:
        for _ in range(KILLS):
            with story.working("writing"):
                time.sleep(KILL_AFTER_S)
            story.command(f"kill -9 {broker.pid}")
            acknowledged = writer.acknowledged
            broker.kill()
            recoveries.append(broker.start())
            story.say(
                f"{count_text(acknowledged)} entries were acknowledged; the broker is back after "
                f"{seconds_text(recoveries[-1])}."
            )
    finally:
        written = writer.finish()
    entries: list[int] = []
    with story.working("checking"):
        for batch in client.consumer(LEDGER, stop_at_end=True):
            entries += [int(value or 0) for value in batch.values]
    if entries != list(range(written)):
        lost = len(set(range(written)) - set(entries))
        raise CliError(
            f"Of {written} entries {lost} are lost, and {len(entries) - len(set(entries))} are there twice."
        )
    story.proof(f"{count_text(written)} entries written, {count_text(len(entries))} in the log: none lost, "
                "none twice, in order.")  # fmt: skip
    story.note(kills=KILLS, recovery_seconds=[round(each, 3) for each in recoveries], entries=written)


class LedgerWriter(threading.Thread):
    """Writes 0, 1, 2, … with a client of its own until `finish`. The client retries by itself."""

    def __init__(self, servers: str) -> None:
        super().__init__(name="demo-writer", daemon=True)
        self._servers = servers
        self._end = threading.Event()
        self._sent = 0
        self._failure: BaseException | None = None
        self._pending: set[Future[Stored]] = set()
        self.acknowledged = 0
        """Entries whose bundles were answered; changed by the client's thread alone."""

    def run(self) -> None:
        """Writes until `finish`, in its thread."""
        try:
            with open_client(self._servers) as client, client.producer() as producer:
                while not self._end.is_set():
                    portion = [
                        b"%d" % number for number in range(self._sent, self._sent + ENTRIES_A_SECOND // 50)
                    ]
                    for future in set(producer.send_many(LEDGER, portion)) - self._pending:
                        self._pending.add(future)
                        future.add_done_callback(self._count)
                    self._sent += len(portion)
                    time.sleep(1 / 50)
        except BaseException as error:
            self._failure = error

    def _count(self, ended: "Future[Stored]") -> None:
        self._pending.discard(ended)
        if not ended.cancelled() and ended.exception() is None:
            stored = ended.result()
            self.acknowledged += stored.last - stored.first + 1

    def finish(self) -> int:
        """Ends the writing, waits until everything is acknowledged, and returns the number of entries
        written.
        """
        self._end.set()
        self.join(timeout=60)
        if self._failure is not None:
            raise self._failure
        if self.is_alive():
            raise CliError("The demo's producer is still waiting for acknowledgements after a minute.")
        return self._sent


def remove(folder: Path) -> None:
    """Removes the folder with its content."""
    import shutil

    shutil.rmtree(folder, ignore_errors=True)
