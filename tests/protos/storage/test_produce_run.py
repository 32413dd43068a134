"""Runs of produce requests: what is found in a buffer, its answers and its index records, on both kernels."""

from array import array
from struct import Struct

import pytest
from fastcrc.crc32 import iscsi as crc32c
from hypothesis import given
from hypothesis import strategies as st

from tank_protos import bundle, kernel
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceTopic
from tank_protos.storage.index_record import RECORD, RECORD_BYTES
from tank_protos.storage.produce_run import BEFORE_PREFIX, ProduceRun, failed
from tank_protos.wire.errors import InvalidBundle
from tank_protos.wire.framing import frame

pytestmark = pytest.mark.usefixtures("kernel")

# From client id to partition number: what stands between request id and bundle.
PREFIX = b"\3c++" + bytes(5) + b"\1" + b"\1a" + b"\1" + b"\3\0"
LARGE = 1 << 20
_CUT = Struct("<QIIII")


def request(batch: bytes, request_id: int = 1, *, client: str = "c++", version: int = 2) -> bytes:
    entry = ProducePartition(3, batch)
    message = ProduceRequest(version, request_id, client, 0, 0, [ProduceTopic("a", [entry])])
    return b"".join(frame(message.ID, message.encode()))


def raw(batch: bytes) -> bytes:
    """A request with whatever stands where a batch should."""
    return b"".join(frame(1, [b"\2\0\1\0\0\0", PREFIX, batch]))


def batch_of(*values: bytes, time: int = 5, compress: bool = False) -> bytes:
    codec = bundle.Codec.SNAPPY if compress else bundle.Codec.NONE
    return bundle.as_batch(bundle.encode(list(values), timestamps=time, codec=codec))


def find(
    data: bytes, *, most: int = 1000, at: int = 0, prefix: bytes = PREFIX, max_bytes: int = LARGE
) -> tuple[ProduceRun, bytes, bytearray]:
    run = ProduceRun()
    buffer = bytearray(data)
    return run, run.find(buffer, memoryview(buffer), at, len(buffer), prefix, most, max_bytes), buffer


def stored(run: ProduceRun) -> bytes:
    return b"".join(run.slices(0, run.batches))


def answers_to(*request_ids: int) -> bytes:
    return b"".join(b"\1\5\0\0\0" + number.to_bytes(4, "little") + b"\0" for number in request_ids)


def expected_records(batches: list[bytes], number: int, position: int, append_ms: int, newest: int) -> bytes:
    """As the log has made them one by one."""
    made = b""
    for batch in batches:
        header = bundle.validate(memoryview(batch))
        newest = max(newest, bundle.first_timestamp_ms(memoryview(batch), header) or append_ms)
        fields = [append_ms, newest, 0, 0, 7, 0, 1, 0, header.messages]
        zeroed = RECORD.pack(number, header.messages - 1, 0, len(batch), 0, *fields)
        crc = crc32c(zeroed, crc32c(batch))
        made += RECORD.pack(number, header.messages - 1, position, len(batch), crc, *fields)
        number += header.messages
        position += len(batch)
    return made


MIXED = [
    batch_of(b"x"),
    batch_of(b"x" * 100, time=9),
    batch_of(b"y" * 100, time=3),
    batch_of(b"z" * 100, time=2**63),
    batch_of(*[b"m" * n for n in range(15)]),
    batch_of(*[b"m" * n for n in range(16)]),
    batch_of(b"c" * 5000, compress=True),
    batch_of(b"large" * 20_000),
    batch_of(b"", b""),
]


@pytest.mark.parametrize("gap", [b"", b"before it"])
def test_it_finds_all_that_stand_one_after_another(gap: bytes) -> None:
    data = gap + b"".join(request(batch, 100 + i) for i, batch in enumerate(MIXED))
    run, answers, _ = find(data, at=len(gap))
    assert answers == answers_to(*range(100, 100 + len(MIXED)))
    assert (run.at, run.batches, run.batch_bytes) == (len(data), len(MIXED), sum(map(len, MIXED)))
    assert run.messages == sum(bundle.validate(memoryview(batch)).messages for batch in MIXED)
    assert run.kept <= run.at
    assert stored(run) == b"".join(MIXED)
    assert run.records(0, 11, 77, LARGE, 1000, 6, 4, 7, 1) == expected_records(MIXED, 11, 77, 6, 4)


@pytest.mark.parametrize("size", [4, 120, 4000])
@pytest.mark.parametrize("times", [1, 2, 70])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 9, 70])
def test_those_of_one_shape_are_found_as_well(count: int, times: int, size: int) -> None:
    batches = [batch_of(b"%04d" % n * (size // 4), time=5 + n % times) for n in range(count)]
    run, answers, _ = find(b"".join(request(batch, n) for n, batch in enumerate(batches)))
    assert answers == answers_to(*range(count))
    assert stored(run) == b"".join(batches)
    assert run.records(0, 1, 0, LARGE, 1000, 6, 4, 7, 1) == expected_records(batches, 1, 0, 6, 4)


@pytest.mark.parametrize("place", [0, 1, 2, 5, 19])
@pytest.mark.parametrize(
    "other",
    [
        request(batch_of(b"x" * 50), client="d++"),
        request(batch_of(b"x" * 200)),
        request(bundle.as_batch(bundle.encode_sparse([5], [b"x" * 40], timestamps=1))),
        b"\2" + request(batch_of(b"x" * 50))[1:],
        b"\1\xff\xff\0\0" + request(batch_of(b"x" * 50))[5:],
        raw(b"\x01\x04"),
        raw(batch_of(b"x" * 50)[:-1] + b"yz"),
        raw(b"\x33\x84" + batch_of(b"x" * 40)[2:]),
        raw(b"\x81\x80\x80\x00" + b"\x04"),
    ],
)
def test_whatever_is_not_plain_ends_the_run(other: bytes, place: int) -> None:
    plain = [request(batch_of(b"p" * 50), n) for n in range(20)]
    plain[place] = other
    run, answers, _ = find(b"".join(plain), max_bytes=120)
    assert run.batches == place
    assert answers == answers_to(*range(place))
    assert run.at == place * len(request(batch_of(b"p" * 50)))
    run.clear()
    assert (run.batches, run.batch_bytes, run.messages, run.slices(0, 0)) == (0, 0, 0, [])


def test_it_takes_no_more_than_it_may() -> None:
    data = b"".join(request(batch_of(b"x" * 10), n) for n in range(9))
    for most in range(10):
        run, answers, _ = find(data, most=most)
        assert (run.batches, answers) == (most, answers_to(*range(most)))


def test_several_clients_share_a_run() -> None:
    """As they share a buffer: what one does not keep is overwritten by the next."""
    run = ProduceRun()
    buffer = bytearray(10_000)
    view = memoryview(buffer)
    batches = [batch_of(b"%d" % n * (n + 1)) for n in range(12)]
    at = 0
    for n in range(0, 12, 3):
        data = b"".join(request(batch, 50) for batch in batches[n : n + 3])
        buffer[at : at + len(data)] = data
        assert run.find(buffer, view, at, at + len(data), PREFIX, 100, LARGE) == answers_to(50, 50, 50)
        assert run.at == at + len(data)
        at = run.kept
    assert stored(run) == b"".join(batches)
    assert run.records(0, 1, 0, LARGE, 100, 6, 4, 7, 1) == expected_records(batches, 1, 0, 6, 4)


@pytest.mark.parametrize("sizes", [(10, 100), (100, 3000, 10), (3000, 20_000), (5, 2500, 20_000, 40)])
def test_runs_of_several_partitions_share_a_buffer(sizes: tuple[int, ...]) -> None:
    """As a client fills it that takes turns over them: none touches what another one has found."""
    prefixes = [PREFIX[:-2] + bytes((number, 0)) for number in range(3)]
    batches = [batch_of(b"%02d" % n * (sizes[n % len(sizes)] // 2), time=n) for n in range(40)]
    frames = [
        b"".join(frame(1, [b"\2\0" + n.to_bytes(4, "little"), prefixes[n * n % 3], batch]))
        for n, batch in enumerate(batches)
    ]
    buffer = bytearray(b"".join(frames))
    view, at = memoryview(buffer), 0
    runs = [ProduceRun() for _ in prefixes]
    for n, one in enumerate(frames):
        run = runs[n * n % 3]
        assert run.find(buffer, view, at, len(buffer), prefixes[n * n % 3], 1, LARGE) == answers_to(n)
        assert run.kept <= run.at == at + len(one)
        at = run.at
    for number, run in enumerate(runs):
        mine = [batch for n, batch in enumerate(batches) if n * n % 3 == number]
        assert stored(run) == b"".join(mine)
        assert run.records(0, 1, 0, LARGE, 1000, 6, 4, 7, 1) == expected_records(mine, 1, 0, 6, 4)
        for start in range(len(mine) + 1):
            assert b"".join(run.slices(start, len(mine))) == b"".join(mine[start:])
            assert b"".join(run.slices(0, start)) == b"".join(mine[:start])


def test_records_end_where_a_segment_does() -> None:
    batches = [batch_of(b"x" * size) for size in (10, 20, 30, 40)]
    run, _, _ = find(b"".join(request(batch) for batch in batches))
    records = expected_records(batches, 1, 0, 6, 0)
    ends = [sum(map(len, batches[: n + 1])) for n in range(4)]
    for room in range(ends[-1] + 2):
        whole = sum(end <= room for end in ends)
        assert run.records(0, 1, 0, room, 100, 6, 0, 7, 1) == records[: whole * RECORD_BYTES]
    for most in range(5):
        assert run.records(0, 1, 0, LARGE, most, 6, 0, 7, 1) == records[: most * RECORD_BYTES]
    rest = expected_records(batches[2:], 9, 1, 6, 8)
    assert run.records(2, 9, 1, LARGE, 100, 6, 8, 7, 1) == rest
    assert b"".join(run.slices(2, 4)) == b"".join(batches[2:])
    assert b"".join(run.slices(1, 2)) == batches[1]


def test_answers_can_be_turned_into_errors() -> None:
    assert failed(answers_to(7, 8), 0xFF) == answers_to(7)[:9] + b"\xff" + answers_to(8)[:9] + b"\xff"


def test_wrong_places_are_refused() -> None:
    data = request(batch_of(b"x"))
    run, _, buffer = find(data)
    view = memoryview(buffer)
    with pytest.raises(ValueError, match="another buffer"):
        run.find(buffer, view, 0, 1, PREFIX, 1, LARGE)
    for start, stop in ((-1, 1), (0, 2), (1, 0)):
        with pytest.raises(ValueError, match="batches"):
            run.slices(start, stop)
    for start in (-1, 2):
        with pytest.raises(ValueError, match="batch"):
            run.records(start, 1, 0, LARGE, 1, 0, 0, 0, 0)
    run.clear()
    for at, end in ((-1, 5), (5, 4), (0, len(buffer) + 1)):
        with pytest.raises(ValueError, match="outside the buffer"):
            run.find(buffer, view, at, end, PREFIX, 1, LARGE)


@given(
    values=st.lists(st.binary(max_size=40), min_size=1, max_size=20),
    repeats=st.integers(1, 6),
    changes=st.lists(st.tuples(st.integers(0, 600), st.integers(0, 255)), max_size=3),
    cut=st.integers(0, 30),
)
def test_every_kernel_finds_the_same_in_hostile_bytes(
    values: list[bytes], repeats: int, changes: list[tuple[int, int]], cut: int
) -> None:
    data = bytearray(b"".join(request(batch_of(*values), n) for n in range(repeats)))
    del data[len(data) - cut :]
    for at, byte in changes:
        if at < len(data):
            data[at] = byte
    runs = [find(bytes(data)) for _ in range(1)]
    for pair in kernel.PAIRS:
        if pair.plain.__name__ == "ProduceRun":
            for made in (pair.plain(), pair.compiled()):
                buffer = bytearray(data)
                answers = made.find(buffer, memoryview(buffer), 0, len(buffer), PREFIX, 1000, LARGE)
                runs.append((made, answers, buffer))
    seen = {
        (run.at, answers, run.batches, run.messages, stored(run), run.records(0, 1, 0, LARGE, 99, 6, 4, 7, 1))
        for run, answers, _ in runs
    }
    assert len(seen) == 1
    check_against_the_full_decoder(bytes(data), runs[0][0])


def check_against_the_full_decoder(data: bytes, run: ProduceRun) -> None:
    """Each request that was taken is one that `bundle.validate` takes, with the bytes that were stored."""
    at, batches = 0, []
    while at < run.at:
        length = int.from_bytes(data[at + 1 : at + 5], "little")
        decoded = ProduceRequest.decode(data[at + 5 : at + 5 + length])
        ((topic,),) = (decoded.topics,)
        (entry,) = topic.partitions
        assert data[at + BEFORE_PREFIX :].startswith(PREFIX)
        batches.append(bytes(entry.bundle))
        try:
            assert not bundle.validate(memoryview(batches[-1])).sparse
        except InvalidBundle as error:
            raise AssertionError("a bad bundle was taken") from error
        at += 5 + length
    assert b"".join(batches) == stored(run)
    assert array("Q", [run.batches, run.batch_bytes]) == array("Q", [len(batches), sum(map(len, batches))])


@pytest.mark.parametrize("count", [1, 2, 9, 40])
@pytest.mark.parametrize("walks", [False, True])
@pytest.mark.parametrize("times", [1, 3])
def test_one_whose_lengths_lie_ends_a_run_that_walks(count: int, walks: bool, times: int) -> None:
    """Among those of its shape, wherever it stands."""
    for values in ([b"x" * 40], [b"x" * 18, b"y" * 18]):
        for place in range(count):
            batches = [batch_of(*values, time=5 + n % times) for n in range(count)]
            lying = bytearray(batches[place])
            lying[11] -= 1  # the first content's length
            batches[place] = bytes(lying)
            run = ProduceRun()
            run.walks = walks
            buffer = bytearray(b"".join(map(request, batches)))
            run.find(buffer, memoryview(buffer), 0, len(buffer), PREFIX, 1000, LARGE)
            assert run.batches == (place if walks else count)
            assert stored(run) == b"".join(batches[: run.batches])
