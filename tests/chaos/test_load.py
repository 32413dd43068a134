"""A client that meets what no fault explains says so: such a run fails. Against a broker that plays it."""

import asyncio
import threading
from pathlib import Path

import pytest

from tank_protos.bundle import as_batch, encode
from tank_protos.error_codes import ConsumeFlag, ErrorCode, ProduceError
from tank_protos.generated import tank
from tests.chaos.load import TOPICS, Load, keep, places, read, write, write_last
from tests.chaos.raw_clients import OLD_CLIENT, SERVERS_VERSION
from tests.chaos.raw_readers import RawReader
from tests.chaos.raw_writers import RawWriter
from tests.chaos.record import Fate
from tests.chaos.record import read as history_of
from tests.support.clients.scripted_broker import Fate as Served
from tests.support.clients.scripted_broker import Moment, ScriptedBroker
from tests.support.waiting import comes, run

RATE = 200.0
PARTITIONS = {"disk": TOPICS["disk"]}


def load(broker: ScriptedBroker, folder: Path) -> Load:
    return Load(broker.address, folder, RATE, seed=1)


def test_a_producer_whose_sequence_was_forgotten_is_broken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics=PARTITIONS) as broker:
            broker.script = lambda moment: (
                ErrorCode.OUT_OF_ORDER_SEQUENCE
                if isinstance(moment.request, tank.IdempotentProduceRequest)
                else Served.SERVE
            )
            its = load(broker, tmp_path)
            await write(its, "disk", 0)
            assert its.broken
            assert its.broken[0].startswith("disk-writer-0: OutOfOrderSequence: ")

    run(scenario())


def test_a_consumer_that_is_told_out_of_bounds_is_broken(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics=PARTITIONS) as broker:
            its = load(broker, tmp_path)
            reading = asyncio.create_task(read(its, "reader", "disk"))
            writing = asyncio.create_task(write(its, "disk", 0))
            await comes(lambda: all(its.seen[place] for place in places(["disk"])))
            its.stopping.set()
            await writing
            log = broker.topics["disk"][0]
            log.first_available = 1_000_000
            broker.append("disk", 0, log.batches[-1][2])
            await reading
            assert [line.split(": ")[:2] for line in its.broken] == [["reader", "OutOfBounds"]]
            assert not history_of([tmp_path / "reader.jsonl"]).through

    run(scenario())


@pytest.mark.thorough
def test_a_reader_reads_on_until_nothing_more_comes(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics=PARTITIONS) as broker:
            its = load(broker, tmp_path)
            writing = asyncio.create_task(write(its, "disk", 0))
            await comes(lambda: all(its.stored[place] for place in places(["disk"])))
            its.stopping.set()
            await writing
            its.written.set()
            await read(its, "reader", "disk")
            assert its.broken == []
            assert all(its.seen[place] == its.stored[place] for place in places(["disk"]))
            assert history_of([tmp_path / "reader.jsonl"]).through == {"reader": places(["disk"])}

    run(scenario())


def test_each_partition_gets_a_last_value(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics=TOPICS) as broker:
            await write_last(load(broker, tmp_path))
            assert all(log.last == 1 for logs in broker.topics.values() for log in logs)

    run(scenario())
    assert history_of([tmp_path / "last-writer.jsonl"]).stored() == len(places(TOPICS))


def written_raw(broker_error: ProduceError, folder: Path) -> tuple[RawWriter, list[Fate]]:
    """A writer whose second request is answered so, and the fates of its values."""

    async def scenario() -> RawWriter:
        async with ScriptedBroker(topics={"raw": 1}) as broker:

            def script(moment: Moment) -> Served | int:
                return broker_error if moment.index == 1 else Served.SERVE

            broker.script = script
            its = load(broker, folder)
            writer = RawWriter(
                "raw-0",
                ("raw", 0),
                [("127.0.0.1", broker.port)],
                its.recorder("raw"),
                RATE,
                SERVERS_VERSION,
                1,
            )
            writer.start()
            await comes(lambda: len(broker.requests) >= 5 or not writer.is_alive())
            writer.stopping.set()
            await asyncio.to_thread(writer.join)
            writer.recorder.close()
            return writer

    writer = run(scenario())
    return writer, [sent.fate for sent in history_of([folder / "raw.jsonl"]).sent.values()]


def test_a_raw_writer_goes_on_after_what_a_fault_explains(tmp_path: Path) -> None:
    writer, fates = written_raw(ProduceError.NO_LEADER, tmp_path)
    assert writer.failure is None
    assert set(fates) == {Fate.STORED, Fate.REFUSED}


def test_a_raw_writer_ends_at_an_answer_that_no_fault_explains(tmp_path: Path) -> None:
    writer, fates = written_raw(ProduceError.READ_ONLY, tmp_path)
    assert "error 0xfe" in str(writer.failure)
    assert set(fates) == {Fate.STORED, Fate.UNKNOWN}


def test_a_groups_positions_are_kept_and_asked_for(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics=PARTITIONS) as broker:
            its = load(broker, tmp_path)
            keeping = asyncio.create_task(keep(its, "disk"))
            await comes(lambda: its.kept["disk"] > 5)
            its.stopping.set()
            await keeping
            assert not its.broken

    run(scenario())
    told = history_of([tmp_path / "disk-keeper.jsonl"]).positions["disk-keeper"]
    asked = [one.number for one in told if one.found]
    assert {one.place for one in told} == set(places(["disk"]))
    assert len(asked) >= 2 * TOPICS["disk"]
    assert asked == sorted(asked)
    assert asked[-1] == max(one.number for one in told)


def read_raw(folder: Path, version: int, flag: ConsumeFlag) -> RawReader:
    """A reader of three bundles whose second request is answered so."""

    async def scenario() -> RawReader:
        async with ScriptedBroker(topics={"raw": 1}) as broker:
            for number in range(3):
                broker.append("raw", 0, bytes(as_batch(encode([b"%d" % number], timestamps=1))))

            def script(moment: Moment) -> Served | int:
                return flag if moment.index == 1 else Served.SERVE

            broker.script = script
            written = threading.Event()
            written.set()
            its = load(broker, folder)
            servers = [("127.0.0.1", broker.port)]
            reader = RawReader(
                "raw", ("raw", 0), servers, its.recorder("raw"), version, 1, written, end_of_log=2
            )
            reader.start()
            await asyncio.to_thread(reader.join)
            reader.recorder.close()
            return reader

    return run(scenario())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("version", "flag"),
    [(OLD_CLIENT, ConsumeFlag.UNKNOWN_PARTITION), (SERVERS_VERSION, ConsumeFlag.NO_LEADER)],
)
def test_a_raw_reader_reads_all_over_a_change_of_leaders(
    tmp_path: Path, version: int, flag: ConsumeFlag
) -> None:
    reader = read_raw(tmp_path, version, flag)
    assert reader.failure is None
    history = history_of([tmp_path / "raw.jsonl"])
    assert [number for number, _ in history.seen["raw"]["raw", 0]] == [1, 2, 3]
    assert history.through == {"raw": [("raw", 0)]}


@pytest.mark.parametrize("flag", [ConsumeFlag.NOT_OPENED, ConsumeFlag.NO_LEADER])
def test_a_raw_reader_of_the_old_document_ends_at_a_flag_that_it_lacks(
    tmp_path: Path, flag: ConsumeFlag
) -> None:
    reader = read_raw(tmp_path, OLD_CLIENT, flag)
    assert f"an old client was told 0x{flag:02x}" in str(reader.failure)


def test_a_raw_reader_ends_when_it_is_told_out_of_bounds(tmp_path: Path) -> None:
    reader = read_raw(tmp_path, SERVERS_VERSION, ConsumeFlag.OUT_OF_BOUNDS)
    assert "flag 0x01" in str(reader.failure)
    assert history_of([tmp_path / "raw.jsonl"]).through == {}
