"""`tank-protos decode` on Kafka's frames: headers, versions, tags, and answers that need their requests."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tank_compiler.schema.loading import load_message
from tank_compiler.schema.schema import Message
from tank_compiler.tools.cli import main
from tank_compiler.tools.interpreter import Value, lay_out

VERSIONS: dict[str, Any] = {"validVersions": "0-2", "flexibleVersions": "2+"}


def field(name: str, kind: str, versions: str = "0+", **keys: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, "versions": versions, "about": "A field."} | keys


DEFINITIONS: dict[str, dict[str, Any]] = {
    "RequestHeader": {
        "type": "header",
        "validVersions": "1-2",
        "flexibleVersions": "2+",
        "fields": [
            field("RequestApiKey", "int16"),
            field("RequestApiVersion", "int16"),
            field("CorrelationId", "int32"),
            field("ClientId", "string", nullableVersions="0+", flexibleVersions="none"),
        ],
    },
    "ResponseHeader": {
        "type": "header",
        "validVersions": "0-1",
        "flexibleVersions": "1+",
        "fields": [field("CorrelationId", "int32")],
    },
    "LookUpRequest": VERSIONS
    | {
        "apiKey": 9,
        "type": "request",
        "fields": [
            field("Names", "[]string"),
            field("Limit", "int32", "1+", default="-1"),
            field("Hint", "string", "2+", taggedVersions="2+", tag=0, nullableVersions="2+", default="null"),
        ],
    },
    "LookUpResponse": VERSIONS
    | {
        "apiKey": 9,
        "type": "response",
        "fields": [
            field("Found", "[]Thing", fields=[field("Id", "uuid"), field("Data", "bytes")]),
        ],
    },
    "ApiVersionsRequest": VERSIONS | {"apiKey": 18, "type": "request", "fields": []},
    "ApiVersionsResponse": VERSIONS
    | {
        "apiKey": 18,
        "type": "response",
        "fields": [field("ErrorCode", "int16"), field("ThrottleTimeMs", "int32", "1+")],
    },
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of definitions as Kafka's are."""
    found = tmp_path_factory.mktemp("kafka")
    for name, definition in DEFINITIONS.items():
        (found / f"{name}.json").write_text(json.dumps({"name": name} | definition))
    return found


def message(name: str) -> Message:
    loaded = load_message(json.dumps({"name": name} | DEFINITIONS[name]), name)
    assert isinstance(loaded, Message)
    return loaded


def laid_out(name: str, version: int, **values: Value) -> bytes:
    empty: dict[str, Value] = {"unknown_tags": []}
    everything: dict[str, Value] = {**empty, **values}
    return lay_out(message(name), everything, version)


def framed(*parts: bytes) -> bytes:
    payload = b"".join(parts)
    return len(payload).to_bytes(4, "big") + payload


def request(key: int, version: int, correlation: int, body: bytes, header: int = 1) -> bytes:
    values: dict[str, Value] = {
        "RequestApiKey": key,
        "RequestApiVersion": version,
        "CorrelationId": correlation,
    }
    return framed(laid_out("RequestHeader", header, ClientId="me", **values), body)


def look_up(version: int, correlation: int) -> bytes:
    body = laid_out("LookUpRequest", version, Names=["a", "b"], Limit=7, Hint="near")
    return request(9, version, correlation, body, header=2 if version == 2 else 1)


def answer(version: int, correlation: int) -> bytes:
    things: list[Value] = [{"Id": bytes(range(16)), "Data": b"\xff", "unknown_tags": []}]
    header = laid_out("ResponseHeader", 1 if version == 2 else 0, CorrelationId=correlation)
    return framed(header, laid_out("LookUpResponse", version, Found=things))


def run(folder: Path, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
    command = ["decode", "--protocol", "kafka", "--definitions", str(folder), *arguments]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == code, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(main, ["decode", "--protocol", "kafka", *arguments])
    assert result.exit_code == 1
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_request_is_read_in_the_version_that_its_header_states(folder: Path, version: int) -> None:
    [told] = run(folder, look_up(version, 5).hex())
    assert (told["offset"], told["from"], told["message"], told["version"]) == (
        0,
        "client",
        "LookUpRequest",
        version,
    )
    assert told["header"] == {
        "RequestApiKey": 9,
        "RequestApiVersion": version,
        "CorrelationId": 5,
        "ClientId": "me",
    }
    expected: list[dict[str, Any]] = [{"Names": ["a", "b"]}, {"Names": ["a", "b"], "Limit": 7}]
    assert told["fields"] == [*expected, expected[1] | {"Hint": "near"}][version]


def test_two_requests_of_one_number_are_answered_in_their_order(folder: Path) -> None:
    asked = [look_up(1, 5), look_up(2, 5)]
    text = "\n".join(
        ["> " + one.hex() for one in asked] + ["< " + answer(version, 5).hex() for version in (1, 2)]
    )
    (_, _, *answers) = run(folder, text)
    offsets = [0, len(asked[0])]
    assert [told["answers"]["offset"] for told in answers] == offsets
    assert [told["version"] for told in answers] == [1, 2]


@pytest.mark.parametrize("version", [0, 2])
def test_an_answer_is_read_in_the_version_of_its_request(folder: Path, version: int, tmp_path: Path) -> None:
    (tmp_path / "client").write_bytes(look_up(1, 4) + look_up(version, 5))
    (tmp_path / "broker").write_bytes(answer(version, 5))
    told = run(folder, "--client", str(tmp_path / "client"), "--broker", str(tmp_path / "broker"))
    assert told[2] == {
        "offset": 0,
        "bytes": len(answer(version, 5)),
        "from": "broker",
        "correlation_id": 5,
        "answers": {"message": "LookUpRequest", "offset": len(look_up(1, 4))},
        "message": "LookUpResponse",
        "version": version,
        "header": {"CorrelationId": 5},
        "fields": {"Found": [{"Id": "00010203-0405-0607-0809-0a0b0c0d0e0f", "Data": {"base64": "/w=="}}]},
    }


def test_both_sides_in_one_stream_are_told_apart(folder: Path) -> None:
    stream = look_up(1, 4) + look_up(2, 5) + answer(2, 5) + answer(1, 4)
    told = run(folder, stream.hex())
    assert [(one["from"], one["version"]) for one in told] == [
        ("client", 1),
        ("client", 2),
        ("broker", 2),
        ("broker", 1),
    ]


def test_an_answer_alone_needs_to_be_told_what_it_answers(folder: Path) -> None:
    [told] = run(folder, "--from", "broker", answer(2, 5).hex(), code=1)
    assert told["error"]["reason"] == "unknown_message"
    assert "--api-key" in told["error"]["what"]
    options = ["--from", "broker", "--api-key", "9", "--api-version", "2"]
    [told] = run(folder, *options, answer(2, 5).hex())
    assert told["fields"]["Found"][0]["Data"] == {"base64": "/w=="}


def test_an_answer_of_api_versions_has_the_oldest_header_always(folder: Path) -> None:
    asked = request(18, 2, 1, laid_out("ApiVersionsRequest", 2), header=2)
    header = laid_out("ResponseHeader", 0, CorrelationId=1)
    known = framed(header, laid_out("ApiVersionsResponse", 2, ErrorCode=0, ThrottleTimeMs=3))
    assert run(folder, (asked + known).hex())[1]["fields"] == {"ErrorCode": 0, "ThrottleTimeMs": 3}
    # A broker that does not know the version says so in version 0.
    unknown = framed(header, laid_out("ApiVersionsResponse", 0, ErrorCode=35, ThrottleTimeMs=0))
    told = run(folder, (asked + unknown).hex())[1]
    assert (told["version"], told["fields"]) == (0, {"ErrorCode": 35})


def test_unknown_tags_are_shown(folder: Path) -> None:
    values: dict[str, Value] = {"Names": [], "Limit": 1, "Hint": None, "unknown_tags": [[7, b"new"]]}
    body = lay_out(message("LookUpRequest"), values, 2)
    [told] = run(folder, request(9, 2, 1, body, header=2).hex())
    assert told["fields"] == {"Names": [], "Limit": 1, "unknown_tags": {"7": "new"}}


def test_a_message_without_header(folder: Path) -> None:
    body = laid_out("LookUpRequest", 1, Names=["a"], Limit=7, Hint=None)
    [told] = run(folder, "--message", "LookUpRequest", "--version", "1", body.hex())
    assert told["fields"] == {"Names": ["a"], "Limit": 7}
    [told] = run(folder, "--message", "LookUpRequest", "--version", "2", body.hex(), code=1)
    assert told["error"]["reason"] in ("truncated", "trailing_bytes", "out_of_range")


def test_a_version_that_does_not_exist_is_an_unknown_message(folder: Path) -> None:
    [told] = run(folder, request(9, 3, 1, b"").hex(), code=1)
    assert "LookUpRequest has no version 3; known: 0-2" in told["error"]["what"]


def test_a_truncated_request_says_the_field_and_the_byte(folder: Path) -> None:
    whole = look_up(1, 5)
    cut = framed(whole[4:-6])
    [told] = run(folder, cut.hex(), code=1)
    assert told["fields"] == {"Names": ["a"]}
    assert told["error"]["field"] == "LookUpRequest.Names"
    assert told["error"]["offset"] == len(cut) - 1


def test_our_own_definitions_are_known_without_being_named() -> None:
    header = bytes.fromhex("0003 000c 00000007 0002 6d65 00")
    wire = framed(header, bytes.fromhex("02" + "00" * 16 + "05 676f6c64 00 01 00 00"))
    command = ["decode", "--protocol", "kafka", "--from", "client", wire.hex()]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["message"], told["version"]) == ("MetadataRequest", 12)
    assert told["fields"]["Topics"][0]["Name"] == "gold"
    assert told["fields"]["AllowAutoTopicCreation"] is True


def test_what_a_person_forgot_is_asked_for(folder: Path, tmp_path: Path) -> None:
    where = ("--definitions", str(folder))
    assert "--version N" in refused(*where, "--message", "LookUpRequest", "00")
    assert "did you mean LookUpRequest" in refused(*where, "--message", "LookupRequest", "00")
    assert "say both" in refused(*where, "--api-key", "1", "00")
    (tmp_path / "LookUpRequest.json").write_text((folder / "LookUpRequest.json").read_text())
    assert "put RequestHeader.json there" in refused("--definitions", str(tmp_path), "00")
