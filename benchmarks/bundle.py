"""How many messages a second the bundle codec encodes and decodes, and what the broker's validator costs.

python -m benchmarks.bundle [--kernel pure|compiled|both] [--seconds 0.3] [--messages 100]

Prints tables, without bars. Each figure is CPU time, the best of several runs, so that a busy machine changes
it little.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks.harness.servers import kernels
from tank_protos import kernel
from tank_protos.bundle import (
    Codec,
    as_batch,
    decode,
    decode_columns,
    encode,
    encode_sparse,
    make_sparse,
    validate,
)
from tank_protos.bundle.arrow import Chunk, decode_arrow

RUNS = 5
CHUNK_BYTES = 1 << 20


def best_seconds(action: Callable[[], object], seconds: float) -> float:
    """CPU seconds that one call takes: the best of RUNS runs that together last about `seconds`."""
    action()
    calls, best = 1, float("inf")
    for _ in range(RUNS):
        while True:
            begin = time.process_time()
            for _ in range(calls):
                action()
            took = time.process_time() - begin
            if took >= seconds / RUNS / 2:
                break
            calls *= 2
        best = min(best, took / calls)
    return best


@dataclass
class Shape:
    """A kind of bundle: the arguments of `encode`."""

    values: list[bytes]
    timestamps: list[int] | int = 1
    keys: list[bytes | None] | None = None
    codec: Codec = Codec.NONE

    def encode(self) -> bytes:
        return encode(self.values, timestamps=self.timestamps, keys=self.keys, codec=self.codec)


def shapes(count: int) -> dict[str, Shape]:
    """Bundles with contents of about 100 bytes."""
    text = b"the quick brown fox jumps over the lazy dog, again and again, until a reader counts them: %08d"
    equal = [(text % number).ljust(100, b".") for number in range(count)]
    mixed = [value[: 90 + number % 10] + b"x" * (number % 20) for number, value in enumerate(equal)]
    keys: list[bytes | None] = [b"%02d" % (number % 16) for number in range(count)]
    rising = list(range(1_700_000_000_000, 1_700_000_000_000 + count))
    return {
        "100 B each": Shape(equal),
        "90-118 B": Shape(mixed),
        "90-118 B, snappy": Shape(mixed, codec=Codec.SNAPPY),
        "90-118 B, timestamps differ": Shape(mixed, rising),
        "90-118 B, keys": Shape(mixed, keys=keys),
        "90-118 B, keys, timestamps differ": Shape(mixed, rising, keys),
    }


def codec_table(count: int, seconds: float) -> Table:
    table = Table(title=f"Million messages a second, bundles of {count}, {kernel.NAME} kernel")
    table.add_column("bundle")
    for name in ("encode", "to tuples", "to columns", "to Arrow"):
        table.add_column(name, justify="right")
    for name, shape in shapes(count).items():
        bundle = shape.encode()
        batch = memoryview(as_batch(bundle))
        times = [
            best_seconds(shape.encode, seconds) / count,
            best_seconds(partial(decode, bundle, 1), seconds) / count,
            best_seconds(partial(decode_columns, batch, 1), seconds) / count,
            *arrow_seconds(shape, seconds),
        ]
        table.add_row(name, *(f"{1e-6 / one:.1f}" for one in times))
    values, numbers = shapes(count)["90-118 B"].values, range(1, 2 * count, 2)
    sparse = encode_sparse(numbers, values, timestamps=1, codec=Codec.NONE)
    times = [
        best_seconds(partial(encode_sparse, numbers, values, timestamps=1, codec=Codec.NONE), seconds)
        / count,
        best_seconds(partial(decode, sparse, 1), seconds) / count,
        best_seconds(partial(decode_columns, as_batch(sparse), 1), seconds) / count,
    ]
    table.add_row("90-118 B, sparse", *(f"{1e-6 / one:.1f}" for one in times))
    return table


def arrow_seconds(shape: Shape, seconds: float) -> list[float]:
    """Seconds per message to decode to Arrow; empty when the extra is not installed."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        return []
    batch = as_batch(shape.encode())
    copies = max(1, CHUNK_BYTES // len(batch))
    chunk = Chunk(1, memoryview(batch * copies))
    return [
        best_seconds(lambda: list(decode_arrow([chunk])), seconds) / (copies * len(shape.values)),
    ]


def validator_table(seconds: float) -> Table:
    table = Table(title=f"What the broker does, microseconds a bundle, {kernel.NAME} kernel")
    table.add_column("bundle")
    table.add_column("validate", justify="right")
    table.add_column("validate.bundles=false", justify="right")
    many = [b"x" * 100] * 100
    dense = encode(many, timestamps=1, codec=Codec.NONE)
    cases = {
        "1 message of 100 B": encode(many[:1], timestamps=1),
        "10 messages of 100 B": encode(many[:10], timestamps=1, codec=Codec.NONE),
        "100 messages of 100 B": dense,
        "100 messages, snappy": encode(many, timestamps=1, codec=Codec.SNAPPY),
        "100 messages, sparse": encode_sparse(range(5, 105), many, timestamps=1, codec=Codec.NONE),
    }
    for name, bundle in cases.items():
        batch = memoryview(as_batch(bundle))
        table.add_row(
            name,
            f"{best_seconds(partial(validate, batch, True), seconds) * 1e6:.2f}",
            f"{best_seconds(partial(validate, batch), seconds) * 1e6:.2f}",
        )
    table.add_row(
        "make_sparse, 100 messages", f"{best_seconds(partial(make_sparse, dense, 7), seconds) * 1e6:.2f}"
    )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long each figure is measured")
    parser.add_argument("--messages", type=int, default=100, help="messages in a bundle")
    parser.add_argument("--kernel", choices=["pure", "compiled", "both"], help="default: TANK_KERNEL's")
    arguments = parser.parse_args()
    if arguments.kernel:
        # A process chooses its kernel once, so each kernel needs a process of its own.
        given = ["--seconds", str(arguments.seconds), "--messages", str(arguments.messages)]
        for name in kernels(arguments.kernel):
            command = [sys.executable, "-m", "benchmarks.bundle", *given]
            subprocess.run(command, env=os.environ | {"TANK_KERNEL": name}, check=True)
        return
    console = Console(width=110)
    console.print(codec_table(arguments.messages, arguments.seconds))
    console.print(validator_table(arguments.seconds))


if __name__ == "__main__":
    main()
