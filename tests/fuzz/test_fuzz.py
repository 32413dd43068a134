"""The fuzzer's short form, and that the fuzzer itself notices what it should."""

import os
import re
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tank_protos import bundle, kernel
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceTopic
from tank_protos.wire.framing import frame
from tests.fuzz import live_target, mutate, run, sanitized, seeds, twin_target
from tests.support.clients.raw_client import RawConnection

LAST_LINE = re.compile(r"([0-9,]+) frames, ([0-9]+) failures\n$")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("target", "frames"),
    [
        ("messages", 10_000),
        ("flexible", 3_000),
        ("kafka", 3_000),
        ("batches", 6_000),
        ("chunks", 1_500),
        ("kafka records", 6_000),
        ("sessions", 4_500),
        ("forward", 8_000),
        ("pushes", 2_400),
        ("kafka sessions", 2_000),
        ("iggy classic sessions", 6_000),
        ("iggy framed sessions", 6_000),
        ("iggy", 4_000),
        ("iggy messages", 3_000),
    ],
)
def test_bad_input_is_refused(target: str, frames: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--target", target, "--frames", str(frames)]) == 0
    found = LAST_LINE.search(capsys.readouterr().out)
    assert found is not None
    assert int(found.group(1).replace(",", "")) >= frames


@pytest.mark.integration
def test_a_live_broker_serves_on_and_counts(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--target", "live", "--frames", "3000"]) == 0
    output = capsys.readouterr().out
    for reason in ("truncated", "trailing_bytes", "unknown_message", "invalid_bundle"):
        assert re.search(rf"\b{reason} [1-9]", output), output


@pytest.mark.integration
def test_a_live_broker_serves_on_beside_bad_kafka_clients(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--target", "kafka live", "--frames", "8000"]) == 0
    output = capsys.readouterr().out
    for reason in ("truncated", "trailing_bytes", "unknown_request", "invalid_frame_size", "invalid_records"):
        assert re.search(rf"\b{reason} [1-9]", output), output


@pytest.mark.integration
def test_a_live_broker_serves_on_beside_bad_iggy_clients(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["--target", "iggy live", "--frames", "3000"]) == 0
    output = capsys.readouterr().out
    for reason in ("truncated", "trailing_bytes", "no_iggy_client", "out_of_range"):
        assert re.search(rf"\b{reason} [1-9]", output), output


def test_the_same_seed_makes_the_same_input() -> None:
    def made(seed: int) -> list[bytes]:
        chances = [run.chance_for("messages", seed, case) for case in range(50)]
        return [mutate.payload(chance, bytes(range(64)), b"other") for chance in chances]

    assert made(1) == made(1)
    assert made(1) != made(2)


def test_a_failure_says_how_to_replay_it(capsys: pytest.CaptureFixture[str]) -> None:
    def case(chance: Random) -> Counter[str] | None:
        if chance.random() == run.chance_for("messages", 7, 3).random():
            raise AssertionError("found")
        return None

    tally = run.drive("messages", case, iter(range(5)), 1, 7)
    assert (tally.frames, len(tally.failures)) == (5, 1)
    shown = capsys.readouterr().err
    assert "AssertionError: found" in shown
    command = f"TANK_KERNEL={kernel.NAME} python -m tests.fuzz.run --seed 7 --target messages --case 3"
    assert shown.endswith(f"replay: {command}\n")


def test_a_hang_is_a_failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(run, "CASE_TIMEOUT_S", 0.05)
    before = signal.signal(signal.SIGALRM, run.on_alarm)

    def case(chance: Random) -> Counter[str] | None:
        while True:
            pass

    try:
        tally = run.drive("messages", case, iter([0]), 1, 1)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert len(tally.failures) == 1
    assert "no end after 0.05 s" in capsys.readouterr().err


def test_every_compiled_function_is_compared_with_the_plain_one() -> None:
    names = {pair.plain.__name__ for pair in kernel.PAIRS}
    assert names <= set(twin_target.DRIVERS) | twin_target.ELSEWHERE, "a twin that the fuzzer does not know"


@pytest.mark.skipif(not kernel.PAIRS, reason="the compiled kernel is not built")
def test_compiled_functions_say_what_the_plain_ones_say() -> None:
    assert run.main(["--target", "twins", "--frames", "8000"]) == 0


def test_every_message_has_seeds() -> None:
    assert {seed.codec for seed in seeds.messages()} == set(seeds.codecs().values())


def test_a_machine_without_sanitizers_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert sanitized.main() == 2
    assert "libasan" in capsys.readouterr().err


@pytest.mark.integration
def test_a_bad_frame_does_not_spoil_the_good_one_before_it(tmp_path: Path) -> None:
    """In one tick: a good produce with a bad frame behind it, then another client's bytes.

    The first client's batch was overwritten in the shared buffer, after its checksum had been taken.
    """
    broker = live_target.LiveBroker(tmp_path)
    with broker.running():
        port = broker.process.port
        with RawConnection(port) as first, RawConnection(port) as second:
            os.kill(broker.process.pid, signal.SIGSTOP)  # so that both are ready in the same tick
            try:
                first.socket.sendall(_produce(0, b"a" * 1000) + b"\x63\0\0\0\0")
                second.socket.sendall(_produce(1, b"b" * 1000))
            finally:
                os.kill(broker.process.pid, signal.SIGCONT)
            second.receive()
            with pytest.raises(ConnectionError):
                while True:
                    first.receive()
        with RawConnection(port) as reader:
            assert broker.read(reader, 1, partition=0) == [b"a" * 1000]
            assert broker.read(reader, 1, partition=1) == [b"b" * 1000]


def _produce(partition: int, value: bytes) -> bytes:
    batch = bundle.as_batch(bundle.encode([value], timestamps=1))
    request = ProduceRequest(topics=[ProduceTopic(live_target.WITNESS, [ProducePartition(partition, batch)])])
    return b"".join(frame(request.ID, request.encode()))
