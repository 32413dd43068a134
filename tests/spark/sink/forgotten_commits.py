"""A commit of a stream that Spark forgets."""

from __future__ import annotations

from pathlib import Path


def forget_commit(checkpoint: str, batch: int) -> None:
    """As if Spark had died after writing the batch and before noting that it did."""
    for name in (str(batch), f".{batch}.crc"):
        (Path(checkpoint) / "commits" / name).unlink(missing_ok=True)
