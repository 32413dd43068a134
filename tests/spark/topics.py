"""A topic as the Spark tests see it: filled and read back without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tank_protos.bundle import Message, bundles, decode, encode, read_header

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from tank_client.sync import Client


class Topic:
    """One topic of the tests' broker."""

    def __init__(self, client: Client, servers: str, name: str) -> None:
        self._client = client
        self.servers = servers
        self.name = name

    def add(
        self, values: Sequence[bytes], *, keys: Sequence[bytes | None] | None = None, partition: int = 0,
        timestamps: Sequence[int] | int = 1_700_000_000_000,
    ) -> None:  # fmt: skip
        """One bundle, acknowledged."""
        bundle = encode(values, timestamps=timestamps, keys=keys)
        latest = timestamps if isinstance(timestamps, int) else max(timestamps)
        self._client.produce_bundle(self.name, partition, bundle, max_timestamp_ms=latest)

    def add_bundle(self, bundle: bytes, *, partition: int = 0) -> None:
        """A bundle that was made before, acknowledged."""
        self._client.produce_bundle(self.name, partition, bundle)

    def add_numbers(self, begin: int, end: int, *, partition: int = 0, digits: int = 1) -> None:
        """The numbers as text, ten a bundle, with zeros before them up to so many digits."""
        for at in range(begin, end, 10):
            values = [b"%0*d" % (digits, number) for number in range(at, min(at + 10, end))]
            self.add(values, partition=partition)

    def ends(self, partition: int = 0) -> tuple[int, int]:
        """The first number that can be read, and the last."""
        ends = self._client.admin.await_ends({(self.name, partition): None})[self.name, partition]
        return ends.first_available, ends.high_water_mark

    def messages(self, partition: int = 0) -> list[Message]:
        """Everything in a partition, by the client alone."""
        first, last = self.ends(partition)
        found: list[Message] = []
        number = max(first, 1)
        while number <= last:
            fetched = self._client.fetch(self.name, partition, number, 1 << 20, 1000)
            base = fetched.base
            for bundle in bundles(fetched.chunk):
                part = decode(bundle, base)
                found += [message for message in part if message.sequence_number >= number]
                header = read_header(bundle)
                base = header.last + 1 if header.sparse else base + header.messages
                number = part[-1].sequence_number + 1
        return found

    def numbers(self, partitions: int = 1) -> list[int]:
        """The contents as numbers, in order: a repeat shows."""
        return sorted(
            int(message.value) for partition in range(partitions) for message in self.messages(partition)
        )

    def read(self, spark: SparkSession, **options: Any) -> DataFrame:
        """`spark.read` of this topic."""
        return self._options(spark.read, options).load()

    def stream(self, spark: SparkSession, **options: Any) -> DataFrame:
        """`spark.readStream` of this topic from its beginning."""
        return self._options(spark.readStream, {"startingOffsets": "earliest", **options}).load()

    def _options(self, reader: Any, options: dict[str, Any]) -> Any:
        given = {"servers": self.servers, "subscribe": self.name, **options}
        return reader.format("tank").options(**given)


def write_stream(rows: DataFrame, topic: Topic, checkpoint: str, **options: Any) -> Any:
    """`rows.writeStream` of keys and values into a topic, not yet started."""
    return (
        rows.select("key", "value")
        .writeStream.format("tank")
        .options(servers=topic.servers, topic=topic.name, **options)
        .option("checkpointLocation", checkpoint)
    )


def run_to_end(writer: Any) -> StreamingQuery:
    """Runs a query over what is there now. Raises what ended it."""
    query: StreamingQuery = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query
