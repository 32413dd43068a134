"""How much the memory of a task of Spark's source grows while it reads a partition to its end.

python -m benchmarks.reader_memory HOST:PORT TOPIC

The reader runs in this process, without Spark's JVM. Prints the number of rows, the size of the largest
batch, and the growth of the process's peak memory after the first batches, in KiB.
"""

import sys

from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from pyspark_tank.source import TankSource

WARM_UP_BATCHES = 5
SCHEMA = StructType(
    [
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("offset", LongType()),
    ]
)


def peak_kib() -> int:
    """The most memory that this process had at any time."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))


def main() -> None:
    """The command line."""
    servers, topic = sys.argv[1:]
    reader = TankSource({"servers": servers, "subscribe": topic}).reader(SCHEMA)
    [partition] = reader.partitions()
    rows = largest = before = 0
    for number, batch in enumerate(reader.read(partition), 1):
        rows += batch.num_rows
        largest = max(largest, batch.nbytes)
        if number == WARM_UP_BATCHES:
            before = peak_kib()
    print(rows, largest >> 10, peak_kib() - before)


if __name__ == "__main__":
    main()
