"""The raw loads of Iggy's protocol: they count what was stored and read, and notice a broker that refuses."""

import os
from collections.abc import Iterator

import pytest

from benchmarks.harness.iggy_frames import (
    IggyConnection,
    messages_in,
    poll_frame,
    run_frames,
    run_paced,
    send_frame,
)
from benchmarks.harness.load_generator import LoadFailed
from benchmarks.harness.servers import Kernel, free_port, ours, running
from tank_protos.iggy import classic, send, sent_messages
from tank_protos.iggy.eras import B3
from tank_protos.kafka import record_batch
from tests.support.patience import patient
from tests.support.waiting import until


@pytest.fixture
def address() -> Iterator[str]:
    """Of a broker for Iggy's clients, with a topic."""
    address = f"127.0.0.1:{free_port()}"

    def is_ready() -> bool:
        connection = IggyConnection(address)
        try:
            connection.login()
            connection.create("some")
        except LoadFailed:
            return False
        finally:
            connection.close()
        return True

    with running(ours(Kernel.PURE), "--iggy", address, "--flush", "replicated"):
        until(is_ready, "no client can log in")
        yield address


def stored(address: str) -> int:
    """How many messages can be polled; fewer than 1,000 of them."""
    connection = IggyConnection(address)
    connection.login()
    try:
        return messages_in(connection.ask(poll_frame("some", 0, 1_000)))
    finally:
        connection.close()


def test_a_send_has_the_wanted_messages() -> None:
    payload = classic.read_request(send_frame("some", 7, 100)).payload
    batch = sent_messages.record_batch(send.read(payload, B3), B3, 0)
    header = record_batch.check(memoryview(batch))
    assert header.records_count == 7
    assert header.max_timestamp_ms > 0


@pytest.mark.integration
def test_what_is_counted_was_stored(address: str) -> None:
    frames = [send_frame("some", 3, 10)]
    done = run_frames(address, os.getpid(), frames, connections=4, seconds=patient(1), most=20)
    assert 20 <= done.requests <= 24
    assert 3 * done.requests <= stored(address) <= 3 * (done.requests + 4)
    poll = poll_frame("some", 5, 10)
    assert run_frames(address, os.getpid(), [poll], connections=2, seconds=9, most=7).requests >= 7


@pytest.mark.integration
def test_a_refused_request_ends_the_load(address: str) -> None:
    with pytest.raises(LoadFailed, match="error 2011"):
        run_frames(address, os.getpid(), [send_frame("none", 1, 1)], connections=1, seconds=patient(5))


@pytest.mark.integration
def test_a_steady_rate_has_a_time_for_each_message(address: str) -> None:
    times = run_paced(address, send_frame("some", 1, 10), rate=50, seconds=0.4)
    assert len(times) == stored(address) == 20
    assert all(each > 0 for each in times)
