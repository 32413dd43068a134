"""All of the Kafka project's definitions, of three dates: they compile, and every version round-trips.

The fast run imports and tries some messages of each folder, `make test` all of them. The definitions lie
beside the repository. Without them this suite is skipped, and the summary says so.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tank_compiler.emit import package
from tank_compiler.emit.generated_import import imported
from tank_compiler.emit.module import module_name
from tank_compiler.schema import definition_files
from tank_compiler.schema.schema import Kind, Message, Protocol
from tank_compiler.tools import corpus
from tank_compiler.tools.interpreter import lay_out
from tank_protos.wire.errors import TrailingBytes, Truncated, UnsupportedVersion, WireError
from tests.support.processes.shared_folder import DEFINITIONS, needs
from tests.support.values.corpus_seeds import version_of
from tests.support.values.schema_values import as_values, values

pytestmark = needs(DEFINITIONS)

Modules = Callable[[str], ModuleType]

COUNTS = {"2019-01": (90, 0), "all-versions-2024-10": (186, 0), "4.1": (189, 8)}
"""Messages with versions, and those without one, in each folder."""

SAMPLE = 9
"""The fast run takes each so-manieth message."""
SPECIAL = ("ApiVersions", "ControlledShutdown", "RequestHeader", "ResponseHeader")
"""Messages that are always taken: those whose headers follow rules of their own, and the headers."""


def some_of(protocol: Protocol) -> Protocol:
    special = [message for message in protocol.messages if message.root.name.startswith(SPECIAL)]
    others = [message for message in protocol.messages if not message.root.name.startswith(SPECIAL)]
    return replace(protocol, messages=special + others[::SAMPLE])


@pytest.fixture(
    scope="module",
    params=[(name, "some") for name in COUNTS]
    + [pytest.param((name, "all"), marks=pytest.mark.integration) for name in COUNTS],
    ids="-".join,
)
def generated(request: pytest.FixtureRequest) -> Iterator[tuple[str, Protocol, Modules]]:
    """A folder's name, its protocol, and what imports a generated module."""
    name, part = request.param
    protocol = definition_files.load(DEFINITIONS / name)
    if part == "some":
        protocol = some_of(protocol)
    with imported(protocol) as modules:
        yield name, protocol, modules


@pytest.fixture
def protocol(generated: tuple[str, Protocol, Modules]) -> Protocol:
    return generated[1]


@pytest.fixture
def modules(generated: tuple[str, Protocol, Modules]) -> Modules:
    return generated[2]


def versions(message: Message) -> range:
    return range(message.versions.low, message.versions.high_end + 1)


def codec_of(message: Message, modules: Modules) -> Any:
    return getattr(modules(module_name(message)), message.root.name)


def decoded(codec: Any, message: Message, payload: bytes, version: int) -> Any:
    """The message, with its unknown tags."""
    if message.root.keeps_tags:
        return codec.decode(payload, version, keep_unknown=True)
    return codec.decode(payload, version)


@pytest.mark.parametrize("name", COUNTS)
def test_every_definition_compiles_to_what_python_compiles(name: str) -> None:
    protocol = definition_files.load(DEFINITIONS / name)
    assert (len(protocol.messages), len(protocol.removed)) == COUNTS[name]
    texts = package.files(protocol, "example")
    assert len(texts) > len(protocol.messages)
    for file, text in texts.items():
        compile(text, file, "exec")


def test_what_is_generated_can_be_imported(protocol: Protocol, modules: Modules) -> None:
    for message in protocol.messages:
        assert (message.versions.low, message.versions.high) == codec_of(message, modules).VERSIONS


@pytest.mark.parametrize(
    "examples", [2, pytest.param(60, marks=[pytest.mark.long, pytest.mark.timeout(3000)])]
)
def test_every_message_round_trips_in_every_version(
    protocol: Protocol, modules: Modules, examples: int
) -> None:
    """What a plain interpreter of the definitions lays out, generated code reads, and writes again."""
    tried = 0
    for message in protocol.messages:
        codec = codec_of(message, modules)
        for version in versions(message):
            tried += 1
            round_trip(codec, message, version, examples)
    assert tried > len(protocol.messages)


def round_trip(codec: Any, message: Message, version: int, examples: int) -> None:
    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(st.data())
    def tried(data: st.DataObject) -> None:
        chosen = data.draw(values(message, version))
        payload = lay_out(message, chosen, version)
        found = decoded(codec, message, payload, version)
        assert as_values(found, message.root) == chosen
        assert b"".join(found.encode(version)) == payload

    tried()


def test_the_corpus_of_every_message_is_valid(protocol: Protocol, modules: Modules) -> None:
    for message in protocol.messages:
        codec = codec_of(message, modules)
        for name, payload in corpus.seeds(message):
            version = version_of(message, name)
            assert b"".join(codec.decode(payload, version).encode(version)) == payload


def test_what_is_cut_anywhere_raises_a_typed_error(protocol: Protocol, modules: Modules) -> None:
    """Byte by byte; then a byte too many."""
    for message in protocol.messages:
        codec = codec_of(message, modules)
        for name, payload in corpus.seeds(message):
            version = version_of(message, name)
            step = 1 + len(payload) // 120
            for end in range(0, len(payload), step):
                with pytest.raises(Truncated):
                    codec.decode(payload[:end], version)
            with pytest.raises(TrailingBytes):
                codec.decode(payload + b"\0", version)


def test_bytes_that_lie_raise_typed_errors_only(protocol: Protocol, modules: Modules) -> None:
    """Each byte becomes all ones, then zero, then another length."""
    refused = 0
    for message in protocol.messages:
        codec = codec_of(message, modules)
        name, payload = max(corpus.seeds(message), key=lambda seed: len(seed[1]) if len(seed[1]) < 600 else 0)
        version = version_of(message, name)
        for at in range(len(payload)):
            for byte in (0xFF, 0, payload[at] ^ 1):
                lie = payload[:at] + bytes([byte]) + payload[at + 1 :]
                try:
                    found = codec.decode(lie, version)
                except WireError:
                    refused += 1
                else:
                    found.encode(version)
    assert refused > len(protocol.messages)


def test_headers_have_the_version_that_kafka_gives_them(generated: tuple[str, Protocol, Modules]) -> None:
    name, protocol, modules = generated
    headers = modules("headers")
    plain_request, flexible_request = {"2019-01": (0, 0)}.get(name, (1, 2))
    for message in protocol.messages:
        if message.id is None:
            continue
        for version in versions(message):
            is_flexible = message.flexible is not None and version in message.flexible
            if message.kind is Kind.REQUEST:
                wanted = flexible_request if is_flexible else plain_request
                if message.root.name == "ControlledShutdownRequest" and version == 0:
                    wanted = 0
                assert headers.request_header_version(message.id, version) == wanted
            else:
                wanted = int(is_flexible and message.root.name != "ApiVersionsResponse")
                assert headers.response_header_version(message.id, version) == wanted
    with pytest.raises(UnsupportedVersion, match="the api key 18 has no version 99"):
        headers.response_header_version(18, 99)
    with pytest.raises(UnsupportedVersion, match="the api key 999 has no version 0"):
        headers.request_header_version(999, 0)
