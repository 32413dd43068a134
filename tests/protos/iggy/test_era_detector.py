"""Which era a connection speaks: by its first four bytes, its login, or what it sends without one."""

import struct

import pytest

from tank_protos.iggy import vsr
from tank_protos.iggy.era_detector import EraDetector, NeedMore, NoIggyClient
from tank_protos.iggy.eras import A1, A2, A3, B1, B2, B3, ERA_NAMES, ERAS, SEED, V11, Era, Framing
from tank_protos.iggy.errors import IggyError, IggyRefusal
from tank_protos.wire.errors import Truncated, WireError

CLIENT = bytes(range(16))


def name(text: str) -> bytes:
    return bytes([len(text)]) + text.encode()


def s32(text: str) -> bytes:
    return struct.pack("<I", len(text)) + text.encode()


def classic(code: int, payload: bytes = b"") -> bytes:
    return struct.pack("<II", 4 + len(payload), code) + payload


def login(version: str | None) -> bytes:
    tail = b"" if version is None else s32(version) + s32("")
    return classic(38, name("iggy") + name("iggy") + tail)


def session_login(major: int = 0, minor: int = 11, patch: int = 0) -> bytes:
    body = struct.pack("<I", major << 20 | minor << 10 | patch)
    body += name("rust-sdk") + name("0.11.0") + name("iggy") + name("iggy") + s32("")
    return vsr.request(CLIENT, 1, body)


PING = classic(1)
VSR_PING = vsr.request(CLIENT, 2, b"", code=1)
SEED_CREATE = b"\x01\x04" + struct.pack("<IIII", 1, 1, 3, 0) + name("orders")
A2_CREATE = b"\x01\x04" + struct.pack("<IIIBIQB", 1, 0, 3, 1, 0, 0, 1) + name("orders")


def fed(*frames: bytes, fixed: Era | None = None) -> list[Era | NeedMore]:
    detector = EraDetector(fixed)
    return [detector.feed(frames[0][:4], frame) for frame in frames]


def test_an_eras_version_is_its_place() -> None:
    assert [era.version for era in ERAS] == list(range(8))
    assert list(ERA_NAMES) == ["S", "A1", "A2", "A3", "B1", "B2", "B3", "V11"]
    assert [era.base for era in ERAS] == [1, 1, 1, 1, 1, 0, 0, 0]


@pytest.mark.parametrize(
    ("version", "era"),
    [
        (None, A2),
        ("0.5.0", A3),
        ("0.6.12", A3),
        ("0.6.202", A3),
        ("0.7.0", B1),
        ("0.8.0", B2),
        ("0.9.0", B3),
        ("0.9.1-edge", B3),
        ("0.10.0", B3),
        ("", B3),
    ],
)
def test_a_classic_login_says_the_version_of_its_library(version: str | None, era: Era) -> None:
    detector = EraDetector()
    assert detector.feed(login(version)[:4], login(version)) is era
    assert detector.sdk_version == version
    assert not detector.is_unknown_sdk


@pytest.mark.parametrize("version", ["0.7.1", "0.8.0-rc1", "0.90.0", "1.0.0", "banana", "\u2603"])
def test_an_unknown_library_is_taken_for_the_last_classic_era_and_counted(version: str) -> None:
    detector = EraDetector()
    text = version.encode()
    frame = classic(38, name("iggy") + name("iggy") + struct.pack("<I", len(text)) + text + s32(""))
    assert detector.feed(frame[:4], frame) is B3
    assert detector.is_unknown_sdk


def test_a_login_by_token_says_nothing_of_versions() -> None:
    assert fed(classic(44, name("secret"))) == [B3]


def test_pings_before_a_login_say_nothing() -> None:
    assert fed(PING, PING, login("0.8.0"), classic(201)) == [NeedMore.LOGIN, NeedMore.LOGIN, B2, B2]


@pytest.mark.parametrize("first", [classic(10), classic(201), classic(202, bytes(9)), classic(65_000)])
def test_a_client_that_never_logs_in_is_of_the_seed(first: bytes) -> None:
    assert fed(first, PING) == [SEED, SEED]
    assert fed(PING, first) == [NeedMore.LOGIN, SEED]


def test_four_bytes_say_the_framing_and_no_more() -> None:
    detector = EraDetector()
    assert [detector.feed(PING[:end]) for end in range(5)] == [NeedMore.HEAD] * 4 + [NeedMore.FRAME]
    assert detector.framing is Framing.CLASSIC
    detector = EraDetector()
    assert detector.feed(bytes(4)) is NeedMore.FRAME
    assert detector.framing is Framing.VSR


@pytest.mark.parametrize("first", [1, 2, 3, 128 * 2**20, 0x20544547, 2**32 - 1])
def test_other_first_bytes_are_no_client_of_iggys(first: int) -> None:
    with pytest.raises(NoIggyClient):
        EraDetector().feed(struct.pack("<I", first))


def test_a_vsr_client_may_ping_before_its_login_says_the_protocol() -> None:
    read = vsr.request(CLIENT, 2, b"", code=201)
    assert fed(VSR_PING, read, session_login()) == [NeedMore.LOGIN, NeedMore.LOGIN, V11]
    assert fed(session_login(patch=7)) == [V11]


def test_a_vsr_login_by_token_is_a_login() -> None:
    body = struct.pack("<I", 11 << 10) + name("sdk") + name("1") + name("token") + s32("")
    assert fed(vsr.request(CLIENT, 1, body)) == [V11]


@pytest.mark.parametrize("version", [(0, 10, 0), (0, 12, 0), (0, 0, 0), (1, 11, 0), (0xFFF, 11, 0)])
def test_another_protocol_is_refused_as_such(version: tuple[int, int, int]) -> None:
    with pytest.raises(IggyRefusal) as refusal:
        fed(session_login(*version))
    assert refusal.value.error is IggyError.INCOMPATIBLE_PROTOCOL


def test_another_protocol_is_refused_whatever_else_its_login_says() -> None:
    body = struct.pack("<I", 12 << 10) + bytes(32)
    with pytest.raises(IggyRefusal):
        fed(vsr.request(CLIENT, 1, body))


@pytest.mark.parametrize(
    "body", [b"", b"\0", struct.pack("<I", 11 << 10), struct.pack("<I", 11 << 10) + b"\xff"]
)
def test_a_vsr_login_that_cannot_be_read_is_malformed(body: bytes) -> None:
    with pytest.raises(Truncated):
        fed(vsr.request(CLIENT, 1, body))


@pytest.mark.parametrize("end", range(1, 8))
def test_a_classic_login_that_cannot_be_read_is_malformed(end: int) -> None:
    with pytest.raises(WireError):
        fed(classic(38, (name("iggy") + name("iggy"))[:end]))


def test_the_first_topic_tells_the_two_oldest_logins_apart() -> None:
    for payload, era in ((SEED_CREATE, A1), (A2_CREATE, A2)):
        detector = EraDetector()
        assert detector.feed(login(None)[:4], login(None)) is A2
        assert detector.narrow(payload) is era
        assert detector.feed(b"", classic(1)) is era


def test_later_topics_change_nothing() -> None:
    detector = EraDetector()
    detector.feed(login(None)[:4], login(None))
    assert detector.narrow(A2_CREATE) is A2
    assert detector.narrow(SEED_CREATE) is A2


def test_a_topic_of_neither_changes_nothing() -> None:
    detector = EraDetector()
    detector.feed(login(None)[:4], login(None))
    assert detector.narrow(SEED_CREATE + b"\0") is A2


def test_only_a_login_without_a_version_is_narrowed() -> None:
    detector = EraDetector()
    assert detector.feed(login("0.9.0")[:4], login("0.9.0")) is B3
    assert detector.narrow(SEED_CREATE) is B3


@pytest.mark.parametrize("era", ERAS[:-1], ids=lambda era: era.name)
def test_a_listener_may_say_the_era_where_clients_lie(era: Era) -> None:
    assert fed(login("0.9.0"), fixed=era) == [era]
    assert fed(PING, fixed=era) == [era]
    detector = EraDetector(era)
    detector.feed(login(None)[:4], login(None))
    assert detector.narrow(SEED_CREATE) is era
    with pytest.raises(NoIggyClient):
        EraDetector(era).feed(bytes(4))


def test_a_listener_for_vsr_takes_no_classic_client() -> None:
    assert fed(session_login(), fixed=V11) == [V11]
    with pytest.raises(NoIggyClient):
        EraDetector(V11).feed(PING[:4])


def test_a_client_that_was_taken_for_one_of_the_seed_is_of_its_logins_era() -> None:
    asks = classic(201)
    assert fed(asks, PING, login("0.9.0"), login("0.7.0")) == [SEED, SEED, B3, B3]
    assert fed(asks, login("0.9.0"), fixed=SEED) == [SEED, SEED]
