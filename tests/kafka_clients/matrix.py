"""Each producer with each of its codecs, read by each consumer: the same records, in their order."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from tests.kafka_clients.libraries import StockLibrary

RECORDS: Final = 60
"""The records of one producer's run: enough for several with a null key, a null value, or both."""
STEP_TIMEOUT_S: Final = 60
"""The longest that a program may take; its own waits are shorter."""


class Record(NamedTuple):
    """A record as a consumer printed it."""

    offset: int
    key: str | None
    value: str | None
    headers: list[list[str]]


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a run, and its outcome."""

    name: str
    problem: str
    """Empty: it went well."""
    seconds: float


def written(name: str, first: int) -> list[Record]:
    """The records of a producer's run whose first record has the offset `first`."""
    return [
        Record(
            first + number,
            None if number % 3 == 2 else f"{name}-{number}",
            None if number % 7 == 6 and number % 3 != 2 else f"{name}-{number}-" + 100 * "x",
            [["h", str(number)]],
        )
        for number in range(RECORDS)
    ]


def _lines(command: list[str]) -> list[str]:
    """What a program printed. Raises RuntimeError if it failed, or took too long."""
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"no end after {STEP_TIMEOUT_S} s") from None
    if ended.returncode:
        raise RuntimeError((ended.stderr or ended.stdout).strip()[-300:] or f"exit code {ended.returncode}")
    return ended.stdout.splitlines()


def produce(
    library: StockLibrary, folder: Path, servers: str, topic: str, codec: str, name: str
) -> list[int]:
    """Runs a producer. Returns the offsets that it was told. Raises RuntimeError."""
    command = [*library.command(folder), "produce", servers, topic, codec, str(RECORDS), name]
    return [int(offset) for offset in json.loads(_lines(command)[-1])]


def consume(library: StockLibrary, folder: Path, servers: str, topic: str, count: int) -> list[Record]:
    """Runs a consumer. Returns the records that it read. Raises RuntimeError."""
    command = [*library.command(folder), "consume", servers, topic, str(count)]
    return [Record(*json.loads(line)) for line in _lines(command)]


def difference(found: list[Record], wanted: list[Record]) -> str:
    """What is wrong with the records that a consumer read; empty: nothing."""
    if len(found) != len(wanted):
        return f"{len(found)} records, where {len(wanted)} are"
    for read, sent in zip(found, wanted, strict=True):
        if read != sent:
            return f"read {str(read)[:150]}, where {str(sent)[:150]} was written"
    return ""


def producers(libraries: list[StockLibrary]) -> Iterator[tuple[StockLibrary, str]]:
    """Each producer with each of its codecs."""
    for library in libraries:
        for codec in library.codecs:
            yield library, codec
