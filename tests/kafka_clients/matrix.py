"""Each producer with each of its codecs, read by each consumer: the same records, in their order."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_clients.libraries import StockLibrary
from tests.kafka_clients.programs.records import printed, record
from tests.support.patience import patient

RECORDS: Final = 60
"""The records of one producer's run: enough for several of each kind."""
STEP_TIMEOUT_S: Final = patient(60.0)
"""The longest that a program may take; its own waits are shorter."""


class Record(NamedTuple):
    """A record as a consumer printed it, in hexadecimal digits."""

    offset: int
    key: str | None
    value: str | None
    headers: list[list[str | None]]


def written(name: str, first: int, kind: str) -> list[Record]:
    """The records of a producer's run whose first record has the offset `first`. kind: as in the programs'
    README.md."""
    rows = [printed(first + number, *record(name, number, kind)) for number in range(RECORDS)]
    return [Record(*json.loads(json.dumps(row))) for row in rows]


def printed_by(command: list[str]) -> list[str]:
    """The lines that a program prints. Raises RuntimeError if it failed, or took too long."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {STEP_TIMEOUT_S:.0f} s") from None
    if ended.returncode:
        raise RuntimeError((ended.stderr or ended.stdout).strip()[-300:] or f"exit code {ended.returncode}")
    return ended.stdout.splitlines()


def produce(
    library: StockLibrary, folder: Path, servers: str, topic: str, codec: str, name: str, kind: str
) -> list[int]:
    """Runs a producer. Returns the offsets that it was told. Raises RuntimeError."""
    command = [*library.command(folder), "produce", servers, topic, codec, str(RECORDS), name]
    command.append(kind)
    return [int(offset) for offset in json.loads(printed_by(command)[-1])]


def consume(library: StockLibrary, folder: Path, servers: str, topic: str, count: int) -> list[Record]:
    """Runs a consumer. Returns the records that it read. Raises RuntimeError."""
    command = [*library.command(folder), "consume", servers, topic, str(count)]
    return [Record(*json.loads(line)) for line in printed_by(command)]


def difference(found: list[Record], wanted: list[Record]) -> str:
    """What is wrong with the records that a consumer read; empty: nothing."""
    if len(found) != len(wanted):
        return f"{len(found)} records, where {len(wanted)} are"
    for read, sent in zip(found, wanted, strict=True):
        if read != sent:
            return f"read {_short(read)}, where {_short(sent)} was written"
    return ""


def _short(one: Record) -> str:
    value = one.value if one.value is None or len(one.value) <= 60 else f"{one.value[:60]}..."
    return str(one._replace(value=value))


def producers(libraries: list[StockLibrary]) -> Iterator[tuple[StockLibrary, str]]:
    """Each producer with each of its codecs."""
    for library in libraries:
        for codec in library.codecs:
            yield library, codec
