"""Identifiers, partitionings, header maps and options: read, written, cut and wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_protos.generated.iggy import Identifier
from tank_protos.iggy import header_map, identifiers, options, partitioning
from tank_protos.iggy.checksums import key_partition, xxh3
from tank_protos.iggy.eras import B2, B3, ERAS, SEED, Era
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.iggy.header_map import UserHeader
from tank_protos.iggy.kinds import HeaderKind, PartitioningKind
from tank_protos.iggy.partitioning import Partitioning
from tank_protos.wire.errors import Truncated, WireError


@pytest.mark.parametrize("era", ERAS, ids=lambda era: era.name)
@given(st.one_of(st.integers(0, 2**32 - 2), st.text(min_size=1, max_size=60)))
def test_an_identifier_names_what_was_named(era: Era, named: int | str) -> None:
    made = identifiers.of_name(named) if isinstance(named, str) else identifiers.of_number(named, era)
    wire = b"".join(made.encode(era.version))
    assert identifiers.named(Identifier.decode(wire, era.version), era) == named


def test_the_first_id_is_1_for_old_clients_and_0_for_new_ones() -> None:
    assert b"".join(identifiers.of_number(0, SEED).encode()) == bytes.fromhex("0104 01000000")
    assert b"".join(identifiers.of_number(0, B2).encode()) == bytes.fromhex("0104 00000000")
    assert identifiers.number_of(1, SEED) == identifiers.number_of(0, B2) == 0
    with pytest.raises(IggyRefusal):
        identifiers.number_of(0, SEED)


@pytest.mark.parametrize(
    ("wire", "era"),
    [
        (Identifier(1, bytes(4)), SEED),
        (Identifier(1, bytes(3)), B3),
        (Identifier(1, bytes(5)), B3),
        (Identifier(2, b""), B3),
        (Identifier(0, bytes(4)), B3),
        (Identifier(3, b"a"), B3),
    ],
)
def test_an_identifier_that_names_nothing_is_refused(wire: Identifier, era: Era) -> None:
    with pytest.raises(IggyRefusal) as refusal:
        identifiers.named(wire, era)
    assert refusal.value.error is IggyError.INVALID_IDENTIFIER


@pytest.mark.parametrize(
    ("chosen", "wire"),
    [
        (Partitioning(), "0100"),
        (Partitioning(PartitioningKind.PARTITION, 7), "0204 07000000"),
        (Partitioning(PartitioningKind.KEY, key=b"ab"), "0302 6162"),
    ],
)
def test_a_partitioning_is_read_and_written(chosen: Partitioning, wire: str) -> None:
    data = bytes.fromhex(wire)
    assert chosen.encode() == data
    assert partitioning.read(memoryview(b"\xee" + data + b"\xee"), 1) == (chosen, 1 + len(data))
    for end in range(len(data)):
        with pytest.raises(Truncated):
            partitioning.read(memoryview(data[:end]), 0)


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        ("0300", IggyError.INVALID_KEY_VALUE_LENGTH),
        ("0000", IggyError.INVALID_COMMAND),
        ("0400", IggyError.INVALID_COMMAND),
        ("0101 00", IggyError.INVALID_COMMAND),
        ("0203 000000", IggyError.INVALID_COMMAND),
    ],
)
def test_a_wrong_partitioning_is_refused(wire: str, error: IggyError) -> None:
    with pytest.raises(IggyRefusal) as refusal:
        partitioning.read(memoryview(bytes.fromhex(wire)), 0)
    assert refusal.value.error is error


def test_a_key_chooses_by_xxh32() -> None:
    """The hash's own vectors: of nothing, of `a` and of `abc`."""
    assert key_partition(b"", 1 << 32) == 0x02CC5D05
    assert key_partition(b"a", 1 << 32) == 0x550D7456
    assert key_partition(b"abc", 1 << 32) == 0x32D153FF
    assert [key_partition(b"abc", count) for count in (1, 7, 1000)] == [0, 0x32D153FF % 7, 0x32D153FF % 1000]


def test_xxh3_is_that_of_its_vectors() -> None:
    assert xxh3(b"") == 0x2D06800538D394C2
    assert xxh3(b"abc") == 0x78AF5F94892F3950


KINDS = st.sampled_from([int(kind) for kind in HeaderKind])
CONTENT = st.binary(min_size=1, max_size=255)
HEADERS = st.lists(st.builds(UserHeader, CONTENT, CONTENT, KINDS, KINDS), max_size=5)


@given(HEADERS)
def test_headers_come_back_as_they_went(headers: list[UserHeader]) -> None:
    assert header_map.read(header_map.write(headers, True), True) == headers
    texts = [header._replace(key_kind=HeaderKind.STRING) for header in headers]
    assert header_map.read(header_map.write(headers, False), False) == texts


def test_a_header_map_is_laid_out_as_the_protocol_says() -> None:
    header = UserHeader(b"k", b"\x07", HeaderKind.UINT8, HeaderKind.STRING)
    assert header_map.write([header], True) == bytes.fromhex("02 01000000 6b 09 01000000 07")
    assert header_map.write([header], False) == bytes.fromhex("01000000 6b 09 01000000 07")


@pytest.mark.parametrize("has_key_kinds", [True, False])
def test_a_header_map_that_is_cut_is_refused(has_key_kinds: bool) -> None:
    data = header_map.write([UserHeader(b"key", b"value")], has_key_kinds)
    for end in range(1, len(data)):
        with pytest.raises(WireError):
            header_map.read(data[:end], has_key_kinds)
    with pytest.raises(Truncated):
        header_map.read(data + b"\x02", has_key_kinds)


@pytest.mark.parametrize(
    ("wire", "error"),
    [
        ("02 00000000 01 01000000 07", IggyError.INVALID_HEADER_KEY),
        ("02 00010000", IggyError.INVALID_HEADER_KEY),
        ("02 ffffffff", IggyError.INVALID_HEADER_KEY),
        ("02 01000000 6b 01 00000000", IggyError.INVALID_HEADER_VALUE),
        ("02 01000000 6b 01 00010000", IggyError.INVALID_HEADER_VALUE),
        ("00 01000000 6b 01 01000000 07", IggyError.INVALID_HEADER_KIND),
        ("02 01000000 6b 00 01000000 07", IggyError.INVALID_HEADER_KIND),
        ("10 01000000 6b 01 01000000 07", IggyError.INVALID_HEADER_KIND),
        ("02 01000000 6b 10 01000000 07", IggyError.INVALID_HEADER_KIND),
    ],
)
def test_a_wrong_header_is_refused(wire: str, error: IggyError) -> None:
    with pytest.raises(IggyRefusal) as refusal:
        header_map.read(bytes.fromhex(wire), True)
    assert refusal.value.error is error


def test_options_are_numbers_and_texts_by_name() -> None:
    wanted: dict[str, int | str] = {"message_expiry": 2**64 - 1, "durability": "replicated"}
    assert options.read(options.write(wanted)) == wanted
    assert options.read(b"") == {}


@pytest.mark.parametrize(
    ("kind", "value", "read"),
    [
        (HeaderKind.UINT32, b"\x01\x02\0\0", 513),
        (HeaderKind.INT8, b"\xff", -1),
        (HeaderKind.BOOL, b"\x01", 1),
        (HeaderKind.STRING, "1 day é".encode(), "1 day é"),
    ],
)
def test_an_option_has_the_value_of_its_kind(kind: HeaderKind, value: bytes, read: int | str) -> None:
    assert options.read(header_map.write([UserHeader(b"a", value, kind)], True)) == {"a": read}


@pytest.mark.parametrize(
    "headers",
    [
        [UserHeader(b"a", b"1", HeaderKind.RAW)],
        [UserHeader(b"a", b"12", HeaderKind.UINT32)],
        [UserHeader(b"a", b"\xff", HeaderKind.STRING)],
        [UserHeader(b"\xff", b"a", HeaderKind.STRING)],
        [UserHeader(b"a", b"a", HeaderKind.STRING, HeaderKind.RAW)],
        [UserHeader(b"a", b"a", HeaderKind.STRING), UserHeader(b"a", b"b", HeaderKind.STRING)],
    ],
)
def test_an_option_that_nobody_can_mean_is_refused(headers: list[UserHeader]) -> None:
    with pytest.raises(IggyRefusal) as refusal:
        options.read(header_map.write(headers, True))
    assert refusal.value.error is IggyError.INVALID_OPTION
