"""Vectors that Kafka 4.1 made: bytes and their JSON, each way through the generated code.

The compiler is tried on Kafka's definitions, and ours on those of the vectors that we have a message for.

They lie beside the repository. Without them this suite is skipped, and the summary says so.
"""

import json
from pathlib import Path

from click.testing import CliRunner

from tank_compiler.schema import definition_files
from tank_compiler.tools.cli import main
from tests.support.processes.shared_folder import DEFINITIONS, VECTORS, needs

pytestmark = needs(VECTORS)

OURS = Path(__file__).parents[2] / "protos/kafka"
UNSTABLE = {
    ("OffsetCommitRequest", 10),
    ("OffsetCommitResponse", 10),
    ("OffsetFetchRequest", 10),
    ("OffsetFetchResponse", 10),
    ("InitProducerIdRequest", 6),
    ("InitProducerIdResponse", 6),
}
"""Versions that Kafka 4.1 does not promise, and that we do not declare."""
WITHOUT_VECTORS = {
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "DescribeTopicPartitionsRequest",
    "EndTxnMarker",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "TransactionLogKey",
    "TransactionLogValue",
}


def test_every_vector_passes_both_ways() -> None:
    count = sum(1 for line in VECTORS.read_text().split("\n") if line.strip())
    assert count > 1600
    done = CliRunner().invoke(main, ["verify", str(DEFINITIONS / "4.1"), str(VECTORS)])
    assert done.output.split("\n")[-2] == f"{count} passed, 0 failed", done.output
    assert done.exit_code == 0


def test_our_definitions_pass_every_vector_of_their_messages(tmp_path: Path) -> None:
    messages = {message.root.name: message for message in definition_files.load(OURS).messages}
    vectors = [json.loads(line) for line in VECTORS.read_text().split("\n") if line.strip()]
    known = [vector for vector in vectors if vector["name"] in messages]
    stable = [vector for vector in known if (vector["name"], vector["version"]) not in UNSTABLE]
    assert {vector["name"] for vector in stable} == set(messages) - WITHOUT_VECTORS
    tried = tmp_path / "tried.jsonl"
    tried.write_text("\n".join(json.dumps(vector) for vector in stable))
    done = CliRunner().invoke(main, ["verify", str(OURS), str(tried)])
    assert done.output.split("\n")[-2] == f"{len(stable)} passed, 0 failed", done.output
    assert (done.exit_code, len(stable)) == (0, 1305)


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
