"""The load generator can be trusted: its frames are those of the captures, it reads back every byte that it
wrote, and it notices a broker that lies."""

import json
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness.load_generator import LOAD, ROOT, LoadFailed, build, missing_tool, run_load
from benchmarks.harness.servers import Kernel, Running, Server, ceiling, ours, running
from tests.support import kernels
from tests.support.patience import patient
from tests.support.processes.lying_proxy import Lie, lying_proxy

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(
        missing_tool() is not None, reason=f"the load generator is C, and there is no {missing_tool()}"
    ),
]

GOLDEN = Path(__file__).parents[2] / "golden" / "tank"
SHORT = f"-w {patient(0.05)} -T {patient(0.15)} -L 32"
PRODUCED = [
    "produce --check -c 1 -d 1 -m 1",
    "produce --check -c 8 -d 64 -m 10 -P 4",
    "produce --check -c 64 -d 1 -P 7",
    "produce --check -c 3 -d 7 -P 5 -m 100",
    "produce --check -c 8 -d 8 -s 65000",
    "produce --check -c 2 -d 3 -s 300000 -P 2",
    "produce --check -c 8 -d 64 -s 16 --repeated",
    "produce -s 0",
    "paced --check -c 5 -P 3 -m 2 -r 5000",
    "tail -P 3 -c 4 -m 2 -r 5000",
    "tail -r 100 -s 5000",
]
CONSUMED = [
    "-f 65536 -c 2", "-f 1000000 --bytes-only", "--check -c 2", "--once --check -c 2", "-f 10",
    "-n 150 --once -f 100",
]  # fmt: skip
LIES_TOPIC = "lies"
PRODUCE, CONSUME = 1, 2
# Of a Consume's answer for one partition: frame, length of the header, request, topics, name, partitions,
# partition; then comes the error flag, then the first number.
FLAG_AT = 5 + 4 + 4 + 1 + 1 + len(LIES_TOPIC) + 1 + 2
FIRST_NUMBER = struct.Struct("<Q")
LONGER_THAN_AN_EMPTY_ANSWER = 80
MESSAGE_BYTES = 92


@pytest.fixture(scope="module", autouse=True)
def built() -> None:
    build()


AT_ONCE = 6
BUILD_AND_RUN = (
    "import subprocess, sys; from pathlib import Path; from benchmarks.harness.load_generator import build;"
    "into = Path(sys.argv[1]); build(into);"
    "[subprocess.run([into / 'tankceil', '-h'], capture_output=True) for _ in range(200)]"
)


def test_processes_that_build_at_once_can_all_run_what_they_built(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILD_AND_RUN, str(tmp_path)]
    builders = [subprocess.Popen(command, cwd=ROOT) for _ in range(AT_ONCE)]
    assert [builder.wait(patient(60.0)) for builder in builders] == [0] * AT_ONCE


BROKERS = [
    *((ceiling(), options) for options in ((), ("--raw",), ("--fsync", "group"))),
    *((ours(Kernel(name)), ()) for name in kernels.NAMES),
]


def test_its_frames_are_those_of_the_captures() -> None:
    captured = {
        frame["name"]: frame["hex"]
        for path in GOLDEN.glob("*.json")
        for frame in json.loads(path.read_text())["frames"]
    }
    printed = subprocess.run([LOAD, "frames"], capture_output=True, text=True, check=True).stdout.split()
    frames = dict(zip(printed[::2], printed[1::2], strict=True))
    assert len(frames) >= 16
    assert frames == {name: captured[name] for name in frames}


@pytest.fixture(scope="module")
def honest(built: None) -> Iterator[Running]:
    with running(ceiling()) as broker:
        yield broker


@pytest.mark.parametrize(
    ("server", "options"), BROKERS, ids=[" ".join((server.name, *options)) for server, options in BROKERS]
)
def test_every_mode_reads_back_what_it_wrote(server: Server, options: tuple[str, ...]) -> None:
    with running(server, *options) as broker:
        for number, load in enumerate(PRODUCED):
            run = run_load(f"{load} -C -t made-{number} {SHORT}", broker.port, broker.pid)
            checks = "--check" in load or "tail" in load
            # On a busy machine a reader that tails gets too little behind its warm-up to be counted.
            assert run.messages_s > 0 or "tail" in load, load
            assert (run.checked > 0) == checks, load
        run_load(f"produce -c 4 -d 8 -m 100 -P 2 -C -t read {SHORT}", broker.port, broker.pid)
        for load in CONSUMED:
            run = run_load(f"consume -P 2 {load} -t read {SHORT}", broker.port, broker.pid)
            assert run.messages_s > 0, load
            assert (run.checked > 0) == ("--check" in load), load


def test_it_counts_the_time_of_the_process_that_it_is_told(honest: Running) -> None:
    with subprocess.Popen(["sleep", "60"]) as idle:
        time.sleep(0.1)  # it has begun to sleep
        other = run_load(f"produce -C -d 8 {SHORT}", honest.port, idle.pid)
        idle.kill()
    broker = run_load(f"produce -C -d 8 {SHORT}", honest.port, honest.pid)
    assert broker.server_us > 0 == other.server_us


def altered(message: int, at: int, by: int) -> Lie:
    """Adds `by` to byte `at` (from the end if negative) of the frames with that id."""

    def lie(frame: bytes) -> bytes:
        empty = message == CONSUME and len(frame) < LONGER_THAN_AN_EMPTY_ANSWER
        if frame[0] != message or empty:
            return frame
        changed = bytearray(frame)
        changed[at] = (changed[at] + by) % 256
        return bytes(changed)

    return lie


def moved(by: int) -> Lie:
    """Adds `by` to the first number of a Consume's answer, where that leaves a number that there is."""

    def lie(frame: bytes) -> bytes:
        if frame[0] != CONSUME or len(frame) < LONGER_THAN_AN_EMPTY_ANSWER:
            return frame
        (first,) = FIRST_NUMBER.unpack_from(frame, FLAG_AT + 1)
        if first + by < 1:
            return frame
        changed = bytearray(frame)
        FIRST_NUMBER.pack_into(changed, FLAG_AT + 1, first + by)
        return bytes(changed)

    return lie


def repeated(frame: bytes) -> bytes:
    return frame * 2 if frame[0] == PRODUCE else frame


class ClosesLater:
    """Ends the connection instead of passing the hundredth acknowledgement on."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, frame: bytes) -> bytes:
        self.seen += frame[0] == PRODUCE
        return b"" if self.seen >= 100 else frame


LIES: list[tuple[str, Lie, str]] = [
    ("an error in an acknowledgement", altered(PRODUCE, 9, 4), "error 0x04"),
    ("a wrong request id", altered(PRODUCE, 5, 1), "not under way"),
    ("an acknowledgement twice", repeated, "not under way"),
    ("a closed connection", ClosesLater(), "closed|reset|Broken pipe"),
    ("a flipped byte in a message", altered(CONSUME, -1, 1), "wrong content"),
    ("a message lost", altered(CONSUME, -MESSAGE_BYTES, 1), "was expected"),
    ("a number that is skipped", moved(1), "gap"),
    ("numbers that were read before", moved(-2), "read before"),
    ("an error flag", altered(CONSUME, FLAG_AT, 0xFB), "error flag 0xfb"),
]


@pytest.mark.parametrize(("lie", "noticed"), [lie[1:] for lie in LIES], ids=[lie[0] for lie in LIES])
def test_it_notices(lie: Lie, noticed: str, honest: Running) -> None:
    load = f"produce --check -d 4 -s {MESSAGE_BYTES} -C -t {LIES_TOPIC} {SHORT}"
    with lying_proxy(honest.port, lie) as port, pytest.raises(LoadFailed, match=noticed):
        run_load(load, port, honest.pid)
