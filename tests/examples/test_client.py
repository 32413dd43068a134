"""The small programs of the client's guide, each run from its command line against a broker."""

import re
import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tank_client.sync import Client
from tests.support.nodes.served_node import ServedNode

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "client"

Run = Callable[..., list[str]]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[str]:
    with ServedNode(tmp_path / "data") as node:
        yield f"127.0.0.1:{node.port}"


@pytest.fixture
def run(servers: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a program by its name, with options; returns the lines that it printed."""

    def run_one(name: str, *options: str) -> list[str]:
        monkeypatch.setattr(sys, "argv", [name, "--servers", servers, *options])
        runpy.run_module(f"examples.client.{name}", run_name="__main__")
        return capsys.readouterr().out.splitlines()

    return run_one


def write_orders(servers: str) -> None:
    with Client(servers) as client:
        client.admin.create_topic("orders", partitions=4)
        with client.producer() as producer:
            for partition in range(4):
                producer.send("orders", b"tea %d" % partition, partition=partition)


def test_the_producer_learns_where_each_message_is(run: Run) -> None:
    said = run("producer")
    assert [line.partition(":")[0] for line in said] == [
        "kitchen 20.5",
        "bath 23.1",
        "kitchen 20.9",
        "garden 11.0",
    ]
    assert all(re.search(r": stored with the messages \d+ to \d+$", line) for line in said)


def test_workers_share_the_partitions_and_go_on_where_they_stopped(run: Run, servers: str) -> None:
    write_orders(servers)
    done = [line for line in run("workers", "--name", "ann") if "order tea" in line]
    assert sorted(done) == [f"ann: order tea {number} of partition {number}" for number in range(4)]
    assert not any("order tea" in line for line in run("workers", "--name", "bob"))


def test_orders_become_invoices_once(run: Run, servers: str) -> None:
    write_orders(servers)
    assert run("consume_transform_produce") == ["4 orders became invoices"]
    assert run("consume_transform_produce") == ["0 orders became invoices"]
    with Client(servers) as client:
        invoices = client.consumer("invoices", stop_at_end=True).messages()
        assert sorted(message.value or b"" for message in invoices) == [
            b"invoice for tea %d" % n for n in range(4)
        ]


def test_a_time_is_found(run: Run) -> None:
    assert run("seek_by_time") == [
        "since an hour ago: measured 30 minutes ago",
        "since an hour ago: measured 5 minutes ago",
        "since ten minutes ago: measured 5 minutes ago",
    ]


def test_each_failure_says_what_to_do(run: Run) -> None:
    created, wrong, unreachable = run("errors")
    assert created == "created the topic, and stored as number 1"
    assert wrong.startswith("wrong argument: ")
    assert unreachable.startswith("ServerUnreachable: retriable: no broker answers at 127.0.0.1:1 ")


def test_a_topic_is_managed(run: Run, servers: str) -> None:
    assert run("admin") == [
        "events: 2 partitions, {'log.retention.secs': '604800'}",
        "events: 3 partitions, kept for ever",
        "readers: 1 messages behind",
    ]
    with Client(servers) as client:
        assert "events" not in client.admin.partition_counts()


def test_the_guide_shows_each_program_as_it_is() -> None:
    guide = (ROOT / "docs" / "client.md").read_text()
    programs = {path.stem: path.read_text() for path in FOLDER.glob("*.py") if path.stem != "start"}
    shown = {}
    for section in guide.split("(../examples/client/")[1:]:
        name, _, rest = section.partition(".py)")
        shown[name] = rest.partition("```python\n")[2].partition("```")[0]
    assert shown.keys() == programs.keys()
    for name, code in shown.items():
        lines = {line.strip() for line in programs[name].splitlines()}
        assert code
        assert [line for line in code.splitlines() if line.strip() not in lines] == []
