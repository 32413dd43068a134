"""A Kafka client's connection: frames, the order of the answers, and what closes it."""

from collections.abc import Iterator
from pathlib import Path
from struct import pack

import pytest

from tank_node.kafka.dispatch import APIS
from tank_node.kafka.frame_size import InvalidFrameSize
from tank_node.kafka.session import KafkaApi, KafkaCall, KafkaSession, UnknownRequest
from tank_node.kafka.settings import KafkaSettings
from tank_node.metrics import KAFKA_SOFTWARE
from tank_node.security.gate import Gate, NotAllowed, Operation, Principal, Resource
from tank_protos import feature_levels
from tank_protos.generated.kafka import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    MetadataRequest,
    MetadataResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tank_protos.wire.errors import WireError
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.kafka_line import KafkaLine

ALWAYS = ApiVersionsRequest("tests", "1.0")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        yield node


class Later:
    """A handler that keeps its calls, for the test to answer."""

    def __init__(self) -> None:
        self.calls: list[KafkaCall] = []

    def __call__(self, call: KafkaCall, body: memoryview) -> None:
        self.calls.append(call)

    def answer(self, at: int) -> None:
        self.calls[at].answer(ApiVersionsResponse())


class SlowLine(KafkaLine):
    """A line whose produce (0) and fetch (1) requests are answered when the test says so. Their bodies and
    answers are those of ApiVersions 0, which are short."""

    def __init__(self, node: BenchNode) -> None:
        super().__init__(node)
        self.produced, self.fetched = Later(), Later()
        apis = dict(APIS)
        for key, name, later in ((0, "Produce", self.produced), (1, "Fetch", self.fetched)):
            apis[key] = KafkaApi(
                key, name, 0, 2, later, Operation.WRITE, Resource.TOPIC, carries_records=key == 0
            )
        self.session = KafkaSession(node.broker, apis, Gate(), KafkaSettings())
        self.readies = 0
        self.session.ready = self._count

    def _count(self) -> None:
        self.readies += 1

    def request(self, key: int, correlation_id: int) -> None:
        self.feed(request(key, 0, correlation_id))


def broken(call: KafkaCall, body: memoryview) -> None:
    """A handler with a bug."""
    raise ZeroDivisionError


def request(key: int, version: int, correlation_id: int, body: bytes = b"") -> bytes:
    frame = pack(">hhih", key, version, correlation_id, -1) + body
    return pack(">i", len(frame)) + frame


def test_it_says_what_it_serves_in_every_version(node: BenchNode) -> None:
    for version in range(5):
        line = KafkaLine(node)
        said = ALWAYS if version >= 3 else ApiVersionsRequest()
        answer = line.ask(said, ApiVersionsResponse, version)
        assert answer.error_code == 0
        assert {each.api_key for each in answer.api_keys} == set(APIS)
        assert all(each.min_version == 0 for each in answer.api_keys if each.api_key == 18)


def test_an_answer_to_api_versions_has_a_header_without_tags_in_every_version(node: BenchNode) -> None:
    line = KafkaLine(node)
    line.send(ALWAYS, 4)
    (frame,) = line.frames()
    assert frame[:6] == pack(">ih", 1, 0)


@pytest.mark.parametrize("version", [5, 99, 0x7FFF, -1])
def test_a_version_of_the_future_is_answered_in_version_0_with_all_there_is(
    node: BenchNode, version: int
) -> None:
    line = KafkaLine(node)
    line.feed(request(18, version, 7, b"what nobody knows"))
    (frame,) = line.frames()
    correlation_id, answer = line.read(frame, ApiVersionsResponse, 0)
    assert (correlation_id, answer.error_code) == (7, 35)
    assert [(each.min_version, each.max_version) for each in answer.api_keys if each.api_key == 18] == [
        (0, 4)
    ]


def test_a_librarys_name_is_kept_and_a_wrong_one_refused(node: BenchNode) -> None:
    line = KafkaLine(node)
    assert line.ask(ApiVersionsRequest("a-lib.x", "2.16.0"), ApiVersionsResponse, 3).error_code == 0
    assert (line.session.software_name, line.session.software_version) == ("a-lib.x", "2.16.0")
    for name in ("", "-a", "a b", "a\n"):
        assert line.ask(ApiVersionsRequest(name, "1"), ApiVersionsResponse, 3).error_code == 42


def test_frames_may_arrive_byte_by_byte(node: BenchNode) -> None:
    line = KafkaLine(node)
    for byte in line.frame(ALWAYS, 3) + line.frame(ALWAYS, 3):
        line.feed(bytes([byte]))
    assert line.correlation_ids() == [1, 2]


def test_produce_requests_run_side_by_side_and_are_answered_in_their_order(node: BenchNode) -> None:
    line = SlowLine(node)
    for number in range(3):
        line.request(0, number)
    assert len(line.produced.calls) == 3
    line.produced.answer(1)
    line.produced.answer(2)
    assert line.correlation_ids() == []
    line.produced.answer(0)
    assert line.correlation_ids() == [0, 1, 2]


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 0), (1, 1)])
def test_another_request_begins_when_all_before_it_are_answered(
    node: BenchNode, first: int, second: int
) -> None:
    line = SlowLine(node)
    line.request(first, 1)
    line.request(second, 2)
    assert line.session.is_full
    begun = line.produced.calls + line.fetched.calls
    assert [call.correlation_id for call in begun] == [1]
    begun[0].answer(ApiVersionsResponse())
    assert line.readies
    line.feed(b"")
    assert [
        call.correlation_id for call in line.produced.calls + line.fetched.calls if call is not begun[0]
    ] == [2]


def test_a_request_without_an_answer_lets_those_behind_it_go_on(node: BenchNode) -> None:
    line = SlowLine(node)
    line.request(0, 1)
    line.request(0, 2)
    line.produced.answer(1)
    line.produced.calls[0].end_silently()
    assert line.correlation_ids() == [2]
    assert line.session.in_flight == 0


def test_a_client_that_is_gone_gets_no_answer_and_its_waits_end(node: BenchNode) -> None:
    line = SlowLine(node)
    line.request(1, 1)
    ended = []
    line.fetched.calls[0].on_close = lambda: ended.append(1)
    line.session.close()
    assert ended == [1]
    line.fetched.answer(0)
    assert line.frames() == []


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pack(">i", -1), InvalidFrameSize),
        (pack(">i", 7), InvalidFrameSize),
        (b"GET / HTTP/1.1\r\n", WireError),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01", WireError),
        (pack(">ihh", 3 << 20, 18, 0), InvalidFrameSize),
        (request(4, 0, 1), UnknownRequest),
        (request(-1, 0, 1), UnknownRequest),
    ],
    ids=["negative", "short", "http", "tls", "long", "unserved", "no key"],
)
def test_bytes_of_something_else_close_the_connection_before_more_are_read(
    node: BenchNode, data: bytes, error: type[WireError]
) -> None:
    with pytest.raises(error):
        KafkaLine(node).feed(data)


@pytest.mark.parametrize(
    ("beginning", "said"),
    [
        (b"GET /metrics HTTP/1.1\r\n", "HTTP"),
        (b"POST / HTTP/1.1\r\n", "HTTP"),
        (b"PRI * HTTP/2.0\r\n", "HTTP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "TLS"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "SSH"),
        (pack(">i", 3 << 28) + bytes(8), "805306368 bytes"),
    ],
    ids=["http", "http post", "http 2", "tls", "ssh", "nothing known"],
)
def test_the_refusal_of_another_protocol_names_it(node: BenchNode, beginning: bytes, said: str) -> None:
    """The most frequent mistake is a wrong port, or security.protocol=SSL: the log line says which."""
    with pytest.raises(InvalidFrameSize, match=said):
        KafkaLine(node).feed(beginning)


@pytest.mark.parametrize("size", [(64 << 20) + 1, 2**31 - 1])
def test_a_produce_request_is_refused_by_its_size_before_it_has_come(node: BenchNode, size: int) -> None:
    with pytest.raises(InvalidFrameSize):
        KafkaLine(node).feed(pack(">ihh", size, 0, 9))


def test_unknown_tags_in_a_requests_header_are_skipped(node: BenchNode) -> None:
    line = KafkaLine(node)
    body = b"".join(ALWAYS.encode(3))
    tags = b"\x02" + b"\x00\x03abc" + b"\xff\xff\xff\xff\x07\x01z"
    frame = pack(">hhih4s", 18, 3, 9, 4, b"test") + tags + body
    line.feed(pack(">i", len(frame)) + frame)
    assert line.correlation_ids() == [9]


@pytest.mark.parametrize(
    "client_id",
    [b"\xff\xff", b"\0\0", b"\x7f\xff" + b"x" * 32_767, b"\0\2\xff\xfe"],
    ids=["null", "empty", "the longest", "no UTF-8"],
)
def test_a_client_may_call_itself_anything(node: BenchNode, client_id: bytes) -> None:
    line = KafkaLine(node)
    frame = pack(">hhi", 18, 0, 9) + client_id
    line.feed(pack(">i", len(frame)) + frame)
    assert line.correlation_ids() == [9]


def test_the_same_correlation_id_again_is_answered_again(node: BenchNode) -> None:
    """The ids are the client's business: the broker gives them back."""
    line = KafkaLine(node)
    line.feed(request(18, 0, 7) * 3 + request(18, 0, -1) + request(18, 0, -(2**31)))
    assert line.correlation_ids() == [7, 7, 7, -1, -(2**31)]


def test_a_strange_name_of_software_is_refused_and_the_client_goes_on(node: BenchNode) -> None:
    """Clients come back in version 0 on the same connection."""
    line = KafkaLine(node)
    assert line.ask(ApiVersionsRequest("no name!", "1"), ApiVersionsResponse, 3).error_code == 42
    assert line.ask(ApiVersionsRequest(), ApiVersionsResponse, 0).error_code == 0


def test_invented_names_of_software_make_no_metrics_without_end(node: BenchNode) -> None:
    for number in range(3 * KAFKA_SOFTWARE):
        KafkaLine(node).ask(ApiVersionsRequest(f"lib-{number}", "1"), ApiVersionsResponse, 3)
    assert len(node.metrics.kafka_software) <= KAFKA_SOFTWARE + 1
    assert sum(node.metrics.kafka_software.values()) == 3 * KAFKA_SOFTWARE


def test_a_connection_may_begin_with_any_request(node: BenchNode) -> None:
    """Clients before 0.10 know no ApiVersions; they send version 0 of what they want."""
    node.controller.add("a")
    line = KafkaLine(node)
    assert line.ask(MetadataRequest([]), MetadataResponse, 0).topics[0].name == "a"


def test_raw_bytes_of_sasl_without_a_request_around_them_close_the_connection(node: BenchNode) -> None:
    """After a handshake in version 0 a client sends its token bare, if it overlooks the error."""
    line = KafkaLine(node)
    answer = line.ask(SaslHandshakeRequest("PLAIN"), SaslHandshakeResponse, 0)
    assert answer.error_code == 34
    token = b"\0user\0password"
    with pytest.raises(UnknownRequest):
        line.feed(pack(">i", len(token)) + token)


def test_a_version_that_is_not_served_closes_the_connection(node: BenchNode) -> None:
    with pytest.raises(UnknownRequest, match="0-2"):
        SlowLine(node).feed(request(0, 3, 1))


def test_bytes_behind_a_request_close_the_connection(node: BenchNode) -> None:
    with pytest.raises(WireError):
        KafkaLine(node).feed(request(18, 0, 1, b"x"))


class Closed(Gate):
    def allows(self, principal: Principal, operation: Operation, resource: Resource) -> bool:
        return False


def test_every_request_passes_the_gate(node: BenchNode) -> None:
    with pytest.raises(NotAllowed):
        KafkaLine(node, Closed()).feed(request(18, 0, 1))


def test_requests_are_counted_by_name_version_and_outcome(node: BenchNode) -> None:
    line = KafkaLine(node)
    line.ask(ALWAYS, ApiVersionsResponse, 3)
    line.ask(ApiVersionsRequest("", ""), ApiVersionsResponse, 3)
    counted = node.metrics.kafka_requests
    assert counted["ApiVersions", 3, "ok"] == counted["ApiVersions", 3, "invalid_request"] == 1


def test_a_bug_in_a_handler_is_counted_and_names_the_request(node: BenchNode) -> None:
    line = SlowLine(node)
    api = KafkaApi(0, "Produce", 0, 2, broken, Operation.WRITE, Resource.TOPIC)
    line.session = KafkaSession(node.broker, {0: api}, Gate(), KafkaSettings())
    with pytest.raises(ZeroDivisionError) as failed:
        line.request(0, 1)
    assert failed.value.__notes__ == ["while a Kafka client's Produce, version 0, was handled"]
    assert node.metrics.kafka_requests["Produce", 0, "internal_error"] == 1


def test_large_frames_come_whole(node: BenchNode) -> None:
    line = SlowLine(node)
    frame = bytearray(request(0, 0, 5, bytes(300_000)))
    assert line.session.frame_bytes(bytes(frame[:4])) == len(frame)
    assert line.session.frame_bytes(b"\0\0") == 0
    line.session.take_frame(memoryview(frame))
    assert [call.correlation_id for call in line.produced.calls] == [5]


def test_brokers_that_assign_partitions_are_told_to_clients_when_all_brokers_do(node: BenchNode) -> None:
    line = KafkaLine(node)

    def asked(version: int) -> ApiVersionsResponse:
        return line.ask(ApiVersionsRequest("lib", "1"), ApiVersionsResponse, version)

    node.controller.view.feature_level = feature_levels.GROUPS
    answer = asked(4)
    assert answer.api_keys.find(68) is None
    assert not answer.finalized_features
    node.controller.view.feature_level = feature_levels.NATIVE_GROUPS
    for version in (0, 3, 4):
        answer = asked(version)
        for key in (68, 69):
            found = answer.api_keys.find(key)
            assert found is not None
            assert found.max_version == 1
        finalized = [(each.name, each.max_version_level) for each in answer.finalized_features]
        assert finalized == ([("group.version", 1)] if version else [])
        assert len(answer.supported_features) == (version == 4)
