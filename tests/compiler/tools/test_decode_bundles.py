"""`tank-protos decode` on the bundles of an answer: which number each message has."""

import json

from click.testing import CliRunner

from tank_compiler.tools.cli import main
from tank_protos import bundle
from tank_protos.generated.tank import ConsumeResponse, FetchedPartition, FetchedTopic
from tank_protos.wire.framing import frame


def chunk(flag: int, base: int, bundles: list[bytes]) -> list[list[int]]:
    """The numbers of the messages in each bundle, as the command tells them."""
    data = b"".join(bundle.as_batch(one) for one in bundles)
    partition = FetchedPartition(0, flag, base, 1000, len(data))
    answer = ConsumeResponse(topics=[FetchedTopic("gold", 1, partitions=[partition])], chunks=data)
    wire = b"".join(frame(ConsumeResponse.ID, answer.encode()))
    result = CliRunner().invoke(main, ["decode", "--from", "broker", wire.hex()])
    assert result.exit_code == 0, result.output
    [told] = json.loads(result.stdout)["fields"]["Chunks"]
    return [[message.get("number") for message in one["messages"]] for one in told["bundles"]]


def test_numbers_run_on_from_bundle_to_bundle() -> None:
    dense = [bundle.encode([b"x"] * count, timestamps=1) for count in (2, 1, 3)]
    assert chunk(0, 40, dense) == [[40, 41], [42], [43, 44, 45]]


def test_a_sparse_bundle_says_its_numbers_and_those_of_what_follows() -> None:
    dense = bundle.encode([b"x"] * 2, timestamps=1)
    sparse = bundle.encode_sparse([50, 53, 54], [b"x"] * 3, timestamps=1)
    assert chunk(0, 48, [dense, sparse, dense]) == [[48, 49], [50, 53, 54], [55, 56]]
    assert chunk(0xFE, 0, [sparse, dense]) == [[50, 53, 54], [55, 56]]
