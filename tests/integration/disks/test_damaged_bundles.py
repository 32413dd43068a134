"""A bundle whose counts lie among good ones, as a foreign broker or one that does not check stores it."""

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_cli.shell.exit_codes import ExitCode
from tank_client.errors import CorruptBundle, InvalidArgument
from tank_client.settings import ConsumerSettings, DamagedPolicy
from tank_client.sync import Client
from tank_protos import bundle
from tank_protos.generated.tank import ProducePartition, ProduceRequest, ProduceTopic
from tests.support.clients.raw_client import RawConnection
from tests.support.nodes.served_node import ServedNode
from tests.support.patience import patient

pytestmark = pytest.mark.integration


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    """A topic `a` with the messages 1 and 2, a bundle that says 3 to 5 and has two, and 6 and 7."""
    with ServedNode(tmp_path / "data") as node:
        pairs = {"validate_bundles": "false", "flush": "replicated"}
        node.on_loop(lambda: node.controller.add("a", 1, **pairs))
        lying = b"\x0c" + bundle.encode([b"x" * 20, b"y"], timestamps=1)[1:]
        good = [bundle.encode([b"%d" % n, b"%d" % (n + 1)], timestamps=1) for n in (1, 6)]
        with RawConnection(node.port) as client:
            for content in (good[0], lying, good[1]):
                entry = ProducePartition(0, memoryview(bundle.as_batch(content)))
                request = ProduceRequest(2, 1, "", 0, 0, [ProduceTopic("a", [entry])])
                assert client.ask(1, request.encode())[-1] == 0
        yield f"127.0.0.1:{node.port}"


def test_what_stands_before_it_is_delivered_then_its_numbers_are_named(servers: str) -> None:
    with Client(servers) as client, client.consumer("a", stop_at_end=True) as consumer:
        batch = next(iter(consumer))
        assert batch.values == [b"1", b"2"]
        for _ in range(2):  # until it seeks, however often it is asked
            with pytest.raises(CorruptBundle, match="numbers 3 to 5") as caught:
                consumer.poll(1_000)
            assert (caught.value.number, caught.value.last) == (3, 5)
        assert consumer.position("a", 0) == 3
        consumer.seek("a", 0, 6)
        assert next(iter(consumer)).values == [b"6", b"7"]
        assert consumer.poll(1_000) is None


def test_message_by_message_it_is_the_same(servers: str) -> None:
    with Client(servers) as client, client.consumer("a", stop_at_end=True) as consumer:
        found = []
        with pytest.raises(CorruptBundle, match="numbers 3 to 5"):
            found.extend([message.value for message in consumer.messages()])
            pytest.fail("the end came without a word")
        assert consumer.position("a", 0) == 3


@pytest.mark.parametrize("damaged", ["skip", DamagedPolicy.SKIP])
def test_where_told_to_a_consumer_goes_on_behind_it(
    servers: str, damaged: DamagedPolicy, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ConsumerSettings(damaged=damaged)
    with (
        caplog.at_level(logging.WARNING),
        Client(servers) as client,
        client.consumer("a", stop_at_end=True, settings=settings) as consumer,
    ):
        found = [message.sequence_number for message in consumer.messages()]
        assert found == [1, 2, 6, 7]
    assert "numbers 3 to 5" in caplog.text


def test_arrow_columns_hold_what_stands_before_it_too(servers: str) -> None:
    with Client(servers) as client, client.consumer("a", stop_at_end=True) as consumer:
        (batch,) = next(iter(consumer)).to_arrow()
        assert batch.column("offset").to_pylist() == [1, 2]
        with pytest.raises(CorruptBundle):
            consumer.poll(1_000)


def test_another_word_for_it_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="'error' or 'skip'"):
        ConsumerSettings(damaged="yes")  # type: ignore[arg-type]


def test_the_command_shows_what_stands_before_it_and_goes_on_where_told_to(servers: str) -> None:
    command = [sys.executable, "-m", "tank_cli", "consume", "a", "--servers", servers]
    limit_s = patient(60)
    stopped = subprocess.run(command, capture_output=True, timeout=limit_s, check=False)
    assert stopped.stdout == b"1\n2\n"
    assert stopped.returncode == ExitCode.DAMAGED
    assert b"numbers 3 to 5" in stopped.stderr
    went_on = subprocess.run([*command, "--skip-damaged"], capture_output=True, timeout=limit_s, check=True)
    assert went_on.stdout == b"1\n2\n6\n7\n"
    assert b"numbers 3 to 5" in went_on.stderr


def test_verify_decodes_contents_where_asked(servers: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tank_cli", "log", "verify", str(tmp_path / "data")]
    limit_s = patient(60)
    subprocess.run(command, capture_output=True, timeout=limit_s, check=True)
    found = subprocess.run([*command, "--contents"], capture_output=True, timeout=limit_s, check=False)
    assert found.returncode == ExitCode.DAMAGED
    assert b"the messages 3 to 5 cannot be read" in found.stderr
