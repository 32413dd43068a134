"""The raw load of Kafka's protocol: it counts what was stored, and notices a broker that refuses."""

import os
from collections.abc import Iterator

import pytest

from benchmarks.harness.kafka_frames import batch_of, fetch_frame, produce_frame, run_frames
from benchmarks.harness.load_generator import LoadFailed
from benchmarks.harness.servers import Kernel, free_port, ours, running
from tank_client.sync import Client
from tank_protos.kafka import record_batch
from tests.support.patience import patient

SETTINGS = {"log.format": "kafka", "flush": "replicated"}


@pytest.fixture
def broker() -> Iterator[tuple[str, Client]]:
    """Its address for Kafka clients, and a client of its own."""
    address = f"127.0.0.1:{free_port()}"
    with (
        running(ours(Kernel.PURE), "--kafka", address) as broker,
        Client(f"127.0.0.1:{broker.port}") as client,
    ):
        client.admin.create_topic("some", 2, 1, SETTINGS)
        yield address, client


def test_a_batch_has_the_wanted_records() -> None:
    header = record_batch.check(memoryview(batch_of(7, 100)))
    assert header.records_count == 7
    assert header.max_timestamp_ms > 0


@pytest.mark.integration
def test_what_is_counted_was_stored(broker: tuple[str, Client]) -> None:
    address, client = broker
    frames = [produce_frame("some", number, batch_of(3, 10)) for number in range(2)]
    done = run_frames(address, os.getpid(), frames, connections=4, depth=3, seconds=patient(1))
    stored = sum(ends.high_water_mark for ends in client.admin.ends("some").values())
    assert 0 < 3 * done.requests <= stored <= 3 * (done.requests + 4 * 3)
    assert done.seconds >= patient(1)


@pytest.mark.integration
def test_a_refused_batch_ends_the_load(broker: tuple[str, Client]) -> None:
    address, _ = broker
    frame = produce_frame("some", 0, batch_of(1, 10)[:-1] + b"?")
    with pytest.raises(LoadFailed, match="error 2"):
        run_frames(address, os.getpid(), [frame], connections=1, depth=1, seconds=patient(5))


@pytest.mark.integration
def test_a_stored_batch_is_fetched_again_and_again(broker: tuple[str, Client]) -> None:
    address, _ = broker
    run_frames(
        address, os.getpid(), [produce_frame("some", 0, batch_of(1, 10))], connections=1, depth=1,
        seconds=patient(0.2),
    )  # fmt: skip
    frame = fetch_frame("some", 0, 0)
    assert (
        run_frames(address, os.getpid(), [frame], connections=3, depth=1, seconds=patient(0.5)).requests > 3
    )


@pytest.mark.integration
def test_a_refused_fetch_ends_the_load(broker: tuple[str, Client]) -> None:
    address, _ = broker
    with pytest.raises(LoadFailed, match=r"error 1$"):
        frame = fetch_frame("some", 0, 1_000_000)
        run_frames(address, os.getpid(), [frame], connections=1, depth=1, seconds=patient(5))
