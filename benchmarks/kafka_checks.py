"""What the check of a Kafka client's batch costs before it is stored, by the topic's record.validation.

    python -m benchmarks.kafka_checks [--seconds 0.3]

Prints nanoseconds of CPU a record of 100 bytes of text, in batches of 16 KiB and of 1 MiB, without bars: the
best of several runs, as in benchmarks.bundle.
"""

import argparse
import random
from collections.abc import Callable

from rich.console import Console
from rich.table import Table

from benchmarks.bundle import best_seconds
from tank_node.kafka.produced_records import checked_batch
from tank_node.kafka.request_room import RequestRoom
from tank_node.metrics import Metrics
from tank_protos import topic_settings
from tank_protos.kafka import record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.records import KafkaRecord
from tank_protos.topic_settings import LOG_FORMAT, LogFormat, RecordValidation

_WORDS = 400
_WORD = 7
_WORDS_A_RECORD = 14
_VERSION = 9
_NOW_MS = 1_800_000_000_000


def records(count: int) -> list[KafkaRecord]:
    """Records of words, which compress to a third or to half, as much of what people store does."""
    chance = random.Random(1)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    words = [bytes(chance.choices(letters, k=_WORD - 1)) for _ in range(_WORDS)]
    return [
        KafkaRecord(None, b" ".join(chance.choices(words, k=_WORDS_A_RECORD)) + b"..", place, 0)
        for place in range(count)
    ]


def check_of(batch: bytes, validation: str) -> Callable[[], object]:
    """Returns what checks this batch once, as the only one of a request."""
    pairs = {LOG_FORMAT: LogFormat.KAFKA.value, "record.validation": validation, "max.message.bytes": "2m"}
    settings, metrics = topic_settings.from_pairs(pairs), Metrics()
    return lambda: checked_batch(batch, _VERSION, settings, _NOW_MS, metrics, RequestRoom())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kafka_checks", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each figure")
    seconds = parser.parse_args().seconds
    names = [validation.value for validation in RecordValidation]
    table = Table("records", "codec", "bytes", *names, title="CPU of the check, ns a record")
    for count in (160, 10_000):
        content = records(count)
        for codec in KafkaCodec:
            batch = record_batch.encode(content, base_timestamp_ms=_NOW_MS, codec=codec)
            found = [best_seconds(check_of(batch, name), seconds) / count * 1e9 for name in names]
            row = [f"{nanoseconds:.0f}" for nanoseconds in found]
            table.add_row(f"{count:,}", codec.name.lower(), f"{len(batch):,}", *row)
    Console().print(table)


if __name__ == "__main__":
    main()
