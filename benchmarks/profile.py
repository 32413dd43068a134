"""Where the processor time of a request goes, beside C: `perf` samples the broker while a load runs.

python -m benchmarks.profile CASE [--kernel pure|compiled|both] [--seconds S] [--markdown] [--functions N]

CASE is the name of a load, as `python -m benchmarks.broker --list` prints it. Linux's `perf` must be
installed, and allowed to sample the kernel. The time of a request is the load generator's figure, divided by
the samples.
"""

import argparse
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.harness.cases import Case, cases
from benchmarks.harness.load_generator import Load, LoadFailed, build, run_load
from benchmarks.harness.servers import Kernel, NotListening, Server, ceiling, kernels, ours, running
from benchmarks.harness.table import machine, show_cells

SAMPLES_PER_S = 2000
WARM_UP_S = 0.4
PERF_STARTS_S = 0.3
SYSCALL = re.compile(r"^(?:__(?:x64|arm64)_sys_|do_)(\w+)")
SYSCALLS = {
    "receive": ("recvfrom", "recvmsg", "read", "readv"),
    "append": ("pwrite64", "pwritev", "pwritev2", "writev", "write", "fallocate"),
    "send": ("sendto", "sendmsg", "sendmmsg"),
    "sendfile": ("sendfile64", "sendfile"),
    "read of log and index": ("pread64", "preadv", "preadv2"),
    "wait": ("epoll_wait", "epoll_pwait", "epoll_pwait2", "epoll_ctl", "poll"),
    "fsync": ("fdatasync", "fsync", "sync_file_range"),
    "removal of segments": ("unlink", "unlinkat", "ftruncate", "close", "openat", "rename", "renameat2"),
}
GROUP_OF = {name: f"system: {group}" for group, names in SYSCALLS.items() for name in names}
OTHER_SYSTEM = "system: the rest"
CRC, COMPILED, INTERPRETER, LIBRARY, C = "CRC-32C", "compiled kernel", "interpreter", "libc", "C"


@dataclass(slots=True)
class Profile:
    """Samples of one broker under one load."""

    load: Load
    groups: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)

    def us(self, samples: int) -> float:
        """The microseconds of a request that this many samples stand for."""
        return self.load.server_us * samples / self.groups.total()


@dataclass(frozen=True, slots=True)
class Frame:
    """One line of a call chain."""

    symbol: str
    module: str


def chains(text: str) -> Iterator[list[Frame]]:
    """The call chains that `perf script -F ip,sym,dso` printed, innermost first."""
    for sample in text.split("\n\n"):
        chain = []
        for line in sample.splitlines():
            found = re.match(r"\s*[0-9a-f]+ (.*) \((.*)\)$", line)
            if found:
                chain.append(Frame(found[1].partition("+0x")[0], found[2]))
        if chain:
            yield chain


def group_of(chain: Iterable[Frame]) -> str:
    """The group of functions in which a sample was taken."""
    frames = list(chain)
    for frame in reversed(frames):
        found = SYSCALL.match(frame.symbol)
        if found is not None and found[1] in GROUP_OF:
            return GROUP_OF[found[1]]
    inner = frames[0]
    if "crc" in inner.symbol or "fastcrc" in inner.module:
        return CRC
    if "/compiled/" in inner.module:  # our own kernel: it comes first
        return COMPILED
    if "kernel" in inner.module or inner.module == "[unknown]":
        return OTHER_SYSTEM
    if inner.module.endswith("tankceil"):
        return C
    if "/libc" in inner.module or "vdso" in inner.module:
        return LIBRARY
    return INTERPRETER


def take(case: Case, server: Server, seconds: float) -> Profile:
    """Runs the load against a new broker, and samples it meanwhile."""
    more = case.ceiling if server.kernel is None else ()
    with running(server, *more) as broker, tempfile.TemporaryDirectory(prefix="tank-perf-") as folder:
        if case.fill:
            run_load(case.fill, broker.port, broker.pid, "--config", "flush=replicated\n")
        data = Path(folder) / "perf.data"
        look = f"perf record -q -e cpu-clock -g -F {SAMPLES_PER_S} -o {data} -p {broker.pid}"
        watcher = subprocess.Popen(
            [*shlex.split(look), "--", "sleep", str(WARM_UP_S + seconds)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        time.sleep(PERF_STARTS_S)
        settings = ("--config", case.settings) if case.settings else ()
        times = f"-w {WARM_UP_S} -T {seconds} -L 8192"
        profile = Profile(run_load(f"{case.load} {times}", broker.port, broker.pid, *settings))
        if watcher.wait():
            raise SystemExit("perf could not look at the broker: try `perf record -e cpu-clock -g -p PID`.")
        script = ["perf", "script", "-i", str(data), "-F", "ip,sym,dso"]
        text = subprocess.run(script, capture_output=True, text=True, check=True).stdout
    for chain in chains(text):
        profile.groups[group_of(chain)] += 1
        profile.functions[f"{chain[0].symbol} ({Path(chain[0].module).name})"] += 1
    return profile


def show_groups(case: Case, profiles: dict[str, Profile], *, markdown: bool) -> None:
    """Prints the microseconds of a request by group, with a column for each broker."""
    everything: Counter[str] = Counter()
    for profile in profiles.values():
        everything.update(profile.groups)
    names = sorted(everything, key=lambda name: (not name.startswith("system"), -everything[name]))
    lines = [[name, *(f"{p.us(p.groups[name]):.2f}" for p in profiles.values())] for name in names]
    lines.append(["together", *(f"{p.load.server_us:.2f}" for p in profiles.values())])
    title = f"{case.name}: µs a request. {machine()}"
    right = [False, *(True for _ in profiles)]
    show_cells(title, ["spent on", *profiles], lines, right=right, markdown=markdown)


def show_functions(name: str, profile: Profile, most: int, *, markdown: bool) -> None:
    """Prints the functions with most of the time."""
    lines = [
        [function, f"{profile.us(samples):.2f}", f"{100 * samples / profile.functions.total():.1f}"]
        for function, samples in profile.functions.most_common(most)
    ]
    heads = ["function", "µs a request", "%"]
    show_cells(f"{name}: functions", heads, lines, right=[False, True, True], markdown=markdown)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.profile", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("case", metavar="CASE", choices=[case.name for case in cases()])
    parser.add_argument("--kernel", choices=[*Kernel, "both"], default="both")
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument(
        "--functions", type=int, default=0, metavar="N", help="also the N most expensive functions"
    )
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    given = parser.parse_args()
    if shutil.which("perf") is None:
        raise SystemExit("There is no `perf`: install it (Debian, Ubuntu: linux-perf, linux-tools-generic).")
    build()
    case = next(case for case in cases() if case.name == given.case)
    servers = [ceiling(), *(ours(kernel) for kernel in kernels(given.kernel))]
    try:
        profiles = {server.name: take(case, server, given.seconds) for server in servers}
    except (LoadFailed, NotListening) as failure:
        raise SystemExit(f"FAILED {failure}") from None
    show_groups(case, profiles, markdown=given.markdown)
    for name, profile in profiles.items():
        if given.functions:
            show_functions(name, profile, given.functions, markdown=given.markdown)


if __name__ == "__main__":
    main()
