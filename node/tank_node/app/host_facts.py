"""The figures of this process and its machine that Iggy's clients may ask for."""

import os
import shutil
import socket
import threading
import time
from pathlib import Path
from typing import Final

from tank_node.iggy.services import HostFacts

_KIB: Final = 1024
_IDLE_FIELDS: Final = slice(3, 5)


class HostWatch:
    """Looks at the process and the machine; the shares of processors are those since the last look."""

    def __init__(self, data: str) -> None:
        """data: the folder whose volume is shown."""
        self._data = data
        self._own = self._now()
        self._all = _machine_ticks()

    def look(self) -> HostFacts:
        """Returns the figures of now. What the system does not tell is 0."""
        (own, at), (busy, ticks) = self._now(), _machine_ticks()
        seconds = max(at - self._own[1], 1e-3)
        passed = max(ticks - self._all[1], 1)
        cpu = 100 * (own - self._own[0]) / seconds
        total_cpu = 100 * (busy - self._all[0]) / passed
        self._own, self._all = (own, at), (busy, ticks)
        memory = _named_figures("/proc/meminfo")
        system = os.uname()
        try:
            disk = shutil.disk_usage(self._data)
            free, total = disk.free, disk.total
        except OSError:
            free = total = 0
        return HostFacts(
            process_id=os.getpid(),
            cpu_percent=cpu,
            total_cpu_percent=min(total_cpu, 100.0),
            memory_bytes=_named_figures("/proc/self/status").get("VmRSS", 0) * _KIB,
            total_memory_bytes=memory.get("MemTotal", 0) * _KIB,
            available_memory_bytes=memory.get("MemAvailable", 0) * _KIB,
            threads=threading.active_count(),
            hostname=socket.gethostname(),
            os_name=system.sysname,
            os_version=system.version,
            kernel_version=system.release,
            free_disk_bytes=free,
            total_disk_bytes=total,
        )

    @staticmethod
    def _now() -> tuple[float, float]:
        """The processor's seconds of this process, and the time."""
        return time.process_time(), time.monotonic()


def _machine_ticks() -> tuple[int, int]:
    """The busy ticks of all processors, and all ticks."""
    try:
        ticks = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except (OSError, ValueError):
        return 0, 0
    return sum(ticks) - sum(ticks[_IDLE_FIELDS]), sum(ticks)


def _named_figures(path: str) -> dict[str, int]:
    """The numbers of a file with lines such as `VmRSS:  1234 kB`."""
    found = {}
    try:
        for line in Path(path).read_text().splitlines():
            name, _, rest = line.partition(":")
            first = rest.split()[:1]
            if first and first[0].isdigit():
                found[name] = int(first[0])
    except OSError:
        return {}
    return found
