"""Vectors that Kafka 4.1 made: bytes and their JSON, each way through the generated code.

They lie beside the repository. Without them this suite is skipped, and the summary says so.
"""

import json
from pathlib import Path

from click.testing import CliRunner

from tank_compiler.tools.cli import main
from tests.support.shared_folder import DEFINITIONS, VECTORS, needs

pytestmark = needs(VECTORS)


def test_every_vector_passes_both_ways() -> None:
    count = sum(1 for line in VECTORS.read_text().split("\n") if line.strip())
    assert count > 1600
    done = CliRunner().invoke(main, ["verify", str(DEFINITIONS / "4.1"), str(VECTORS)])
    assert done.output.split("\n")[-2] == f"{count} passed, 0 failed", done.output
    assert done.exit_code == 0


def test_a_vector_that_was_changed_fails(tmp_path: Path) -> None:
    """One bit of the bytes, one number of the JSON: so that passing means something."""
    found = [json.loads(line) for line in VECTORS.read_text().split("\n") if "HeartbeatRequest" in line]
    vector = next(one for one in found if one["name"] == "HeartbeatRequest")
    changed = tmp_path / "changed.jsonl"
    raw = bytearray.fromhex(vector["hex"])
    raw[-1] ^= 1
    other = vector | {"json": vector["json"] | {"generationId": vector["json"]["generationId"] ^ 1}}
    changed.write_text("\n".join(json.dumps(one) for one in (vector | {"hex": raw.hex()}, other, vector)))
    done = CliRunner().invoke(main, ["verify", str(DEFINITIONS / "4.1"), str(changed)])
    assert done.exit_code == 1
    assert done.output.endswith("1 passed, 2 failed\n")
    assert "changed.jsonl:2: HeartbeatRequest version 0: decoding: generationId is" in done.output
