"""`tank log dump|verify` over folders written here, batch by batch, and then broken."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tank_cli.main import main
from tank_cli.shell.exit_codes import ExitCode
from tank_cli.shell.shapes import SHAPES
from tank_node.log.recovery import checkpoint
from tank_node.log.recovery.checkpoint import CheckpointEntry
from tank_node.segment.record import (
    FORMAT_KAFKA,
    MARKER,
    RECORD_BYTES,
    SPARSE,
    TRANSACTIONAL,
    Record,
    read_record,
    sealed,
)
from tank_protos import bundle
from tank_protos.kafka import control_batch, record_batch
from tank_protos.kafka.codecs import KafkaCodec
from tank_protos.kafka.control_batch import ControlType, TransactionEnd
from tank_protos.kafka.records import KafkaRecord
from tests.support.clients.cli_shapes import assert_same_shape, parsed
from tests.support.values.kafka_records import changed

TIME_MS = 1_357_017_420_000


def tank(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["log", *arguments], prog_name="tank")


def write_segment(folder: Path, base: int, *batches: list[str]) -> None:
    """A segment as a broker writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    number, log, index = base, b"", b""
    for values in batches:
        content = bundle.as_batch(
            bundle.encode([value.encode() for value in values], timestamps=TIME_MS, keys=[b"k"] * len(values))
        )
        count = len(values)
        record = Record(
            number, count - 1, len(log), len(content), 0, TIME_MS, TIME_MS, 5, number, 1, 0, 0, 0, count
        )
        index += sealed(content, record).pack()
        log += content
        number += count
    (folder / f"{base:020d}.log").write_bytes(log)
    (folder / f"{base:020d}.index").write_bytes(index)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Topic 3: partition 0 with 1-2, 3-3 in one segment and 4-6 in the next; partition 1 with 1-1."""
    write_segment(tmp_path / "topics/3/0", 1, ["a", "b"], ["c"])
    write_segment(tmp_path / "topics/3/0", 4, ["d", "e", "f"])
    write_segment(tmp_path / "topics/3/1", 1, ["x"])
    return tmp_path


def segment(data: Path, suffix: str, base: int = 1) -> Path:
    return data / f"topics/3/0/{base:020d}.{suffix}"


def change(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x01
    path.write_bytes(content)


def test_whole_logs_are_fine(data: Path) -> None:
    ended = tank("verify", str(data))
    assert ended.exit_code == 0
    assert ended.stdout.splitlines() == [
        "PARTITION  SEGMENTS  BATCHES  MESSAGES  FIRST  LAST  SIZE  STATE",
        "#3/0              2        3         6      1     6  60 B  ok",
        "#3/1              1        1         1      1     1  15 B  ok",
    ]
    found = parsed(tank("verify", str(data), "--output", "json"))
    assert_same_shape(found, SHAPES["log verify"][0])
    assert found["ok"] is True


def test_the_folder_of_one_partition_will_do(data: Path) -> None:
    assert tank("verify", str(data / "topics/3/0")).exit_code == 0


@pytest.mark.parametrize("suffix", ["log", "index"])
def test_every_changed_byte_is_found(suffix: str, data: Path) -> None:
    path = segment(data, suffix)
    for place in range(path.stat().st_size):
        change(path, place)
        ended = tank("verify", str(data))
        assert ended.exit_code == ExitCode.DAMAGED, place
        assert "1 of 2 partitions are damaged (#3/0)" in ended.stderr
        change(path, place)
    assert tank("verify", str(data)).exit_code == 0


def test_what_is_damaged_is_named(data: Path) -> None:
    change(segment(data, "log"), 5)
    ended = tank("verify", str(data))
    assert "segment 00000000000000000001, batch 1 to 2: its checksum does not match" in ended.stderr
    (found, _) = json.loads(tank("verify", str(data), "-o", "json").stdout)["partitions"]
    assert len(found["problems"]) == 1


def test_a_missing_file_is_damage(data: Path) -> None:
    segment(data, "index").unlink()
    ended = tank("verify", str(data))
    assert ended.exit_code == ExitCode.DAMAGED
    assert "00000000000000000001.index is missing" in ended.stderr


def test_a_segment_whose_name_tells_of_more_before_it_is_damage(data: Path) -> None:
    write_segment(data / "topics/3/0", 9)
    assert tank("verify", str(data)).exit_code == 0, "a crash may leave an empty one"
    write_segment(data / "topics/3/0", 9, ["i"])
    ended = tank("verify", str(data))
    assert ended.exit_code == ExitCode.DAMAGED
    assert "the numbers 7 to 8 are missing" in ended.stderr


def test_a_segment_that_is_half_removed_is_no_damage(data: Path) -> None:
    index = segment(data, "index")
    index.rename(f"{index}.deleted")
    ended = tank("verify", str(data))
    assert ended.exit_code == 0
    assert ended.stdout.splitlines()[1].split()[:3] == ["#3/0", "1", "1"]


def test_an_end_that_a_crash_left_unfinished_is_no_damage(data: Path) -> None:
    log, index = segment(data, "log", 4), segment(data, "index", 4)
    log.write_bytes(log.read_bytes() + b"half a batch")
    index.write_bytes(index.read_bytes() + bytes(10))
    ended = tank("verify", str(data))
    assert ended.exit_code == 0
    assert "ok, 22 unfinished bytes" in ended.stdout


def test_a_last_batch_without_all_its_bytes_is_unfinished_unless_it_was_synced(data: Path) -> None:
    log = segment(data, "log", 4)
    log.write_bytes(log.read_bytes()[:-1])
    assert tank("verify", str(data)).exit_code == 0
    entry = CheckpointEntry(3, 0, 6, 6).pack()
    (data / "checkpoint").write_bytes(checkpoint.encode(False, [entry]))
    ended = tank("verify", str(data))
    assert ended.exit_code == ExitCode.DAMAGED
    assert "the log ends inside it" in ended.stderr


def test_a_log_that_ends_before_what_was_synced_is_damaged(data: Path) -> None:
    for suffix in ("log", "index"):
        segment(data, suffix, 4).unlink()
    (data / "checkpoint").write_bytes(checkpoint.encode(True, [CheckpointEntry(3, 0, 6, 6).pack()]))
    ended = tank("verify", str(data))
    assert ended.exit_code == ExitCode.DAMAGED
    assert "it ends at 3, though messages up to 6 were stored" in ended.stderr


def test_a_log_whose_newest_batches_were_compacted_away_ends_where_its_empty_segment_says(data: Path) -> None:
    segment(data, "log", 4).write_bytes(b"")
    segment(data, "index", 4).write_bytes(b"")
    write_segment(data / "topics/3/0", 7)
    (data / "checkpoint").write_bytes(checkpoint.encode(True, [CheckpointEntry(3, 0, 6, 6).pack()]))
    ended = tank("verify", str(data))
    assert ended.exit_code == 0, ended.stderr
    (data / "checkpoint").write_bytes(checkpoint.encode(True, [CheckpointEntry(3, 0, 7, 7).pack()]))
    assert "it ends at 6, though messages up to 7 were stored" in tank("verify", str(data)).stderr


def test_an_empty_segment_does_not_tell_of_an_end_that_the_one_before_has_lost(data: Path) -> None:
    for suffix in ("log", "index"):
        segment(data, suffix, 4).unlink()
    write_segment(data / "topics/3/0", 7)
    (data / "checkpoint").write_bytes(checkpoint.encode(True, [CheckpointEntry(3, 0, 6, 6).pack()]))
    ended = tank("verify", str(data))
    assert ended.exit_code == ExitCode.DAMAGED
    assert "it ends at 3, though messages up to 6 were stored" in ended.stderr


def test_stray_folders_are_shown_as_such(data: Path) -> None:
    write_segment(data / "topics/.stray-9-1/0", 1, ["s"])
    assert "stray: set aside" in tank("verify", str(data)).stdout


def test_dump_shows_batches_and_messages(data: Path) -> None:
    lines = tank("dump", str(data), "--partition", "0", "--from", "2", "--until", "3", "--messages").stdout
    assert lines.splitlines() == [
        f"#3/0  {data}/topics/3/0",
        "  1-2  2 messages  20 B  at 1.log:0  2013-01-01T05:17:00.000Z  epoch 1  producer 5:0:1",
        "    2  2013-01-01T05:17:00.000Z  k: b",
        "  3-3  1 message  15 B  at 1.log:20  2013-01-01T05:17:00.000Z  epoch 1  producer 5:0:3",
        "    3  2013-01-01T05:17:00.000Z  k: c",
    ]


def test_dump_for_programs(data: Path) -> None:
    lines = [json.loads(line) for line in tank("dump", str(data), "-o", "json").stdout.splitlines()]
    assert [(line["partition"], line["first"], line["last"]) for line in lines] == [
        (0, 1, 2), (0, 3, 3), (0, 4, 6), (1, 1, 1),
    ]  # fmt: skip
    for line in lines:
        assert_same_shape(line, SHAPES["log dump"][0])


@pytest.fixture
def kafka(tmp_path: Path) -> Path:
    """Topic 4, of Kafka's format: partition 0 with two records, and the end of a transaction."""
    made = [KafkaRecord(b"k", None, 0, 0, ((b"h", b"1"), (b"n", None))), KafkaRecord(None, b"v", 1, 5)]
    batch = bytearray(record_batch.encode(made, base_timestamp_ms=TIME_MS, codec=KafkaCodec.GZIP))
    record_batch.patch(memoryview(batch), 0, 1)
    end = control_batch.encode(TransactionEnd(ControlType.COMMIT, 5, 0, 1), TIME_MS, base_offset=2)
    folder = tmp_path / "topics/4/0"
    folder.mkdir(parents=True)
    whole = Record(1, 1, 0, len(batch), 0, TIME_MS, TIME_MS, 0, 0, 1, 0, FORMAT_KAFKA, SPARSE, 2)
    flags = SPARSE | TRANSACTIONAL | MARKER
    marker = Record(3, 0, len(batch), len(end), 0, TIME_MS, TIME_MS, 5, 0, 1, 0, FORMAT_KAFKA, flags, 1)
    (folder / f"{1:020d}.log").write_bytes(bytes(batch) + end)
    (folder / f"{1:020d}.index").write_bytes(sealed(batch, whole).pack() + sealed(end, marker).pack())
    return tmp_path


def test_dump_shows_record_batches_with_nulls_and_headers(kafka: Path) -> None:
    lines = tank("dump", str(kafka), "--messages").stdout.splitlines()
    assert lines[2:4] == [
        "    1  2013-01-01T05:17:00.000Z  k: null  [h=1]  [n=null]",
        "    2  2013-01-01T05:17:00.005Z  v",
    ]
    assert lines[4].startswith("  3-3  1 message  78 B")
    lines = tank("dump", str(kafka), "--messages", "-o", "json").stdout.splitlines()
    first, last = json.loads(lines[0])["messages"]
    assert first["value"] is None
    assert first["headers"] == [{"key": "h", "value": "1"}, {"key": "n", "value": None}]
    assert last == {"number": 2, "timestamp_ms": TIME_MS + 5, "key": None, "value": "v"}


def test_verify_reads_record_batches_and_names_what_no_reader_can(kafka: Path) -> None:
    assert tank("verify", str(kafka), "--contents").exit_code == 0
    (log,) = (kafka / "topics/4/0").glob("*.log")
    (index,) = (kafka / "topics/4/0").glob("*.index")
    batch, rest = log.read_bytes()[:-78], log.read_bytes()[-78:]
    for bad, why in (
        (changed(batch, 57, ">i", 1), "its record batch has 1 messages, its record says 2"),
        (changed(batch, 21, ">h", 7), "its record batch is malformed"),
        (changed(batch, 21, ">h", 2), "the messages 1 to 2 cannot be read, though they are as they came"),
    ):
        records = index.read_bytes()
        index.write_bytes(sealed(bad, read_record(records, 0)).pack() + records[RECORD_BYTES:])
        log.write_bytes(bad + rest)
        ended = tank("verify", str(kafka), "--contents")
        assert ended.exit_code != 0
        assert why in ended.stdout + ended.stderr


def test_dump_shows_damage_and_goes_on(data: Path) -> None:
    change(segment(data, "log"), 5)
    lines = tank("dump", str(data), "-p", "0", "-m").stdout.splitlines()
    assert "DAMAGED: its checksum does not match" in lines[1]
    assert lines[-1].endswith("k: f")


def test_nothing_is_changed(data: Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    tank("verify", str(data))
    tank("dump", str(data), "-m")
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("arguments", [["gone"], ["."], [".", "--topic", "x"]])
def test_what_is_not_there_is_said(arguments: list[str], tmp_path: Path) -> None:
    ended = tank("verify", str(tmp_path / arguments[0]), *arguments[1:])
    assert ended.exit_code == ExitCode.NOT_FOUND


def test_a_topic_or_partition_that_is_not_there(data: Path) -> None:
    assert tank("verify", str(data), "--topic", "#4").exit_code == ExitCode.NOT_FOUND
    assert tank("dump", str(data), "--partition", "7").exit_code == ExitCode.NOT_FOUND
    assert tank("dump", str(data), "--topic", "#3", "--partition", "1").exit_code == 0


def test_the_last_record_may_be_torn(data: Path) -> None:
    index = segment(data, "index", 4)
    index.write_bytes(index.read_bytes()[: RECORD_BYTES - 1])
    ended = tank("verify", str(data))
    assert ended.exit_code == 0
    assert "unfinished bytes" in ended.stdout
