"""The programs in C that the broker is measured with: `tankload` makes the load, `tankceil` is the ceiling.

Their sources are in `benchmarks/ceiling`; they are built into `out/bench` when they are first needed.
"""

import json
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "benchmarks" / "ceiling"
BUILT = ROOT / "out" / "bench"
LOAD = BUILT / "tankload"
CEILING = BUILT / "tankceil"
# A load ends itself after its seconds; this is for one that hangs.
LOAD_TIMEOUT_S = 120.0


class LoadFailed(Exception):
    """The load generator ended with an error: what it said, and with which command it can be repeated."""


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of the load generator measured; `wall` figures also hold the generator and the machine."""

    server_us: float
    """Processor time of the server, all threads, per request, in microseconds."""
    requests_s: float
    messages_s: float
    mb_s: float
    """Stored bytes, in 10^6 a second."""
    server_cpu: float
    """Processors that the server kept busy."""
    client_cpu: float
    """The same of the generator: near 1 it is the limit."""
    other_cpu: float
    """Processors that neither of them had: other processes, and what the system does for nobody."""
    stolen_cpu: float
    """Processors that the hypervisor gave to others meanwhile."""
    p50_us: float
    p99_us: float
    """Closed loops: how long the queue was. Paced: from when a request was due until it was acknowledged.
    Tail: until a consumer that waits has it. 0 where nothing was timed."""
    checked: int
    """Messages of which every byte was looked at."""


def missing_tool() -> str | None:
    """What the programs can't be built without, and isn't there; None if all is."""
    return next((tool for tool in ("cc", "make") if shutil.which(tool) is None), None)


def build() -> None:
    """Builds both programs where they are older than their sources.

    Raises:
        SystemExit: says what is missing.
    """
    if tool := missing_tool():
        raise SystemExit(f"The load generator is C, and there is no {tool}: install a C compiler and make.")
    subprocess.run(["make", "-s", "-C", str(SOURCES), f"BUILD={BUILT}"], check=True)


def run_load(arguments: str, port: int, pid: int | str, *more: str) -> Load:
    """Runs one load against the broker on `port` of loopback, whose process is `pid`; several with commas
    between: their processor time is added up.

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
