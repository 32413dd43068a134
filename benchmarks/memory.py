"""The memory of a broker: idle, with 200 busy connections, with 10,000 partitions; and that of Spark's
reader.

python -m benchmarks.memory [--kernel pure|compiled|both] [--connections N] [--partitions N] [--quick]
                                [--markdown] [--rows]

The figures are the resident memory of real processes; under a load, the greatest at any time.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.harness.load_generator import LoadFailed, build, run_load
from benchmarks.harness.servers import (
    Kernel,
    NotListening,
    Running,
    Server,
    environment,
    kernels,
    ours,
    running,
)
from benchmarks.harness.table import Reached, Row, dump, machine, show, summary

IDLE_MIB, BUSY_MIB, READER_MIB = 60, 300, 24
SETTLE_S = 2.0
SETTINGS = "log.segment.bytes=67108864\nretention.segments.count=2\nflush=replicated\n"
FILL = "produce -C -t full -s 100 -m 100 -c 4 -d 8 -w 0 -T 60 -L 200"
FILL_WIDE = "produce -C -t full -s 1000 -m 100 -c 4 -d 8 -w 0 -T 60 -L 200"


@dataclass(frozen=True, slots=True)
class Situation:
    """A situation of a broker, and the bar of its memory."""

    name: str
    enter: Callable[[Running], int]
    """Brings the broker into the situation; returns its resident bytes."""
    bar_mib: int | None


def idle(broker: Running) -> int:
    """A broker that has just started."""
    time.sleep(SETTLE_S)
    return broker.resident_bytes()


def busy(load: str, seconds: float) -> Callable[[Running], int]:
    """A broker under one load; the greatest memory at any time."""

    def enter(broker: Running) -> int:
        if load.startswith("consume"):
            run_load(FILL, broker.port, broker.pid, "--config", "flush=replicated\n")
        else:
            assert " -C " in load, "a load that writes makes its topic"
        settings = ("--config", SETTINGS) if " -C " in load else ()
        run_load(f"{load} -w 0.3 -T {seconds} -L 8192", broker.port, broker.pid, *settings)
        return broker.most_resident_bytes()

    return enter


def partitions(count: int) -> Callable[[Running], int]:
    """A broker with this many partitions, after a message was written to each."""

    def enter(broker: Running) -> int:
        # Each connection writes to the partitions in turn, so after its `count` messages all have some.
        mib = -(-4 * count * 100 >> 20) + 1
        load = f"produce -C -P {count} -c 4 -d 16 -s 100 -w 0 -T 60 -L {mib}"
        run_load(load, broker.port, broker.pid, "--config", SETTINGS)
        time.sleep(SETTLE_S)
        return broker.resident_bytes()

    return enter


def situations(connections: int, count: int, seconds: float) -> Iterator[Situation]:
    """All situations."""
    yield Situation("idle", idle, IDLE_MIB)
    for what, load in (
        ("producing 100 B × 10, 8 under way each", f"produce -C -P 8 -c {connections} -d 8 -s 100 -m 10"),
        ("producing 64 KiB, 8 under way each", f"produce -C -P 8 -c {connections} -d 8 -s 65536"),
        ("producing 500 KB × 2, 2 under way each", f"produce -C -P 8 -c {connections} -d 2 -s 500000 -m 2"),
        ("consuming, fetches of 1 MiB", f"consume -t full -c {connections} -f 1048576"),
    ):
        yield Situation(f"{connections} connections {what}", busy(load, seconds), BUSY_MIB)
    yield Situation(f"{count:,} partitions, all written to", partitions(count), None)


def measure(situation: Situation, server: Server) -> Row:
    """Measures a situation, on a new broker."""
    with running(server) as broker:
        mib = situation.enter(broker) / (1 << 20)
    bar = situation.bar_mib
    return Row(
        f"broker: {situation.name}",
        f"{mib:.0f} MiB",
        f"< {bar} MiB" if bar else "",
        Reached.of([mib < bar]) if bar else None,
        server.kernel or "",
    )


def measure_reader(server: Server) -> Row:
    """Measures the growth of Spark's reader after its first batches, while it reads 200 MB."""
    with running(server) as broker:
        run_load(FILL_WIDE, broker.port, broker.pid, "--config", "flush=replicated\n")
        command = [sys.executable, "-m", "benchmarks.reader_memory", f"127.0.0.1:{broker.port}", "full"]
        told = subprocess.run(
            command, env=environment(server.kernel), stdout=subprocess.PIPE, check=True
        ).stdout
    _, _, grown_kib = map(int, told.split())
    mib = grown_kib / 1024
    return Row(
        "Spark's reader: its growth over 200 MB",
        f"{mib:.0f} MiB",
        f"< {READER_MIB} MiB",
        Reached.of([mib < READER_MIB]),
        server.kernel or "",
    )


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.memory", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="both")
    parser.add_argument("--connections", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="1 s of each load instead of 4")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    parser.add_argument("--rows", action="store_true", help="print the rows as JSON, for `make bench`")
    given = parser.parse_args()
    build()
    seconds = 1.0 if given.quick else 4.0
    wanted = list(situations(given.connections, given.partitions, seconds))
    servers = [ours(kernel) for kernel in kernels(given.kernel)]
    try:
        found = [measure(situation, server) for situation in wanted for server in servers]
        found += [measure_reader(server) for server in servers]
    except (LoadFailed, NotListening, subprocess.CalledProcessError) as failure:
        raise SystemExit(f"FAILED {failure}") from None
    how = f"a broker for each row, {seconds:g} s of load"
    if given.rows:
        dump(found, how)
        return
    show(f"Memory: {how}. {machine()}. {summary(found)}", found, markdown=given.markdown)


if __name__ == "__main__":
    main()
