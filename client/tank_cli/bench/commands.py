"""`tank bench produce|consume|latency`: a broker measured through this client, on topics that go away
again.
"""

import functools
import random
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from tank_cli.bench.figures import Measured, print_measured
from tank_cli.shell.brokers.positions import MAX_PARTITION, SizeType
from tank_cli.shell.complete import complete_topics
from tank_cli.shell.exit_codes import CliError
from tank_cli.shell.figures import bytes_text, count_text
from tank_cli.shell.lazy import LazyGroup
from tank_cli.shell.output import note, warn
from tank_cli.shell.progress import TransferProgress, progress
from tank_cli.shell.session import CommandSession, shared_options

if TYPE_CHECKING:
    from concurrent.futures import Future

    from tank_client.model import Stored
    from tank_client.sync import Client

POOL_BYTES = 1 << 20  # random bytes that values are cut from: compression finds nothing in a bundle of 64 KiB
PORTION_BYTES = 256 << 10  # handed to the producer at once
MAX_MESSAGES = 1_000_000_000
STAMP_BYTES = 16  # by which `bench latency` knows its own messages
WARM_UP = 50  # first messages of `bench latency` that don't count: connections and caches


@click.group(cls=LazyGroup)
def bench() -> None:
    """Measure a broker through this client.

    Without --topic a topic is made for the measurement and deleted afterwards.
    """


def bench_options(messages: int, size: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The options that the three share, with the defaults of one."""
    options = [
        click.option(
            "--topic", "-t", shell_complete=complete_topics, help="A topic that is there, and stays."
        ),
        click.option(
            "--partitions",
            type=click.IntRange(1, MAX_PARTITION),
            default=1,
            show_default=True,
            metavar="N",
            help="Of the topic that is made.",
        ),
        click.option(
            "--flush",
            type=click.Choice(["disk", "replicated"]),
            default="disk",
            show_default=True,
            help="disk: acknowledged when on disk. replicated: when the replicas have it in memory.",
        ),
        click.option(
            "--messages",
            "-n",
            type=click.IntRange(1, MAX_MESSAGES),
            default=messages,
            show_default=True,
            metavar="N",
            help="How many messages.",
        ),
        click.option(
            "--size", "-s", type=SizeType(), default=size, show_default=True, help="Of a message's value."
        ),
    ]

    def apply(function: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


@bench.command("produce")
@bench_options(messages=500_000, size="100")
@click.option("--batch-bytes", type=SizeType(), default="64k", show_default=True, help="Of a bundle.")
@click.option("--compression", type=click.Choice(["none", "snappy"]), default="none", show_default=True)
@shared_options
def bench_produce(
    session: CommandSession,
    topic: str | None,
    partitions: int,
    flush: str,
    messages: int,
    size: int,
    batch_bytes: int,
    compression: str,
) -> None:
    """Write as fast as it goes; time every bundle's acknowledgement."""
    with session.client() as client, bench_topic(client, topic, partitions, flush) as name:
        with progress("Producing", messages) as shown:
            acks = fill(client, name, messages, size, batch_bytes, compression == "snappy", shown)
        measured = Measured("produce", name, messages, messages * size, shown.elapsed_s, {"ack": acks})
    print_measured(measured, session.as_json)


@bench.command("consume")
@bench_options(messages=1_000_000, size="100")
@shared_options
def bench_consume(
    session: CommandSession, topic: str | None, partitions: int, flush: str, messages: int, size: int
) -> None:
    """Read as fast as it goes. A topic that is made is filled first; --topic is read from its beginning."""
    with session.client() as client, bench_topic(client, topic, partitions, flush) as name:
        if topic is None:
            with progress("Filling the topic", messages) as shown:
                fill(client, name, messages, size, 64 << 10, False, shown)
        with progress("Consuming", messages) as shown:
            consumer = client.consumer(name, stop_at_end=True)
            for batch in consumer:
                shown.advance(len(batch), sum(len(value or b"") for value in batch.values))
                if shown.messages >= messages:
                    break
            seconds = shown.elapsed_s
            consumer.close()
    if shown.messages == 0:
        raise CliError(f"{name} is empty: fill it with `tank bench produce --topic {name}`.")
    if shown.messages < messages:
        note(f"{name} has {count_text(shown.messages)} messages.")
    measured = Measured("consume", name, shown.messages, shown.size_bytes, seconds, {})
    print_measured(measured, session.as_json)


@bench.command("latency")
@bench_options(messages=2_000, size="100")
@click.option("--rate", type=click.FloatRange(0, min_open=True), default=500, show_default=True, metavar="N",
              help="Messages a second; the next waits for the one before it.")  # fmt: skip
@shared_options
def bench_latency(
    session: CommandSession,
    topic: str | None,
    partitions: int,
    flush: str,
    messages: int,
    size: int,
    rate: float,
) -> None:
    """Send one message at a time, and time its way.

    Twice: until it is acknowledged, and until a consumer that waits for it has it.
    """
    size = max(size, STAMP_BYTES)
    with (
        session.client() as reader,
        session.client() as writer,
        bench_topic(writer, topic, partitions, flush) as name,
        progress("Sending", messages) as shown,
    ):
        began = time.perf_counter()
        acks, deliveries = ping(writer, reader, name, messages, size, rate, shown)
        seconds = time.perf_counter() - began
    latencies = {"ack": acks, "delivery": deliveries}
    print_measured(Measured("latency", name, messages, messages * size, seconds, latencies), session.as_json)


@contextmanager
def bench_topic(client: "Client", topic: str | None, partitions: int, flush: str) -> Iterator[str]:
    """The topic that was named; else a new one, deleted afterwards whatever happens. FeatureMissing, before
    anything is made, where it could not be measured or not be deleted."""
    from tank_client.errors import TankError
    from tank_client.wire.operations import need, need_newer_than_old_document

    server = client.admin.features()
    need_newer_than_old_document(server, "listing a topic's partitions", "measure a newer broker")
    if topic is None:
        need(
            server,
            "delete_topic",
            "deleting topics",
            "measure a topic that is there, and stays: --topic NAME",
        )
    else:
        client.admin.describe_topics([topic])
        yield topic
        return
    name = f"bench-{secrets.token_hex(4)}"
    client.admin.create_topic(name, partitions=partitions, settings={"flush": flush})
    try:
        yield name
    finally:
        try:
            client.admin.delete_topic(name)
        except TankError as error:  # an earlier failure, if there is one, is the error to show
            warn(f"the topic of the measurement is left ({error}); delete it: tank topic delete {name} --yes")


def fill(
    client: "Client",
    topic: str,
    messages: int,
    size: int,
    batch_bytes: int,
    snappy: bool,
    shown: TransferProgress,
) -> list[float]:
    """Writes the messages; the seconds from handing a portion over to each bundle's acknowledgement."""
    from tank_client.settings import ProducerSettings

    if size > batch_bytes:
        batch_bytes = size
    settings = ProducerSettings(
        batch_bytes=batch_bytes, buffer_bytes=max(8 << 20, 4 * batch_bytes), compression=snappy
    )
    values = portions(size)
    acks: list[float] = []
    left = messages
    with client.producer(settings) as producer:
        while left:
            portion = next(values)[:left]
            began = time.perf_counter()
            for future in set(producer.send_many(topic, portion)):
                future.add_done_callback(functools.partial(note_ack, began, acks))
            left -= len(portion)
            shown.advance(len(portion), len(portion) * size)
        producer.flush()
    return acks


def note_ack(began: float, acks: list[float], ended: "Future[Stored]") -> None:
    """Keeps the time when a bundle was stored; `flush` raises a failure."""
    if not ended.cancelled() and ended.exception() is None:
        acks.append(time.perf_counter() - began)


def portions(size: int) -> Iterator[list[bytes]]:
    """Lists of values of `size` bytes, cut from one pool of random bytes."""
    pool = random.Random(1).randbytes(max(POOL_BYTES, size))
    count = max(1, PORTION_BYTES // max(size, 1))
    last = len(pool) - size
    place = 0
    while True:
        values = []
        for _ in range(count):
            values.append(pool[place : place + size])
            place = place + max(size, 1) if place + 2 * size <= last else 0
        yield values


def ping(
    writer: "Client",
    reader: "Client",
    topic: str,
    messages: int,
    size: int,
    rate: float,
    shown: TransferProgress,
) -> tuple[list[float], list[float]]:
    """One message at a time. Each carries its number, so that the consumer's are known from others'
    messages.
    """
    from tank_client.settings import ProducerSettings, StartAt

    marker = secrets.token_bytes(STAMP_BYTES - 8)
    acks: list[float] = []
    deliveries: list[float] = []
    consumer = reader.consumer(topic, start=StartAt.END)
    producer = writer.producer(ProducerSettings(linger_ms=0, compression=False))
    try:
        consumer.poll(1)
        due = time.perf_counter()
        for number in range(WARM_UP + messages):
            time.sleep(max(0.0, due - time.perf_counter()))
            due = max(due, time.perf_counter()) + 1 / rate
            stamp = marker + number.to_bytes(8, "big")
            value = stamp + bytes(size - STAMP_BYTES)
            began = time.perf_counter()
            producer.send(topic, value).result()
            acked = time.perf_counter()
            await_value(consumer, value, topic)
            delivered = time.perf_counter()
            if number >= WARM_UP:
                acks.append(acked - began)
                deliveries.append(delivered - began)
                shown.advance(1, size)
    finally:
        consumer.close()
        producer.close()
    return acks, deliveries


def await_value(consumer: Any, value: bytes, topic: str) -> None:
    """Waits until the consumer hands the value out."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        batch = consumer.poll(1_000)
        if batch is not None and value in batch.values:
            return
    raise CliError(
        f"A message of {bytes_text(len(value))} was acknowledged in {topic} and not delivered in 30 s."
    )
