"""Frames that somebody spoiled: refused or answered, never a crash, and the broker goes on."""

import json
import random
from pathlib import Path

import pytest

from tank_protos.wire.errors import WireError
from tests.support.clients.produce import batch_of, produce
from tests.support.nodes.bench_node import BenchNode

GOLDEN = Path(__file__).parents[2] / "golden" / "tank"


def corpus() -> list[bytes]:
    """Captured requests, and one of each of ours."""
    captured = [
        bytes.fromhex(frame["hex"])
        for path in sorted(GOLDEN.glob("*.json"))
        for frame in json.loads(path.read_text())["frames"]
        if frame["name"].endswith(".req")
    ]
    ours = [bytes((0x40 + n, 40, 0, 0, 0)) + bytes(5) + bytes(range(35)) for n in range(12)]
    return [frame for frame in captured if len(frame) < 4000] + ours


def spoil(frame: bytes, chance: random.Random) -> bytes:
    changed = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 12))):
        at = chance.randrange(len(changed))
        match chance.randrange(4):
            case 0:
                changed[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
            case 1:
                changed[at] ^= 1 << chance.randrange(8)
            case 2:
                del changed[at : at + chance.randrange(1, 5)]
            case 3:
                changed[at:at] = chance.randbytes(chance.randrange(1, 5))
        changed = changed or bytearray(b"\0")
    if len(changed) >= 5 and chance.random() < 0.8:
        changed[1:5] = (len(changed) - 5).to_bytes(4, "little")
    return bytes(changed)


@pytest.mark.parametrize("seed", range(3))
def test_spoiled_frames_never_get_past_a_typed_error(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    frames = corpus()
    with BenchNode(tmp_path / "data") as node:
        for topic in ("gold", "multi", "tail", "sparse", "a"):
            node.controller.add(topic, 4, flush="replicated")
        client = node.client()
        answered = refused = 0
        for n in range(600):
            try:
                client.feed(spoil(chance.choice(frames), chance))
            except WireError:
                refused += 1
                client.session.close()
                client = node.client()
            answered += len(client.answers())
            if client.pending_bytes:
                client = node.client()  # what follows would only fill the frame that was announced
            if n % 200 == 0:
                node.pass_ms(4_000_000)
        assert min(answered, refused) > 10
        assert node.metrics.refused
        assert produce(node.client(), batch_of(b"still here"), topic="a") == b"\0"


def test_the_refusal_of_a_kafka_client_names_the_port_that_it_looks_for(tmp_path: Path) -> None:
    """Its first byte is the 0 of a size: both protocols' ports are easily mistaken for one another."""
    with BenchNode(tmp_path / "data") as node:
        api_versions = bytes.fromhex("00000017 0012 0003 00000001 0004 74657374 00 05 74657374 02 31 00")
        with pytest.raises(WireError, match="--kafka"):
            node.client().feed(api_versions)
