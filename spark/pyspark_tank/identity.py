"""The identity of a writer, and a task's report of its write: between Spark's driver and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

EPOCHS = 65_536  # a producer's epoch has 16 bits; after so many batches the writer gets a new producer id


class WriteIdentity(NamedTuple):
    """The identity of a write, by which the broker recognizes a repeat."""

    query: str
    batch: int
    task: int
    # The id that the driver reserved; 0: the named producer has an id of its own.
    producer_id: int = 0

    @classmethod
    def of_write(cls, name: str, write_id: int, task: int) -> WriteIdentity:
        """The identity of a batch write that the user named. The name gets a slash, which no streaming
        query's id has.
        """
        return cls(f"write/{name}", write_id, task)

    @property
    def producer(self) -> str:
        return f"spark/{self.query}/{self.task}"

    @property
    def generation(self) -> int:
        """How often the producer's epochs have begun again."""
        return self.batch // EPOCHS

    @property
    def epoch(self) -> int:
        return self.batch % EPOCHS


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """The messages of a task that the broker has acknowledged."""

    rows: int
    bundles: int
