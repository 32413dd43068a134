"""Who writes a batch, and what a task says when it has written: between Spark's driver and its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import WriterCommitMessage

EPOCHS = 65_536  # a producer's epoch has 16 bits; after that many batches the producer's id is renewed


class WriteIdentity(NamedTuple):
    """Who writes, so that the broker recognizes a repeat."""

    query: str
    batch: int
    task: int
    # Reserved by the driver; 0: the producer of that name has one.
    producer_id: int = 0

    @classmethod
    def of_write(cls, name: str, write_id: int, task: int) -> WriteIdentity:
        """Of a batch write that the user named. No streaming query has an id with a slash."""
        return cls(f"write/{name}", write_id, task)

    @property
    def producer(self) -> str:
        return f"spark/{self.query}/{self.task}"

    @property
    def generation(self) -> int:
        """How often the producer's epochs have gone round."""
        return self.batch // EPOCHS

    @property
    def epoch(self) -> int:
        return self.batch % EPOCHS


@dataclass(frozen=True)
class Written(WriterCommitMessage):  # type: ignore[misc]
    """What a task has written and the broker acknowledged."""

    rows: int
    bundles: int
