"""`make kafka`: stock clients of Kafka's protocol against one broker of ours, and against three.

Every producer writes with every codec, and every consumer reads everything, our own client among them: once
to a topic of Kafka's record batches and once to a topic of TANK's bundles. The records must be those that
were sent, byte for byte, in their order, at the offsets that the producer was told. kcat, where it is
installed, lists the topics and their offsets. Members of groups share a topic, of each library and of all
together. The probes beside the repository walk through all that a client can do, programs make the calls of
a user interface and of groups' administrators, and Spark's own Kafka source and sink stand beside ours.
Members of groups go on when their coordinator is killed, Kafka Connect copies a file over the death of each
broker, and a schema registry keeps its schemas. Where Kafka itself can be installed, it answers the same raw
requests as a broker of ours. What needs transactions is listed as not yet there. Exit code 1 when another
step failed.
"""

import argparse
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tests.kafka_clients import connect, registry, spark
from tests.kafka_clients.beside import kafka_server
from tests.kafka_clients.brokers import one_broker, three_brokers
from tests.kafka_clients.libraries import LIBRARIES, ROOT, NotInstalledError, StockLibrary
from tests.kafka_clients.shown import Screen, put_into, rows, summary
from tests.kafka_clients.steps import (
    BESIDE,
    CONNECT,
    EXTRAS,
    PARTS,
    REGISTRY,
    SPARK,
    Outcome,
    Run,
    Step,
    has_kcat,
    planned,
)

FOLDER: Final = ROOT / "out" / "kafka_clients"


def installed(folder: Path, names: list[str]) -> list[StockLibrary]:
    """Installs the libraries; returns those that could be."""
    found = []
    for library in LIBRARIES:
        if names and library.name.lower() not in names:
            continue
        try:
            library.install(folder)
        except NotInstalledError as error:
            print(f"left out: {library.name}: {error}", flush=True)
        else:
            found.append(library)
    return found


_INSTALL: Final = {
    SPARK: spark.install,
    CONNECT: connect.install,
    REGISTRY: registry.install,
    BESIDE: kafka_server.install,
}
_VERSION: Final = {
    SPARK: spark.VERSION,
    CONNECT: connect.VERSION,
    REGISTRY: registry.VERSION,
    BESIDE: kafka_server.VERSION,
}


def _installed_extras(folder: Path, names: list[str]) -> frozenset[str]:
    """Installs what is no library; returns what could be."""
    found = set()
    for extra in EXTRAS:
        if names and extra.lower() not in names:
            continue
        try:
            _INSTALL[extra](folder)
        except NotInstalledError as error:
            print(f"left out: {extra}: {error}", flush=True)
        else:
            found.add(extra)
    return frozenset(found)


def _chosen() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka_clients", description=__doc__)
    parser.add_argument("--brokers", choices=("1", "3", "both"), default="both")
    parser.add_argument("--library", action="append", default=[], help="this one alone; may be repeated")
    parser.add_argument(
        "--part", action="append", default=[], choices=PARTS, help="this one alone; may be repeated"
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the libraries are installed")
    parser.add_argument(
        "--into", type=Path, metavar="FILE", help="put what was run into the tables of this page"
    )
    chosen = parser.parse_args()
    known = [library.name.lower() for library in LIBRARIES] + [extra.lower() for extra in EXTRAS]
    chosen.library = [name.lower() for name in chosen.library]
    if unknown := [name for name in chosen.library if name not in known]:
        parser.error(f"no library is called {unknown[0]!r}; there are {', '.join(known)}")
    if chosen.into and chosen.brokers != "both":
        parser.error("--into: the tables have figures of one broker and of three; leave --brokers out")
    return chosen


def main() -> int:
    """See the module."""
    chosen = _chosen()
    began = time.monotonic()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    libraries = installed(chosen.folder, chosen.library)
    extras = _installed_extras(chosen.folder, chosen.library)
    found = [f"{each.name} {each.version}" for each in libraries]
    found += [f"{extra} {_VERSION[extra]}".strip() for extra in EXTRAS if extra in extras]
    print(f"libraries: {', '.join(found) or 'none'}", flush=True)
    if not found:
        return 1
    if libraries and not has_kcat():
        print("left out: kcat, which is not installed", flush=True)
    runs = [(1, one_broker), (3, three_brokers)]
    runs = [(count, start) for count, start in runs if chosen.brokers in ("both", str(count))]
    screen = Screen(sum(planned(libraries, extras, count) for count, _ in runs))
    results: dict[int, list[Step]] = {}
    with tempfile.TemporaryDirectory(prefix="tank-kafka-") as made:
        for count, brokers in runs:
            print(f"against {count} broker{'s' if count > 1 else ''}:", flush=True)
            steps = results[count] = []

            def tell(step: Step) -> None:
                screen.tell(step)
                steps.append(step)  # noqa: B023  of this round

            with brokers(Path(made)) as servers:
                Run(servers, chosen.folder, libraries, count, tell).all(
                    extras, frozenset(chosen.part or PARTS)
                )
    print(summary(results, began), flush=True)
    if chosen.into:
        page = put_into(chosen.into.read_text(), rows(results, datetime.now(UTC).date()))
        chosen.into.write_text(page)
    failed = any(step.outcome is Outcome.FAILED for steps in results.values() for step in steps)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
