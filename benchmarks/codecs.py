"""What a generated codec costs: microseconds to decode and to encode the messages that a broker sees most.

    python -m benchmarks.codecs [--seconds 0.3]

Prints a table, without bars. The figures are CPU time, the best of several runs, as in benchmarks.bundle.
"""

import argparse
from functools import partial

from rich.console import Console
from rich.table import Table

from benchmarks.bundle import best_seconds
from tank_protos.bundle import as_batch, encode
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    FetchedPartition,
    FetchedTopic,
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopic,
)
from tank_protos.wire.message import Message


def messages() -> dict[str, Message]:
    """Requests for one partition and for a hundred, with bundles of about a kilobyte, and their answers."""
    batch = as_batch(encode([b"x" * 100] * 10, timestamps=1))
    chunk = batch * 64
    fetched = [FetchedPartition(number, 0, 1, 640, len(chunk)) for number in range(100)]
    return {
        "ProduceRequest, 1 partition": ProduceRequest(
            client_id="c", topics=[ProduceTopic("flights", [ProducePartition(3, batch)])]
        ),
        "ProduceRequest, 100 partitions": ProduceRequest(
            client_id="c",
            topics=[ProduceTopic("flights", [ProducePartition(n, batch) for n in range(100)])],
        ),
        "IdempotentProduceRequest, 1 partition": IdempotentProduceRequest(
            topics=[IdempotentTopic("flights", [IdempotentPartition(3, 1, 1, batch)])]
        ),
        "ProduceResponse, 1 partition": ProduceResponse(7, [ProduceResult()]),
        "ConsumeRequest, 1 partition": ConsumeRequest(
            topics=[ConsumeTopic("flights", [ConsumePartition(3, 1, 1 << 20)])]
        ),
        "ConsumeRequest, 100 partitions": ConsumeRequest(
            topics=[ConsumeTopic("flights", [ConsumePartition(n, 1, 1 << 20) for n in range(100)])]
        ),
        "ConsumeResponse, 1 partition": ConsumeResponse(
            topics=[FetchedTopic("flights", 1, False, fetched[:1])], chunks=chunk
        ),
        "ConsumeResponse, 100 partitions": ConsumeResponse(
            topics=[FetchedTopic("flights", 100, False, fetched)], chunks=chunk * 100
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codecs", description=__doc__)
    parser.add_argument("--seconds", type=float, default=0.3, help="how long to measure each figure")
    seconds = parser.parse_args().seconds
    table = Table(
        "message", "bytes", "decode µs", "encode µs", title="Generated codecs, CPU time of one call"
    )
    for name, message in messages().items():
        payload = memoryview(b"".join(message.encode()))
        decode = best_seconds(partial(type(message).decode, payload), seconds)
        encode_ = best_seconds(message.encode, seconds)
        table.add_row(name, f"{len(payload):,}", f"{decode * 1e6:.2f}", f"{encode_ * 1e6:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
