"""The headers of Kafka's requests and answers, as stated and byte by byte, and the page about them."""

import re
from pathlib import Path

import pytest

from tank_node.kafka.errors import KafkaError
from tank_protos.generated.kafka import ApiVersionsRequest, RequestHeader, ResponseHeader
from tank_protos.generated.kafka.by_id import REQUESTS, RESPONSES
from tank_protos.generated.kafka.headers import request_header_version, response_header_version
from tank_protos.wire.errors import UnsupportedVersion

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/protocol/kafka.md").read_text()


@pytest.mark.parametrize(
    ("key", "version", "request_header", "response_header"),
    [
        (0, 8, 1, 0),
        (0, 9, 2, 1),
        (1, 11, 1, 0),
        (1, 12, 2, 1),
        (17, 1, 1, 0),
        (18, 2, 1, 0),
        (18, 3, 2, 0),
        (18, 4, 2, 0),
        (75, 0, 2, 1),
    ],
)
def test_flexible_versions_have_headers_with_tags(
    key: int, version: int, request_header: int, response_header: int
) -> None:
    assert request_header_version(key, version) == request_header
    assert response_header_version(key, version) == response_header


def test_every_request_has_an_answer_in_the_same_versions_and_headers_for_each() -> None:
    assert set(REQUESTS) == set(RESPONSES)
    for key, request in REQUESTS.items():
        assert request.VERSIONS == RESPONSES[key].VERSIONS
        low, high = request.VERSIONS
        assert low == 0
        for version in range(high + 1):
            assert request_header_version(key, version) in (1, 2)
            assert response_header_version(key, version) in (0, 1)
        for version in (-1, high + 1):
            with pytest.raises(UnsupportedVersion, match=f"the api key {key} has no version {version}"):
                request_header_version(key, version)


def test_a_client_id_has_the_same_form_in_all_headers() -> None:
    plain = bytes.fromhex("0012 0002 00000007 0002 6d65")
    header = RequestHeader.decode(plain, 1)
    assert (header.request_api_key, header.request_api_version, header.correlation_id) == (18, 2, 7)
    assert header.client_id == "me"
    assert b"".join(header.encode(2)) == plain + b"\0"
    assert b"".join(RequestHeader(18, 3, 7, None).encode(2)).hex() == "0012000300000007ffff00"


def test_a_request_of_today_follows_its_header() -> None:
    wire = memoryview(bytes.fromhex("0012 0003 00000001 0001 61 00 0278 023100".replace(" ", "")))
    header, at = RequestHeader.read(wire, 0, request_header_version(18, 3))
    request = ApiVersionsRequest.decode(wire[at:], header.request_api_version)
    assert (request.client_software_name, request.client_software_version) == ("x", "1")


def test_an_answer_repeats_the_correlation_id() -> None:
    assert b"".join(ResponseHeader(7).encode(0)).hex() == "00000007"
    assert b"".join(ResponseHeader(7).encode(1)).hex() == "0000000700"


def test_every_error_that_a_definition_names_is_explained() -> None:
    rows = re.findall(r"^\| (\d+) \| [A-Z_]+ \| \S", PAGE, re.M)
    explained = [int(row) for row in rows]
    assert explained == sorted(set(explained))
    texts = "\n".join(path.read_text() for path in sorted((ROOT / "protos/kafka").glob("*.json")))
    one, more = r"\berrors? (\d+)(?: and (\d+))?", r"\((\d+)(?:, (\d+))?[:)]"
    named = {int(number) for found in re.findall(f"{one}|{more}", texts) for number in found if number}
    assert len(named) > 15
    assert named <= set(explained)
    answered = {int(error) for error in KafkaError}
    for code in explained:
        assert code in answered or re.search(rf"\b{code}\b", texts), code
