"""What the check of a Kafka client's batch costs before it is stored, by the topic's record.validation.

    python -m benchmarks.kafka_checks [--seconds 0.3] [--stored]

Prints nanoseconds of CPU a record of 100 bytes of text, in batches of 16 KiB and of 1 MiB, without bars: the
best of several runs, as in benchmarks.bundle. With `--stored`, also what a whole broker takes to store such a
record, from the socket to the file, in the batches of 1 MiB.
"""

import argparse
import random
import time
from collections.abc import Callable, Sequence
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks.bundle import best_seconds
from benchmarks.harness.kafka_frames import produce_frame, run_frames
from benchmarks.harness.servers import Kernel, free_port, ours, running
from tank_client.sync import Client
from tank_node.kafka.produce.produced_records import checked_batch
from tank_node.kafka.produce.request_room import RequestRoom
from tank_node.metrics import Metrics
from tank_protos import kernel, topic_settings
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tank_protos.topic_settings import LOG_FORMAT, LogFormat, RecordValidation

_WORDS = 400
_WORD = 7
_WORDS_A_RECORD = 14
_VERSION = 9
MANY = 10_000
"""The records of a batch of 1 MiB."""
WARM_UP_S, STORED_S = 0.5, 2.0
STORED = {
    "max.message.bytes": "2m",
    "flush": "replicated",
    "log.segment.bytes": "67108864",
    "retention.segments.count": "2",
}
"""Small and few segments, so that long runs don't fill the disk."""


def records(count: int) -> list[KafkaRecord]:
    """Records of words, which compress to a third or to half, as much of what people store does."""
    chance = random.Random(1)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(chance.choices(letters, k=_WORD - 1)) for _ in range(_WORDS)]
    return [
        KafkaRecord(None, b" ".join(chance.choices(words, k=_WORDS_A_RECORD)) + b"..", place, 0)
        for place in range(count)
    ]


def _now_ms() -> int:
    return int(time.time() * 1000)


def check_of(batch: bytes, validation: str) -> Callable[[], object]:
    """Returns what checks this batch once, as the only one of a request."""
    pairs = {LOG_FORMAT: LogFormat.KAFKA.value, "record.validation": validation, "max.message.bytes": "2m"}
    settings, metrics = topic_settings.from_pairs(pairs), Metrics()
    return lambda: checked_batch(batch, _VERSION, settings, _now_ms(), metrics, RequestRoom())


def stored_ns(batch: bytes, count: int, validation: str, seconds: float) -> float:
    """Returns the CPU of a broker for a record, in nanoseconds, when a client sends this batch of `count`
    again and again. Raises NotListening, LoadFailed."""
    address = f"127.0.0.1:{free_port()}"
    pairs = {LOG_FORMAT: LogFormat.KAFKA.value, "record.validation": validation, **STORED}
    with running(ours(Kernel(kernel.NAME)), "--kafka", address) as broker:
        with Client(f"127.0.0.1:{broker.port}") as client:
            client.admin.create_topic("checks", 1, 1, pairs)
        frames = [produce_frame("checks", 0, batch)]
        run_frames(address, broker.pid, frames, connections=1, depth=5, seconds=WARM_UP_S)
        done = run_frames(address, broker.pid, frames, connections=1, depth=5, seconds=seconds)
    return done.server_s / done.requests / count * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_checks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each figure")
    parser.add_argument("--stored", action="store_true", help="what a broker takes to store a record, too")
    given = parser.parse_args()
    names = [validation.value for validation in RecordValidation]
    show("CPU of the check, ns a record", (160, MANY), names, partial(checked_ns, seconds=given.seconds))
    if given.stored:
        seconds = max(given.seconds, STORED_S)
        show("CPU of a broker, ns a record", (MANY,), names, partial(stored_ns, seconds=seconds))


def checked_ns(batch: bytes, count: int, validation: str, seconds: float) -> float:
    """Returns the CPU of the check alone for a record, in nanoseconds."""
    return best_seconds(check_of(batch, validation), seconds) / count * 1e9


def show(
    title: str, counts: Sequence[int], names: Sequence[str], measure: Callable[[bytes, int, str], float]
) -> None:
    """Prints a table of batches with so many records, for each codec."""
    table = Table("records", "codec", "bytes", *names, title=title)
    for count in counts:
        content = records(count)
        for codec in KafkaCodec:
            batch = record_batch.encode(content, base_timestamp_ms=_now_ms(), codec=codec)
            row = [f"{measure(batch, count, name):.0f}" for name in names]
            table.add_row(f"{count:,}", codec.name.lower(), f"{len(batch):,}", *row)
    Console().print(table)


if __name__ == "__main__":
    main()
