"""How long a node takes to open its data folder: 10,000 partitions and a segment of 1 GiB.

.venv/bin/python -m benchmarks.opening [--partitions N] [--segment-bytes N] [--folder DIR]

Prints the seconds after a clean stop, after a kill (only what lies behind the recovery point is read), and
after a kill with both checkpoints lost (everything is read). The files are in the page cache, so the disk is
not measured.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

from tank_node.clock import SystemClock
from tank_node.disk import OsDisk
from tank_node.log.settings import LogSettings
from tank_node.store.data_folder import DataFolder
from tank_protos import bundle

SETTINGS = LogSettings(segment_bytes=3 << 30)
BIG = 2
SMALL = 1


def fill(path: str, partitions: int, segment_bytes: int) -> None:
    """Three batches in every partition, and one segment of `segment_bytes` in bundles of about 64 KiB."""
    folder = DataFolder.open(path, OsDisk(), SystemClock())
    small = memoryview(bundle.as_batch(bundle.encode([os.urandom(100)], timestamps=1)))
    for partition in range(partitions):
        log = folder.open_log(SMALL, partition, SETTINGS)
        for _ in range(3):
            log.tail.stage(
                small, messages=1, first=None, span=0, max_timestamp_ms=1, leader_epoch=1, now_ms=1000
            )
        log.tail.write()
    big = memoryview(bundle.as_batch(bundle.encode([os.urandom(1000) for _ in range(64)], timestamps=1)))
    log = folder.open_log(BIG, 0, SETTINGS)
    while log.size_bytes < segment_bytes:
        for _ in range(16):
            log.tail.stage(
                big, messages=64, first=None, span=63, max_timestamp_ms=1, leader_epoch=1, now_ms=1000
            )
        log.tail.write()
    folder.close()


def open_all(path: str, partitions: int) -> tuple[float, DataFolder]:
    began = time.perf_counter()
    folder = DataFolder.open(path, OsDisk(), SystemClock())
    for partition in range(partitions):
        folder.open_log(SMALL, partition, SETTINGS)
    folder.open_log(BIG, 0, SETTINGS)
    return time.perf_counter() - began, folder


def report(name: str, seconds: float, folder: DataFolder) -> None:
    found = folder.recovered
    print(
        f"{name}: {seconds:.2f} s, {found.partitions} partitions, {found.messages_checked} messages and "
        f"{found.bytes_checked} bytes checked, {len(folder.files)} files open"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("--partitions", type=int, default=10_000)
    arguments.add_argument("--segment-bytes", type=int, default=1 << 30)
    arguments.add_argument(
        "--folder", default=None, help="where to make the data folder (default: the temp folder)"
    )
    arguments.add_argument("--kill", help=argparse.SUPPRESS)
    options = arguments.parse_args()
    if options.kill:  # a process of its own, which ends without a word
        _, folder = open_all(options.kill, options.partitions)
        small = memoryview(bundle.as_batch(bundle.encode([b"behind the recovery point"], timestamps=1)))
        for partition in range(0, options.partitions, 100):
            log = folder.open_log(SMALL, partition, SETTINGS)
            log.tail.stage(
                small, messages=1, first=None, span=0, max_timestamp_ms=1, leader_epoch=1, now_ms=1000
            )
            log.tail.write()
        os._exit(1)
    path = tempfile.mkdtemp(prefix="tank-opening-", dir=options.folder)
    kill = [
        sys.executable,
        "-m",
        "benchmarks.opening",
        "--partitions",
        str(options.partitions),
        "--kill",
        path,
    ]
    try:
        fill(path, options.partitions, options.segment_bytes)
        seconds, folder = open_all(path, options.partitions)
        report("after a clean stop", seconds, folder)
        folder.close()
        subprocess.run(kill, check=False)
        seconds, folder = open_all(path, options.partitions)
        report("after a kill", seconds, folder)
        folder.close()
        subprocess.run(kill, check=False)
        for name in ("checkpoint", "checkpoint.previous"):
            os.unlink(os.path.join(path, name))
        seconds, folder = open_all(path, options.partitions)
        report("after a kill, without checkpoints", seconds, folder)
        folder.close()
    finally:
        shutil.rmtree(path)


if __name__ == "__main__":
    main()
