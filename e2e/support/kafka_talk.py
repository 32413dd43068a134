"""What a Kafka client hears, asked from within a pod: `python -c SOURCE HOST:PORT`.

Asks the broker for all brokers, as clients of 0.10 do first, and each of those brokers what it serves. Prints
the brokers as JSON, by id: the address, and whether it answers as a broker of Kafka's protocol. The pod's
Python has the product's packages, and nothing of the tests.
"""

import json
import socket
import struct
import sys

from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
)
from tank_protos.generated.kafka.headers import request_header_version, response_header_version
from tank_protos.generated.kafka.request_header import RequestHeader
from tank_protos.generated.kafka.response_header import ResponseHeader

ANSWER_S = 10.0
CORRELATION_ID = 7


def asked(
    address: str, request: ApiVersionsRequest | MetadataRequest, version: int
) -> tuple[int, memoryview]:
    """The correlation id of the answer, and its body."""
    host, _, port = address.rpartition(":")
    header = RequestHeader(request.ID, version, CORRELATION_ID, "e2e")
    pieces = header.encode(request_header_version(request.ID, version)) + request.encode(version)
    frame = b"".join(pieces)
    with socket.create_connection((host, int(port)), ANSWER_S) as line:
        line.sendall(struct.pack(">i", len(frame)) + frame)
        with line.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            answer = memoryview(answers.read(size))
    found, at = ResponseHeader.read(answer, 0, response_header_version(request.ID, version))
    return found.correlation_id, answer[at:]


def brokers_at(address: str) -> dict[int, str]:
    """All brokers' addresses, by the word of the broker at this one."""
    correlation_id, body = asked(address, MetadataRequest([]), 1)
    assert correlation_id == CORRELATION_ID
    answer = MetadataResponse.decode(body, 1)
    return {each.node_id: f"{each.host}:{each.port}" for each in answer.brokers}


def serves(address: str) -> bool:
    """Whether a broker there says what it serves, Metadata included."""
    correlation_id, body = asked(address, ApiVersionsRequest(), 0)
    answer = ApiVersionsResponse.decode(body, 0)
    keys = {each.api_key for each in answer.api_keys}
    return correlation_id == CORRELATION_ID and answer.error_code == 0 and MetadataRequest.ID in keys


def main(address: str) -> None:
    """Prints the brokers."""
    found = brokers_at(address)
    print(json.dumps({str(number): [at, serves(at)] for number, at in found.items()}))


if __name__ == "__main__":
    main(sys.argv[1])
