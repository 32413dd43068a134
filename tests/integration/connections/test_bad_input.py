"""A real process and real sockets: slow and half frames, lengths and counts that lie, bombs.

Each is refused, its connection closed where the protocol says so, the refusal counted under its reason, and
the client beside it served as if nothing had happened.
"""

from pathlib import Path

import cramjam
import pytest

from tank_node.limits import KIB, MIB, RENUMBERED_MESSAGES
from tank_protos import bundle
from tank_protos.error_codes import ErrorCode
from tank_protos.generated.tank import (
    IdempotentPartition,
    IdempotentProduceRequest,
    IdempotentProduceResponse,
    IdempotentTopic,
    ProduceBasePartition,
    ProduceBaseTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
    ProduceWithBaseSeqNumRequest,
)
from tank_protos.wire import varint
from tank_protos.wire.framing import frame
from tests.integration.connections.honest_node import create_topic, produce, serves
from tests.integration.connections.honest_node import node as node
from tests.support.clients.raw_client import RawConnection
from tests.support.processes.bare_process import BareProcess
from tests.support.waiting import until

pytestmark = pytest.mark.integration

QUICK = {"housekeeping_ms": 20, "stalled_frame_ms": 300, "slowest_bytes_per_s": 10 * MIB}


def is_closed_without_an_answer(client: RawConnection) -> bool:
    try:
        client.receive()
    except ConnectionError:
        return True
    return False


# --- slow and half frames --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("beginning", "reason"),
    [
        (b"\x01", "stalled_frame"),
        (b"\x01\x00\x01\x00\x00half", "stalled_frame"),
        (b"\x01" + (1 * MIB).to_bytes(4, "little") + bytes(400 * KIB), "stalled_frame"),
        (b"\x01\x10\x00\x00\x00", "slow_frame"),
    ],
    ids=["part of a header", "half a small frame", "half a large frame", "a byte at a time"],
)
def test_a_frame_that_does_not_come_to_its_end(tmp_path: Path, beginning: bytes, reason: str) -> None:
    with BareProcess(tmp_path, **QUICK) as node:
        create_topic(node)
        with node.connect() as good, node.connect(0.03) as slow:
            slow.socket.sendall(beginning)
            until(lambda: _is_closed(slow, trickle=reason == "slow_frame"), "the slow client is still served")
            assert serves(good, b"beside a slow one")
        found = node.counters()
        assert found["refused"] == found["closed"] == {reason: 1}
        assert found["held_bytes"] == 0


def _is_closed(client: RawConnection, *, trickle: bool) -> bool:
    """Whether the broker has ended the connection; else, with `trickle`, it gets one byte more."""
    try:
        if trickle:
            client.socket.sendall(b"x")
        return client.socket.recv(100) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


def test_half_a_frame_and_a_disconnect(node: BareProcess) -> None:
    """At every byte of a produce: nothing of it is stored, and nothing stays behind."""
    request = ProduceRequest(
        topics=[
            ProduceTopic("a", [ProducePartition(0, bundle.as_batch(bundle.encode([b"half"], timestamps=1)))])
        ]
    )
    whole = b"".join(frame(request.ID, request.encode()))
    before = node.counters()
    with node.connect() as good:
        for end in range(len(whole)):
            with node.connect() as client:
                client.socket.sendall(whole[:end])
        assert serves(good, b"after half frames")
        until(lambda: node.counters()["connections"] == 1, "connections that are gone are still there")
    after = node.counters()
    assert after["refused"] == before["refused"]
    assert after["held_bytes"] == 0


# --- lengths and counts that lie -------------------------------------------------------------------

_PRODUCE_HEAD = b"\x02\0\1\0\0\0\0\0\0\0\0\0"
"""Version, request id, no client id, acks, timeout: what stands before a produce's topics."""

LIES = {
    "an unknown id": (b"\x63\0\0\0\0", "unknown_message"),
    "a replica's id": (b"\x09\0\0\0\0", "unknown_message"),
    "a request of 4 GiB": (b"\x02\xff\xff\xff\xff", "frame_too_large"),
    "a produce above the limit": (b"\x01" + (64 * MIB + 1).to_bytes(4, "little"), "frame_too_large"),
    "a request above its own limit": (b"\x06" + (2 * MIB + 1).to_bytes(4, "little"), "frame_too_large"),
    "a ping with a payload": (b"\x03\1\0\0\0x", "malformed"),
    "a payload that is too short": (b"\x0a\3\0\0\0abc", "truncated"),
    "a payload that is too long": (b"\x0a\5\0\0\0\1\0\0\0x", "trailing_bytes"),
    "more topics than bytes": (_PRODUCE_HEAD + b"\xff\4gold", "truncated"),
    "more partitions than bytes": (_PRODUCE_HEAD + b"\1\4gold\xff\0\0", "truncated"),
    "a name longer than the frame": (_PRODUCE_HEAD + b"\1\xffgold", "truncated"),
    "a bundle longer than the frame": (_PRODUCE_HEAD + b"\1\4gold\1\0\0\x7fbundle", "truncated"),
    "a bundle of 4 GiB": (_PRODUCE_HEAD + b"\1\4gold\1\0\0\xff\xff\xff\xff\x0f", "truncated"),
    "a varint above 32 bits": (_PRODUCE_HEAD + b"\1\4gold\1\0\0\xff\xff\xff\xff\x7f", "out_of_range"),
    "a varint of six bytes": (_PRODUCE_HEAD + b"\1\4gold\1\0\0\x80\x80\x80\x80\x80\0", "out_of_range"),
    "four thousand million positions": (b"\x48\x0a\0\0\0\0\1\0\0\0\0\xff\xff\xff\xff", "truncated"),
    "four thousand million ends": (b"\x4b\x0d\0\0\0\0\1\0\0\0\0\0\0\0\xff\xff\xff\xff", "truncated"),
    "an unknown version": (b"\x40\5\0\0\0\xff\1\0\0\0", "unsupported_version"),
    "a replica's push": (b"\x05\x0d\0\0\0\0\1\1" + bytes(10), "not_a_peer"),
}


@pytest.mark.parametrize("name", LIES)
def test_a_lie_closes_its_connection_and_is_counted_once(node: BareProcess, name: str) -> None:
    data, reason = LIES[name]
    if data.startswith(_PRODUCE_HEAD):
        data = b"\x01" + len(data).to_bytes(4, "little") + data
    before = node.counters()
    with node.connect() as good, node.connect() as liar:
        liar.socket.sendall(data)
        assert is_closed_without_an_answer(liar)
        assert serves(good, name.encode())
    after = node.counters()
    for kind in ("refused", "closed"):
        changed = {key: count - before[kind].get(key, 0) for key, count in after[kind].items()}
        assert {key: count for key, count in changed.items() if count} == {reason: 1}


# --- bundles that lie, and bombs -------------------------------------------------------------------


def _block(size: int) -> bytes:
    """A message of zeros, as one message set of `size` bytes, compressed: a twentieth of it."""
    content = bytes(size - 13)
    return bytes(cramjam.snappy.compress_raw(bytes(9) + varint.encode(len(content)) + content))


def _of_empty_messages(count: int) -> bytes:
    body = bytes(10) + b"\x02\0" * (count - 1)
    return b"\x01" + varint.encode(count) + bytes(cramjam.snappy.compress_raw(body))


BAD_BUNDLES = {
    "nothing": b"",
    "a count without messages": b"\x00\xff\xff\xff\xff\x0f" + bytes(10),
    "snappy that claims 4 GiB": b"\x05\xff\xff\xff\xff\x0f" + bytes(20),
    "snappy that claims 60 MiB in 20 bytes": b"\x05" + varint.encode(60 * MIB) + bytes(20),
    "snappy that holds more than 64 MiB": b"\x05" + _block(64 * MIB + 1),
    "numbers beyond the last": b"\x44" + ((1 << 63) - 1).to_bytes(8, "little") + bytes(10),
}


@pytest.mark.parametrize("name", BAD_BUNDLES)
def test_a_bad_bundle_is_answered_and_counted(node: BareProcess, name: str) -> None:
    """By every request that carries bundles; the connection stays, because the frame was right."""
    content = BAD_BUNDLES[name]
    before = node.counters()
    held = node.resident_bytes()
    with node.connect() as client:
        assert produce(client, content) == 2
        entry = ProduceBasePartition(0, len(content), 1 << 40, content)
        numbered = ProduceWithBaseSeqNumRequest(2, 1, "", 0, 0, [ProduceBaseTopic("a", [entry])])
        assert client.ask(numbered.ID, numbered.encode())[-1] == 2
        once = IdempotentPartition(0, 0, 0, memoryview(bundle.as_batch(content)))
        idempotent = IdempotentProduceRequest(0, 1, "", 0, 0, 0, 0, [IdempotentTopic("a", [once])])
        answer = IdempotentProduceResponse.decode(client.ask(idempotent.ID, idempotent.encode()))
        assert answer.topics[0].partitions[0].error == ErrorCode.INVALID_BUNDLE
        assert serves(client, name.encode())
    after = node.counters()
    assert after["refused"]["invalid_bundle"] - before["refused"].get("invalid_bundle", 0) == 3
    assert after["closed"] == before["closed"]
    assert node.resident_bytes() - held < 32 * MIB, "a refused bundle was unpacked, or kept"


@pytest.mark.parametrize("messages", [RENUMBERED_MESSAGES + 1, 4_000_000, 32_000_000])
def test_a_bomb_behind_a_gap_is_not_unpacked(node: BareProcess, messages: int) -> None:
    """The broker writes a dense bundle behind a gap anew: not one with millions of messages in it."""
    content = _of_empty_messages(messages)
    held = node.resident_bytes()
    before = node.counters()["refused"].get("too_large_to_renumber", 0)
    with node.connect() as client:
        entry = ProduceBasePartition(0, len(content), 1 << 41, content)
        request = ProduceWithBaseSeqNumRequest(2, 1, "", 0, 0, [ProduceBaseTopic("a", [entry])])
        assert client.ask(request.ID, request.encode())[-1] == 2
        assert serves(client, b"after a bomb")
    assert node.counters()["refused"]["too_large_to_renumber"] == before + 1
    assert node.resident_bytes() - held < 32 * MIB
