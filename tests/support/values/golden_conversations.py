"""Golden conversations: frames that TANK's own programs exchanged."""

import json
from collections.abc import Iterator
from pathlib import Path

GOLDEN = Path(__file__).parents[2] / "golden" / "tank"


CLOSED = {
    "regreplica",
    "unknown_msg",
    "oversize",
    "truncated_consume",
    "consume_peer",
    "consume_peer_timeout",
}
"""Answered by closing the connection. The last two: only our own brokers replicate from us, by another
message."""


LARGER_CHUNK_THERE = {"consume_fetch1", "consume_fetch20"}
"""Asked for less than one bundle: the original adds whole bundles until the size is passed, we give one
bundle."""


def frames(name: str) -> list[dict[str, str]]:
    loaded: list[dict[str, str]] = json.loads((GOLDEN / f"{name}.json").read_text())["frames"]
    return loaded


def pairs(name: str) -> Iterator[tuple[str, bytes, bytes]]:
    """(name, request, answer) of a set of captures."""
    captured = {frame["name"]: bytes.fromhex(frame["hex"]) for frame in frames(name)}
    for key, request in captured.items():
        if key.endswith(".req"):
            yield key[:-4], request, captured[key[:-4] + ".resp"]
