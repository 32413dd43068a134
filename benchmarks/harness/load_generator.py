"""The programs in C for benchmarks of the broker: `tankload` makes the load, `tankceil` is a broker with as
little work as possible, to compare with. Their sources are in `benchmarks/ceiling`; they are built into
`out/bench`.
"""

import fcntl
import json
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "benchmarks" / "ceiling"
BUILT = ROOT / "out" / "bench"
LOAD = BUILT / "tankload"
CEILING = BUILT / "tankceil"
# A load ends by itself after its seconds; this limit is for one that hangs.
LOAD_TIMEOUT_S = 120.0


class LoadFailed(Exception):
    """The load generator ended with an error; the text has its output, and the command to repeat it."""


@dataclass(frozen=True, slots=True)
class Load:
    """The figures of one run of the load generator; `wall` figures also depend on the generator and the
    machine."""

    server_us: float
    """Processor time of the server, all threads, per request, in microseconds."""
    requests_s: float
    messages_s: float
    mb_s: float
    """Stored bytes, in 10^6 a second."""
    server_cpu: float
    """Processors that the server kept busy."""
    client_cpu: float
    """Processors that the load generator kept busy: near 1, the generator limits the throughput."""
    other_cpu: float
    """Processors that other processes and the system itself kept busy."""
    stolen_cpu: float
    """Processors that the hypervisor gave to other machines meanwhile."""
    p50_us: float
    p99_us: float
    """Closed loops: the time in the queue. Paced: from when a request was due until it was acknowledged.
    Tail: until a waiting consumer has the message. 0: not measured."""
    checked: int
    """Messages of which every byte was checked."""


def missing_tool() -> str | None:
    """A tool that building the programs needs, and that isn't installed; None: all are."""
    return next((tool for tool in ("cc", "make") if shutil.which(tool) is None), None)


def build(into: Path = BUILT) -> None:
    """Builds both programs if they are older than their sources. Processes take turns, because a program
    can't run while the linker writes it.

    Raises:
        SystemExit: says what is missing.
    """
    if tool := missing_tool():
        raise SystemExit(f"The load generator is C, and there is no {tool}: install a C compiler and make.")
    into.mkdir(parents=True, exist_ok=True)
    with (into / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(["make", "-s", "-C", str(SOURCES), f"BUILD={into}"], check=True)


def run_load(arguments: str, port: int, pid: int | str, *more: str) -> Load:
    """Runs one load against the broker on `port` of loopback. `pid`: the server's process, or several with
    commas between, whose processor time is added.

    Raises:
        LoadFailed: an error from the broker, a gap, a repeat, a wrong byte, or it took too long.
    """
    command = [str(LOAD), *shlex.split(arguments), *more, "-p", str(port), "-i", str(pid)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LOAD_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise LoadFailed(f"{shlex.join(command)}\nhas not ended after {LOAD_TIMEOUT_S:.0f} s") from None
    if ended.returncode:
        raise LoadFailed(f"{shlex.join(command)}\n{ended.stderr.strip()}")
    found = json.loads(ended.stdout)
    latency = found.get("tail_latency_us" if found["mode"] == "tail" else "latency_us", {})
    return Load(
        server_us=found["server_us_per_req"],
        requests_s=found["req_per_s"],
        messages_s=found["msg_per_s"],
        mb_s=found["mb_per_s"],
        server_cpu=found["server_cpu"],
        client_cpu=found["client_cpu"],
        other_cpu=found["other_cpu"],
        stolen_cpu=found["stolen_cpu"],
        p50_us=latency.get("p50", 0.0),
        p99_us=latency.get("p99", 0.0),
        checked=found["checked"],
    )
