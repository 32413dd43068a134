"""What a task holds while it reads: a chunk and a batch, however long the partition is."""

from __future__ import annotations

import os
import subprocess
import sys

from tank_protos.bundle import Codec, encode
from tests.spark.conftest import NewTopic

BUNDLES = 192
BUNDLE_MIB = 1
# The chunk, the batch made of it, and what Python and its allocators keep beside them.
BOUND_MIB = 24


def test_a_task_holds_no_more_of_a_partition_than_a_chunk_and_a_batch(new_topic: NewTopic) -> None:
    """192 MiB are read; what the process has at its peak hardly grows after the first batches."""
    topic = new_topic()
    bundle = encode([os.urandom(1024) for _ in range(BUNDLE_MIB << 10)], timestamps=1, codec=Codec.NONE)
    for _ in range(BUNDLES):
        topic.add_bundle(bundle)
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.reader_memory", topic.servers, topic.name],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    rows, largest_kib, grown_kib = map(int, done.stdout.split())
    assert rows == BUNDLES * BUNDLE_MIB << 10
    assert largest_kib < 2048
    assert grown_kib < BOUND_MIB << 10, f"grew by {grown_kib} KiB"
