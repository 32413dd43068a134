"""`tank-protos decode` tells what captured bytes say, and where they stop to make sense."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tank_compiler.tools.cli import main
from tank_protos import bundle
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceResponse,
    ProduceResult,
    ProduceTopic,
    StatusRequest,
)
from tank_protos.wire.framing import frame
from tank_protos.wire.message import Message

GOLDEN = Path(__file__).parents[2] / "golden" / "tank"
DOCUMENT = (Path(__file__).parents[3] / "docs" / "protocol" / "README.md").read_text()
WRONG_BY_INTENT = {"unknown_msg.req", "oversize.req", "truncated_consume.req"}
OLD_PEERS = {"regreplica.req"}
NOT_ANSWERED = {"unknown_msg.resp", "oversize.resp", "truncated_consume.resp", "regreplica.resp"}
PING = "0300000000"


def decoded(*arguments: str, stdin: str | bytes = "", code: int = 0) -> list[dict[str, Any]]:
    """The documents that the command prints."""
    result = CliRunner().invoke(main, ["decode", *arguments], input=stdin)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(*arguments: str, stdin: str = "") -> str:
    """What the command says to a person who gave it something wrong."""
    result = CliRunner().invoke(main, ["decode", *arguments], input=stdin)
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.output


def framed(message: Message) -> bytes:
    return b"".join(frame(message.ID, message.encode()))


def captured(path: Path) -> list[tuple[str, str, bytes]]:
    """The (name, direction, bytes) of a golden capture's frames, but for those that are no frames."""
    return [
        (one["name"], one["direction"].split("-")[0], bytes.fromhex(one["hex"]))
        for one in json.loads(path.read_text())["frames"]
        if one["name"] not in WRONG_BY_INTENT | OLD_PEERS | NOT_ANSWERED
    ]


# Captures


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_a_captured_connection_is_told_frame_by_frame(path: Path, tmp_path: Path) -> None:
    frames = captured(path)
    for side in ("client", "broker"):
        (tmp_path / side).write_bytes(b"".join(raw for _, sender, raw in frames if sender == side))
    told = decoded("--client", str(tmp_path / "client"), "--broker", str(tmp_path / "broker"))
    for side in ("client", "broker"):
        mine = [one for one in told if one["from"] == side]
        assert [one["bytes"] for one in mine] == [len(raw) for _, sender, raw in frames if sender == side]
        assert [one["offset"] for one in mine] == [
            sum(one["bytes"] for one in mine[:index]) for index in range(len(mine))
        ]
    answers = [one for one in told if one["from"] == "broker" and one["message"].endswith("Response")]
    # Who follows a broker has one request under way at a time, without an id; Ping answers nobody.
    assert all("answers" in one for one in answers if one["id"] != 9)


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_both_sides_in_one_stream_are_told_apart(path: Path, tmp_path: Path) -> None:
    frames = captured(path)
    (tmp_path / "both").write_bytes(b"".join(raw for _, _, raw in frames))
    told = decoded(str(tmp_path / "both"))
    assert len(told) == len(frames)
    for one, (name, sender, _) in zip(told, frames, strict=True):
        assert one["from"] == sender or one["message"] == "Ping", name


def test_what_is_no_frame_by_intent_is_explained() -> None:
    [first] = [
        one
        for one in json.loads((GOLDEN / "04_errors.json").read_text())["frames"]
        if one["name"] == "unknown_msg.req"
    ]
    [told] = decoded(first["hex"], "--from", "client", code=1)
    assert told["error"]["reason"] == "unknown_message"
    assert told["error"]["what"] == f"no message of the client has the id {told['id']}"


# What a document says


def test_the_sessions_in_the_document_are_what_happens() -> None:
    sessions = re.findall(r"^```console\n\$ tank-protos (.*)\n((?:.*\n)+?)```$", DOCUMENT, re.M)
    assert len(sessions) == 2
    for command, output in sessions:
        assert CliRunner().invoke(main, shlex.split(command)).output == output


def example(name: str) -> str:
    """A fenced block of the document: bytes, and behind two spaces what they mean."""
    return DOCUMENT.split(f"```{name}\n")[1].split("```")[0]


def test_the_examples_of_the_document_can_be_pasted() -> None:
    text = "".join(
        sign + "\n" + example(name)
        for sign, name in [
            (">", "produce-request"),
            ("<", "produce-response"),
            (">", "consume-request"),
            ("<", "consume-response"),
        ]
    )
    produce, consume, stored, fetched = decoded(stdin=text)
    assert (produce["id"], produce["message"], produce["bytes"]) == (1, "ProduceRequest", 52)
    [bundle_told] = produce["fields"]["Topics"][0]["Partitions"][0]["Bundle"]
    assert [one["value"] for one in bundle_told["messages"]] == ["alpha", "beta"]
    assert stored["answers"] == {"message": "ProduceRequest", "offset": 0}
    assert stored["fields"]["Results"] == [{"Error": 0, "meaning": "NONE", "topic": "gold", "partition": 0}]
    assert consume["fields"]["Topics"][0]["Partitions"] == [
        {"Partition": 0, "SequenceNumber": 1, "FetchSize": 65536}
    ]
    assert fetched["answers"] == {"message": "ConsumeRequest", "offset": 52}
    [chunk] = fetched["fields"]["Chunks"]
    assert (chunk["topic"], chunk["partition"]) == ("gold", 0)
    assert chunk["bundles"] == [
        {
            "bytes": 22,
            "codec": "none",
            "sparse": False,
            "messages": [
                {"number": 1, "timestamp_ms": 1795212193980, "value": "alpha"},
                {"number": 2, "timestamp_ms": 1795212193980, "value": "beta"},
            ],
        }
    ]


def test_only_fields_on_the_wire_are_shown() -> None:
    asked = ConsumeRequest(client_version=2, topics=[ConsumeTopic("t", [ConsumePartition(1, 2, 3)])])
    [told] = decoded(framed(asked).hex())
    assert "Flags" not in told["fields"]
    asked.client_version = 3
    [told] = decoded(framed(asked).hex())
    assert told["fields"]["Flags"] == 0


def test_results_of_a_produce_are_named_by_its_request() -> None:
    batch = bundle.as_batch(bundle.encode([b"x"], timestamps=1))
    topics = [
        ProduceTopic("gone", [ProducePartition(0, batch), ProducePartition(1, batch)]),
        ProduceTopic("moved", [ProducePartition(7, batch)]),
    ]
    request = ProduceRequest(request_id=5, topics=topics)
    results = [ProduceResult(0xFF), ProduceResult(0xFC, bytes([10, 0, 0, 2]), 11011)]
    told = decoded((framed(request) + framed(ProduceResponse(5, results))).hex())
    assert told[1]["fields"]["Results"] == [
        {"Error": 255, "meaning": "UNKNOWN_TOPIC", "topic": "gone"},
        {
            "Error": 252,
            "meaning": "OTHER_LEADER",
            "LeaderIpv4": "10.0.0.2",
            "LeaderPort": 11011,
            "topic": "moved",
            "partition": 7,
        },
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"hello\n", "hello\n"),
        ("größer".encode(), "größer"),
        (b"\xff\x00", {"base64": "/wA="}),
        (b"a" * 121, {"text": "a" * 120, "bytes": 121}),
        (b"\xff" * 121, {"base64": "/" * 160, "bytes": 121}),
    ],
)
def test_bytes_are_text_where_they_are_text(value: bytes, shown: object) -> None:
    batch = bundle.as_batch(bundle.encode([value], timestamps=1))
    request = framed(ProduceRequest(topics=[ProduceTopic("t", [ProducePartition(0, batch)])])).hex()

    def content(*options: str) -> object:
        [told] = decoded(request, *options)
        return told["fields"]["Topics"][0]["Partitions"][0]["Bundle"][0]["messages"][0]["value"]

    assert content() == shown
    if isinstance(shown, dict) and "text" in shown:
        assert content("--full") == value.decode()


def test_long_lists_are_cut_unless_all_is_wanted() -> None:
    batch = bundle.as_batch(bundle.encode([b"x"] * 100, timestamps=1))
    request = framed(ProduceRequest(topics=[ProduceTopic("t", [ProducePartition(0, batch)])])).hex()
    for options, count, last in (
        ((), 21, {"more": 80}),
        (("--full",), 100, {"timestamp_ms": 1, "value": "x"}),
    ):
        [told] = decoded(request, *options)
        messages = told["fields"]["Topics"][0]["Partitions"][0]["Bundle"][0]["messages"]
        assert (len(messages), messages[-1]) == (count, last)


def test_pretty_indents() -> None:
    result = CliRunner().invoke(main, ["decode", PING, "--pretty"])
    assert result.output.startswith('{\n  "offset": 0,\n  "bytes": 5,\n')
    assert json.loads(result.output)["message"] == "Ping"


# Input


@pytest.mark.parametrize(
    "text",
    [
        "03 00 00 00 00",
        "0x0300000000",
        "0x03, 0x00, 0x00, 0x00, 0x00",
        "0300\n000000\n",
        "00000000: 0300 0000 00                             .....\n",
        "00000000: 0300 0000 00                             abcdefabcdefabcd\n",
        "00000000  03 00 00 00 00                                    |.....|\n00000005\n",
        "\t0x0000:  0300 0000 00                             .....\n",
        "> 2026/11/21 20:00:00.000001  length=5 from=0 to=4\n 03 00 00 00 00\n--\n".replace("--\n", ""),
        "> 0300000000",
        "03 00000000                  frame: id 3, no bytes",
    ],
)
def test_hexadecimal_text_of_many_kinds(text: str, tmp_path: Path) -> None:
    assert [one["message"] for one in decoded(stdin=text)] == ["Ping"]
    (tmp_path / "dump.txt").write_text(text)
    assert [one["message"] for one in decoded(str(tmp_path / "dump.txt"))] == ["Ping"]


def packet(source: int, target: int, payload: bytes, *, is_ipv6: bool = False) -> str:
    """A TCP packet as `tcpdump -nn -x` prints it, with options in its TCP header."""
    tcp = source.to_bytes(2, "big") + target.to_bytes(2, "big") + bytes(8) + b"\x80\x18" + bytes(18) + payload
    if is_ipv6:
        whole = b"\x60" + bytes(3) + len(tcp).to_bytes(2, "big") + bytes(34) + tcp
    else:
        whole = b"\x45\x00" + (20 + len(tcp)).to_bytes(2, "big") + bytes(16) + tcp
    host = "::1" if is_ipv6 else "127.0.0.1"
    family = "IP6" if is_ipv6 else "IP"
    lines = [f"20:00:00.000001 {family} {host}.{source} > {host}.{target}: Flags [P.], length {len(payload)}"]
    for at in range(0, len(whole), 16):
        groups = " ".join(whole[to : to + 2].hex() for to in range(at, min(at + 16, len(whole)), 2))
        lines.append(f"\t0x{at:04x}:  {groups}")
    return "\n".join([*lines, ""])


@pytest.mark.parametrize("is_ipv6", [False, True])
def test_packets_of_tcpdump_are_put_together(is_ipv6: bool) -> None:
    asked = framed(StatusRequest(7))
    packets = [(50000, 11011, asked[:4]), (11011, 50000, bytes.fromhex(PING)), (50000, 11011, asked[4:])]
    text = "".join(packet(*one, is_ipv6=is_ipv6) for one in [*packets, (11011, 50000, b"")])
    told = decoded(stdin=text)
    assert [(one["from"], one["message"]) for one in told] == [
        ("client", "StatusRequest"),
        ("broker", "Ping"),
    ]
    assert "-nn" in refused(stdin=text.replace(".50000", ".http"))
    assert "-s 0" in refused(stdin="\n".join(text.splitlines()[:3]))


def test_captured_bytes_come_through_a_pipe() -> None:
    assert [one["message"] for one in decoded(stdin=bytes.fromhex(PING * 2))] == ["Ping", "Ping"]


def test_words_are_joined() -> None:
    assert [one["message"] for one in decoded("03", "00000000")] == ["Ping"]


def test_a_long_dump_has_all_of_its_bytes() -> None:
    lines = [f"{at:08x}  {' '.join(['03 00 00 00 00 03 00 00', '00 00 03 00 00 00 00 03'])}" for at in (0,)]
    told = decoded(stdin="\n".join([*lines, "00000010  00 00 00 00  |....|", "00000014"]))
    assert [one["offset"] for one in told] == [0, 5, 10, 15]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("hello", "line 1 holds no hexadecimal digits and is no line of a dump: 'hello'"),
        ("030000000", "line 1 has 9 hexadecimal digits; two make a byte"),
        (
            "00000000  03 00 00 00 00 03 00 00  00 00 03 00 00 00 00 03\n*\n",
            "dump again with all of them (-v)",
        ),
    ],
)
def test_what_is_no_dump_is_refused_with_its_line(text: str, what: str) -> None:
    assert what in refused(stdin=text)


# Streams with something wrong


def test_a_stream_that_ends_inside_a_frame_says_where() -> None:
    whole = framed(StatusRequest(7))
    [first, cut] = decoded((whole + whole[:6]).hex(), "--from", "client", code=1)
    assert first["fields"] == {"RequestId": 7}
    assert (cut["offset"], cut["bytes"], cut["id"]) == (9, 6, 10)
    assert (cut["message"], cut["fields"]) == ("StatusRequest", {})
    assert cut["error"] == {
        "reason": "truncated",
        "offset": 15,
        "what": "the stream ends inside a frame; 3 of its payload's 4 bytes are missing",
    }
    [_, cut] = decoded((whole + whole[:3]).hex(), code=1)
    assert cut["error"]["what"] == "the stream ends 3 bytes into a frame's header"


def test_an_unknown_id_is_told_and_the_next_frame_is_read() -> None:
    unknown = bytes.fromhex("c803000000616263")
    told = decoded((unknown + framed(StatusRequest(7))).hex(), "--from", "client", code=1)
    assert told[0]["payload"] == "abc"
    assert told[0]["error"] == {
        "reason": "unknown_message",
        "offset": 0,
        "what": "no message of the client has the id 200",
    }
    assert (told[1]["offset"], told[1]["message"]) == (8, "StatusRequest")


def test_a_capture_that_begins_inside_a_frame_is_picked_up() -> None:
    request = framed(ProduceRequest(client_id="someone", topics=[ProduceTopic("t", [])]))
    stream = request[7:] + request + framed(StatusRequest(7))
    told = decoded(stream.hex(), "--from", "client", code=1)
    assert [one.get("message") for one in told] == [None, "ProduceRequest", "StatusRequest"]
    assert (told[0]["offset"], told[0]["bytes"]) == (0, len(request) - 7)
    assert f"the next frame is at byte {len(request) - 7}" in told[0]["error"]["what"]


def test_five_bytes_of_noise_that_look_like_a_ping_are_noise() -> None:
    noise = bytes.fromhex("ffffffffffff" + PING + "ffffff")
    told = decoded((noise + framed(StatusRequest(7)) * 2).hex(), "--from", "client", code=1)
    assert [one["bytes"] for one in told] == [len(noise), 9, 9]


def test_noise_is_skipped_to_the_end_in_one_word() -> None:
    [told] = decoded("ff" * 50, code=1)
    assert told["bytes"] == 50
    assert told["error"]["what"].endswith("skipped 50 bytes, no frame follows: stopped")


def test_a_bad_payload_says_the_field_and_the_byte_and_shows_what_came_before() -> None:
    good = framed(StatusRequest(7))
    bad = bytes.fromhex("02 10000000 0300 02000000 ff 646f63 e80300000000".replace(" ", ""))
    told = decoded((good + bad + good).hex(), "--from", "client", code=1)
    assert [one["message"] for one in told] == ["StatusRequest", "ConsumeRequest", "StatusRequest"]
    assert told[1]["fields"] == {"ClientVersion": 3, "RequestId": 2}
    assert told[1]["error"] == {
        "reason": "truncated",
        "offset": 9 + 5 + 7,
        "field": "ConsumeRequest.ClientId",
        "what": "255 bytes are needed, 9 are left",
    }


def test_a_bad_bundle_is_an_error_and_its_frame_is_shown() -> None:
    request = ProduceRequest(topics=[ProduceTopic("t", [ProducePartition(0, b"\x03\xff\xff\xff")])])
    [told] = decoded(framed(request).hex(), code=1)
    assert told["error"]["reason"] == "invalid_bundle"
    assert told["fields"]["Topics"][0]["Name"] == "t"


# One message


def test_a_message_without_its_frame() -> None:
    [told] = decoded("--message", "StatusRequest", "07000000")
    assert told == {"bytes": 4, "message": "StatusRequest", "fields": {"RequestId": 7}}


def test_a_message_that_does_not_exist_is_explained() -> None:
    assert "there is no message Nothing" in refused("--message", "Nothing", "00")


def test_help_has_examples_and_says_what_it_does_not_do() -> None:
    output = CliRunner().invoke(main, ["decode", "--help"]).output
    assert "tank-protos decode 0300000000" in output
    assert "pcap" in output
