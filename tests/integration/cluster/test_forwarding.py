"""A client of the old document and a cluster of processes: it knows one broker, and that leads nothing."""

import sys
import threading
import time
from pathlib import Path

import pytest

from tank_protos import bundle
from tank_protos.error_codes import ConsumeFlag, ErrorCode
from tank_protos.generated.tank import (
    ConsumePartition,
    ConsumeRequest,
    ConsumeResponse,
    ConsumeTopic,
    ProducePartition,
    ProduceRequest,
    ProduceTopic,
)
from tests.support.clients.raw_client import RawConnection
from tests.support.patience import patient
from tests.support.processes.cluster import LocalCluster, running_cluster
from tests.support.waiting import until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(300)]

TOPICS = ("t0", "t1", "t2", "t3", "t4", "t5")
OLD_DOCUMENT = 0


class OldClient:
    """One connection to one broker, and never another."""

    def __init__(self, port: int) -> None:
        self._connection = RawConnection(port, timeout_s=60)
        self._asked = 0

    def produce(self, topic: str, value: bytes) -> int:
        """The result byte."""
        self._asked += 1
        batch = memoryview(bundle.as_batch(bundle.encode([value], timestamps=1)))
        topics = [ProduceTopic(topic, [ProducePartition(0, batch)])]
        request = ProduceRequest(OLD_DOCUMENT, self._asked, "old", 0, 0, topics)
        answer = self._connection.ask(request.ID, request.encode())
        assert int.from_bytes(answer[:4], "little") == self._asked
        assert len(answer) == 5
        return answer[4]

    def consume(self, *wanted: tuple[str, int], wait_ms: int = 0) -> dict[str, tuple[int, list[bytes]]]:
        """By topic: the number of the first message of the first bundle, and the messages."""
        self._asked += 1
        topics = [ConsumeTopic(name, [ConsumePartition(0, first, 1 << 20)]) for name, first in wanted]
        request = ConsumeRequest(OLD_DOCUMENT, self._asked, "old", wait_ms, 0, 0, topics)
        answer = ConsumeResponse.decode(self._connection.ask(request.ID, request.encode()))
        assert answer.request_id == self._asked
        found, at = {}, 0
        for topic in answer.topics:
            (told,) = topic.partitions
            assert told.flag == ConsumeFlag.DATA, "all that the old document has for a good request"
            chunk = memoryview(answer.chunks)[at : at + told.chunk_length]
            at += told.chunk_length
            values = [m.value for b in bundle.bundles(chunk) for m in bundle.decode(b, 1)]
            found[topic.name] = (told.base_sequence_number, values)
        return found

    def read(self, topic: str) -> list[bytes]:
        """Everything that is there."""
        values: list[bytes] = []
        while True:
            _, more = self.consume((topic, len(values) + 1), wait_ms=0)[topic]
            if not more:
                return values
            values += more  # one message to a bundle: none begins before the number asked for


def idle_broker(cluster: LocalCluster) -> tuple[int, set[str]]:
    """The port of a broker, and the topics that others lead."""
    leaders = {topic: cluster.partitions(topic)[0]["leader"] for topic in TOPICS}
    least = min((1, 2, 3), key=lambda number: list(leaders.values()).count(number))
    (broker,) = [p for p in cluster.processes("broker") if p.number == least]
    port = int(str(broker.addresses["tank"]).rpartition(":")[2])
    return port, {topic for topic, leader in leaders.items() if leader != least}


def test_an_old_client_of_one_broker_reads_and_writes_what_others_lead(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        for topic in TOPICS:
            cluster.tank("topic", "create", topic, "--partitions", "1", "--replication-factor", "3")
        port, topics = idle_broker(cluster)
        assert len(topics) >= 3
        client = OldClient(port)
        for i in range(20):
            for topic in topics:
                assert client.produce(topic, b"%s-%d" % (topic.encode(), i)) == 0
        everything = client.consume(*((topic, 1) for topic in sorted(topics)), wait_ms=5_000)
        assert list(everything) == sorted(topics)
        for topic in topics:
            wanted = [b"%s-%d" % (topic.encode(), i) for i in range(20)]
            assert client.read(topic) == wanted

        # One waits at the end of everything; another one writes.
        woken: list[dict[str, tuple[int, list[bytes]]]] = []
        waiter = OldClient(port)
        ends = [(topic, 21) for topic in sorted(topics)]
        thread = threading.Thread(
            target=lambda: woken.append(waiter.consume(*ends, wait_ms=50_000)), daemon=True
        )
        thread.start()
        last = max(topics)
        assert client.produce(last, b"wakes") == 0
        thread.join(patient(40))
        assert [woken[0][topic][1] for topic in sorted(topics)] == [[]] * (len(topics) - 1) + [[b"wakes"]]
        cluster.down()


def test_nothing_acknowledged_is_lost_when_the_leader_is_killed(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c") as cluster:
        topic = TOPICS[0]
        cluster.tank("topic", "create", topic, "--partitions", "1", "--replication-factor", "3")
        leader = cluster.partitions(topic)[0]["leader"]
        (victim,) = [p for p in cluster.processes("broker") if p.number == leader]
        other = next(p for p in cluster.processes("broker") if p.number != leader)
        port = int(str(other.addresses["tank"]).rpartition(":")[2])
        writer, reader = OldClient(port), OldClient(port)
        told: list[tuple[bytes, int]] = []
        seen: list[bytes] = []
        enough = threading.Event()

        def write() -> None:
            while not enough.is_set():
                value = b"%d" % len(told)
                told.append((value, writer.produce(topic, value)))
                if told[-1][1]:
                    time.sleep(0.02)  # as a client does that is told of an error

        def read() -> None:
            while len(seen) < goal[0]:
                seen.extend(reader.consume((topic, len(seen) + 1), wait_ms=1_000)[topic][1])

        goal = [sys.maxsize]  # until the writer has ended, and it is known
        threads = [threading.Thread(target=write, daemon=True), threading.Thread(target=read, daemon=True)]
        for thread in threads:
            thread.start()
        until(lambda: len(told) > 200, "the writer is stuck", 60)
        victim.kill()
        before = len(told)
        until(lambda: any(not error for _, error in told[before + 1 :]), "no write is taken any more", 60)
        went_on = len(told)
        until(lambda: len(told) > went_on + 200, "the writer is stuck", 60)
        enough.set()
        threads[0].join(patient(60))
        stored = OldClient(port).read(topic)
        goal[0] = len(stored)
        threads[1].join(patient(60))
        assert not any(thread.is_alive() for thread in threads)

        assert {error for _, error in told} <= {0, ErrorCode.STORAGE, ErrorCode.NOT_ACKNOWLEDGED_IN_TIME}
        acknowledged = [value for value, error in told if not error]
        refused = {value for value, error in told if error == ErrorCode.STORAGE}
        assert [value for value in stored if value in set(acknowledged)] == acknowledged
        assert len(set(stored)) == len(stored), "none is there twice"
        assert not refused & set(stored), "what is told as not stored is not"
        assert seen[: len(stored)] == stored, "the reader has seen the same, in its order"
        cluster.down()
