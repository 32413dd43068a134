"""Real Kafka and a broker of ours side by side, to which the same scripts are played at once."""

import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from tests.kafka_clients.beside.kafka_server import VERSION, KafkaServer
from tests.kafka_clients.beside.our_server import MIN_SESSION_MS, OurServer
from tests.kafka_clients.beside.recorded import Record, differences, load, unneeded
from tests.kafka_clients.beside.scripts import play
from tests.kafka_clients.beside.talk import Server, await_groups

KAFKA: Final = f"Kafka {VERSION}"


@contextmanager
def kafka(folder: Path, data: Path) -> Iterator[Server]:
    """Real Kafka, set up as `our_server` is. Args: folder: where it is installed."""
    with KafkaServer(folder, data, group_min_session_timeout_ms=MIN_SESSION_MS) as server:
        yield server


def _played(server: Server, name: str, wanted: str, say: Callable[[str], None]) -> Record:
    began = time.monotonic()
    await_groups(server)
    record = dict(play(server, wanted))
    count = sum(map(len, record.values()))
    say(f"{name}: {count} answers to {len(record)} scripts in {time.monotonic() - began:.0f} s")
    return record


def both(folder: Path | None, wanted: str, say: Callable[[str], None]) -> tuple[Record, Record]:
    """What Kafka answers, and what ours does, to the scripts whose names begin so. Args: folder: where Kafka
    is installed; None: its answers are taken from the record."""
    with tempfile.TemporaryDirectory(prefix="tank-beside-") as made, ExitStack() as stack:
        ours = stack.enter_context(OurServer(Path(made) / "ours"))
        if folder is None:
            theirs = {name: notes for name, notes in load().items() if name.startswith(wanted)}
            return theirs, _played(ours, "ours", wanted, say)
        real = stack.enter_context(kafka(folder, Path(made) / "kafka"))
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(_played, real, KAFKA, wanted, say)
            second = pool.submit(_played, ours, "ours", wanted, say)
            return first.result(), second.result()


def compared(theirs: Record, ours: Record, *, with_known: bool = False) -> Iterator[tuple[str, list[str]]]:
    """Each script that both could be asked, and where the answers differ."""
    for script, notes in theirs.items():
        if script in ours:
            found = differences(script, notes, ours[script], with_known=with_known)
            yield script, [*found, *unneeded(script, notes, ours[script])]
