"""kill -9 at random moments under load: every acknowledged message is there afterwards, by number and bytes.

The short form kills `SHORT_KILLS` times; `make crash` is the long one. A failure prints the seed and
the command that runs the same kills again.
"""

import os
import random
import time
from pathlib import Path

import pytest

from tank_protos.generated.tank import CreateTopicsRequest, CreateTopicsResponse, TopicSetting
from tests.crash.reader import PartitionReader
from tests.crash.writers import IdempotentWriter, PlainWriter, Written
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.broker_process import BrokerProcess

SHORT_KILLS = 10
TOPICS = {"to-disk": "disk", "in-memory": "replicated"}
PARTITIONS = 2

Writers = list[IdempotentWriter | PlainWriter]


def create_topics(broker: BrokerProcess) -> None:
    """Small segments, so that rolls and producer snapshots happen between the kills."""
    with RawConnection(broker.port) as connection:
        for name, flush in TOPICS.items():
            request = CreateTopicsRequest(
                request_id=1,
                name=name,
                partitions=PARTITIONS,
                settings=[
                    TopicSetting(key="flush", value=flush),
                    TopicSetting(key="log.segment.bytes", value="262144"),
                ],
            )
            answer = CreateTopicsResponse.decode(connection.ask(CreateTopicsRequest.ID, request.encode()))
            assert answer.error == 0, answer.message


def first_writers(port: int, chance: random.Random) -> Writers:
    """For each partition one writer that is idempotent and one that is not."""
    writers: Writers = []
    for topic in TOPICS:
        for partition in range(PARTITIONS):
            sure = Written(topic, partition)
            plain = Written(topic, partition)
            writers.append(IdempotentWriter(f"i-{topic}-{partition}", port, sure, chance.getrandbits(32)))
            writers.append(PlainWriter(f"p-{topic}-{partition}", port, plain, chance.getrandbits(32)))
    return writers


def check(broker: BrokerProcess, readers: dict[tuple[str, int], PartitionReader], writers: Writers) -> None:
    with RawConnection(broker.port) as connection:
        for reader in readers.values():
            high_water_mark = reader.read_on(connection)
            assert reader.next == high_water_mark + 1
    for writer in writers:
        assert not writer.errors, writer.errors
        reader = readers[writer.written.topic, writer.written.partition]
        reader.holds(writer.written)


def acknowledged(writers: Writers) -> int:
    return sum(writer.written.checked for writer in writers)


@pytest.mark.crash
@pytest.mark.timeout(3000)
def test_every_acknowledged_message_survives_kill_9(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kills = int(os.environ.get("TANK_KILLS", SHORT_KILLS))
    seed = int(os.environ.get("TANK_SEED", random.SystemRandom().getrandbits(32)))
    print(f"replay with: TANK_SEED={seed} TANK_KILLS={kills} make crash")
    chance = random.Random(seed)
    broker = BrokerProcess(tmp_path / "data").start()
    try:
        create_topics(broker)
        readers = {(t, p): PartitionReader(t, p) for t in TOPICS for p in range(PARTITIONS)}
        writers = first_writers(broker.port, chance)
        for _ in range(kills):
            for writer in writers:
                writer.start()
            time.sleep(chance.uniform(0.02, 0.6))
            broker.kill()
            for writer in writers:
                writer.join(patient(20))
                assert not writer.is_alive()
            if chance.random() < 0.2:  # a crash while it recovers
                broker.start(wait=False)
                time.sleep(chance.uniform(0.0, 0.6))
                broker.kill()
            broker.start()
            check(broker, readers, writers)
            writers = [writer.resume() for writer in writers]
        with RawConnection(broker.port) as connection:
            for reader in readers.values():
                reader.read_again(connection)
        with capsys.disabled():
            print(f"\n{kills} kills, {acknowledged(writers):,} messages acknowledged, 0 lost, seed {seed}")
        assert acknowledged(writers) > 0
        assert broker.stop() == 0
    finally:
        broker.kill()
