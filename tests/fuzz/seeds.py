"""Where fuzzing begins: valid payloads from the corpus that the compiler wrote, and from the captures."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tank_protos.generated.tank import NOTICES, REQUESTS, RESPONSES, ProduceRequest
from tank_protos.wire import varint
from tank_protos.wire.framing import HEADER_BYTES
from tank_protos.wire.message import Message

TESTS = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Seed:
    """A valid payload and the message that it is."""

    codec: type[Message]
    payload: bytes


def codecs() -> dict[str, type[Message]]:
    """All messages, by the name of their module and their corpus file."""
    every = [*REQUESTS.values(), *RESPONSES.values(), *NOTICES.values()]
    return {codec.__module__.rsplit(".", 1)[1]: codec for codec in every}


@cache
def messages() -> list[Seed]:
    """Payloads of every message, requests and answers."""
    found = []
    for module, codec in sorted(codecs().items()):
        for line in (TESTS / "corpus" / "tank" / f"{module}.txt").read_text().splitlines():
            digits = line.split()[1]
            found.append(Seed(codec, b"" if digits == "-" else bytes.fromhex(digits)))
    return found + _captured()


def _captured() -> list[Seed]:
    found = []
    for path in sorted((TESTS / "golden" / "tank").glob("*.json")):
        for frame in json.loads(path.read_text())["frames"]:
            raw = bytes.fromhex(frame["hex"])
            table = REQUESTS if frame["direction"].startswith("client") else RESPONSES
            if len(raw) >= HEADER_BYTES and raw[0] in table:
                found.append(Seed(table[raw[0]], raw[HEADER_BYTES:]))
    return found


@cache
def requests() -> list[Seed]:
    """What a client sends, produce and consume more often than the rest, as in life."""
    asked = set(REQUESTS.values()) | set(NOTICES.values())
    found = [seed for seed in messages() if seed.codec in asked]
    return found + 3 * [seed for seed in found if seed.codec.ID in (1, 2, 5, 66, 79)]


@cache
def batches() -> list[bytes]:
    """Bundles with their length before them: from the captures, and one of each odd shape."""
    found = []
    for seed in _captured():
        if seed.codec is ProduceRequest:
            try:
                request = ProduceRequest.decode(seed.payload)
            except ValueError:
                continue  # a capture that is wrong by intent
            found += [bytes(entry.bundle) for topic in request.topics for entry in topic.partitions]
    sparse = bytes.fromhex(
        "50d0070000000000000e00bc30fcfaa1010000027931020402793202040279330202 7934".replace(" ", "")
    )
    found.append(varint.encode(len(sparse)) + sparse)
    return found
