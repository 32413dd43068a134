"""A script of leader epochs: where they end, and what a consumer may say of them when it fetches.

Which numbers epochs have is a server's own affair, and so is how many there are: here they have names.
"""

from typing import Any, Final

from tank_protos.generated.kafka import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
    FetchRequest,
    FetchResponse,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    ProduceResponse,
)
from tank_protos.generated.kafka.fetch_request import FetchPartition, FetchTopic
from tank_protos.generated.kafka.fetch_response import LeaderIdAndEpoch
from tank_protos.generated.kafka.offset_for_leader_epoch_request import (
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicCollection,
)
from tank_protos.generated.kafka.produce_response import PartitionProduceResponse
from tank_protos.kafka import record_batch
from tests.kafka_clients.beside.consumer_groups import id_of
from tests.kafka_clients.beside.talk import ANSWER_S, Line, Talk, await_groups, metadata
from tests.support.clients.kafka_calls import PRODUCE_VERSION, batch_of, produce_request
from tests.support.clients.kafka_socket import KafkaSocket
from tests.support.waiting import until

OLDEST, NEWEST = 2, 4
"""Versions of OffsetForLeaderEpoch in Kafka 4.1."""
WITH_EPOCHS, WITH_LAST, BY_ID = 9, 12, 17
"""Versions of Fetch: the first with the leader's epoch, the first with that of the last record, and one that
names topics by their ids."""
COUNTS: Final = (2, 1, 3)
"""How many records are written in each of three epochs."""


def _await_answers(talk: Talk, topic: str, epoch: int) -> None:
    """Waits until the leader knows that it is one: Kafka's says so in Metadata before."""

    def leads() -> bool:
        with _connect(talk) as client:
            answer = client.ask(_end(topic, epoch, epoch), OffsetForLeaderEpochResponse, NEWEST)
        return not answer.topics[0].partitions[0].error_code

    until(leads, f"{topic} has no leader that answers")


def _connect(talk: Talk) -> KafkaSocket:
    return KafkaSocket(talk.server.port, ANSWER_S)


def _await_leader(talk: Talk, topic: str) -> int:
    """Waits for the partition's leader, and returns its epoch."""
    found: list[int] = []

    def is_led() -> bool:
        try:
            with _connect(talk) as client:
                partitions = metadata(client, topic)
        except OSError:
            return False
        found[:] = [each.leader_epoch for each in partitions if each.leader_id >= 0 and not each.error_code]
        return bool(found)

    until(is_led, f"{topic} has no leader")
    return found[0]


def _write(talk: Talk, topic: str, count: int) -> int:
    """Writes records; returns the epoch that their batch has. A leader that has just started may not know
    that it is one."""
    with _connect(talk) as client:
        found: list[PartitionProduceResponse] = []

        def is_written() -> bool:
            asked = produce_request(topic, batch_of(*[b"v"] * count))
            answer = client.ask(asked, ProduceResponse, PRODUCE_VERSION)
            found[:] = answer.responses[0].partition_responses
            return not found[0].error_code

        until(is_written, f"{topic} takes no records")
        first = found[0].base_offset
        request = _fetch(topic, first)
        answer = client.ask(request, FetchResponse, WITH_LAST)
    (partition,) = answer.responses[0].partitions
    (batch,) = list(record_batch.batches(partition.records or b""))
    return record_batch.read_header(batch).leader_epoch


def _fetch(
    topic: str, offset: int, current: int = -1, last: int = -1, topic_id: bytes | None = None
) -> FetchRequest:
    wanted = FetchPartition(0, current, offset, last, partition_max_bytes=1 << 20)
    named = FetchTopic(topic) if topic_id is None else FetchTopic(topic_id=topic_id)
    named.partitions = [wanted]
    return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1 << 20, topics=[named])


def _end(topic: str, epoch: int, current: int = -1, partition: int = 0) -> OffsetForLeaderEpochRequest:
    asked = [OffsetForLeaderPartition(partition, current, epoch)]
    return OffsetForLeaderEpochRequest(
        topics=OffsetForLeaderTopicCollection([OffsetForLeaderTopic(topic, asked)])
    )


def _asks_ends(line: Line, when: str, topic: str, epochs: dict[str, int]) -> None:
    for version in range(OLDEST, NEWEST + 1):
        for name, epoch in epochs.items():
            line.ask(f"{when}: {name}", _end(topic, epoch), version)


def _note_fetched(talk: Talk, line: Line, what: str, request: FetchRequest, version: int) -> None:
    """Asks, and notes the offsets of the batches that came, for their other bytes differ."""
    unnoted = Talk(talk.server, talk.script)
    found: Any = unnoted.line().ask(what, request, version)
    unnoted.close()
    for topic in found.responses:
        for each in topic.partitions:
            offsets = [
                record_batch.read_header(one).base_offset for one in record_batch.batches(each.records or b"")
            ]
            each.records = f"batches at {offsets}".encode()
            each.preferred_read_replica = -1
            each.aborted_transactions = []
            if each.error_code:  # Kafka says no more then
                each.high_watermark = each.last_stable_offset = each.log_start_offset = -1
                each.current_leader = LeaderIdAndEpoch()
    found.node_endpoints.clear()
    talk.note(f"{what}, v{version}", talk.text.of(found))


def _fetches(talk: Talk, line: Line, when: str, topic: str, epochs: dict[str, int]) -> None:
    end = sum(COUNTS)
    for version in (WITH_EPOCHS, WITH_LAST):
        for name, epoch in epochs.items():
            _note_fetched(talk, line, f"{when}: the leader's is {name}", _fetch(topic, 0, epoch), version)
    for name, epoch in epochs.items():
        for offset in (0, COUNTS[0], end, end + 5):
            what = f"{when}: at {offset}, the last record's is {name}"
            _note_fetched(talk, line, what, _fetch(topic, offset, -1, epoch), WITH_LAST)


def leader_epochs(talk: Talk) -> None:
    """A partition whose leader changes twice, is shortened at its front, deleted, and made again."""
    topic = talk.topic("t", 1)
    written: list[int] = []
    for count in COUNTS:
        if written:
            talk.server.restart()
        _await_leader(talk, topic)
        written.append(_write(talk, topic, count))
    talk.server.restart()
    await_groups(talk.server)
    current = _await_leader(talk, topic)
    _await_answers(talk, topic, current)
    first, second, third = written
    named = {"the first": first, "the second": second, "the third": third, "the present": current}
    for name, epoch in named.items():
        talk.text.name_epoch(epoch, name)
    epochs = {"none": -1, **named, "one to come": current + 1, "a later one": current + 99}
    if first:
        epochs["if there is one before"] = first - 1
    if second - first > 1:
        epochs["if there is one between"] = first + 1
    line = talk.line()
    _asks_ends(line, "whole", topic, epochs)
    for name, epoch in epochs.items():
        line.ask(f"the leader's is {name}", _end(topic, first, epoch), NEWEST)
    line.ask("no such partition", _end(topic, first, partition=9), NEWEST)
    line.ask("no such topic", _end(f"{topic}.none", first), NEWEST)
    _fetches(talk, line, "whole", topic, epochs)
    shorter = DeleteRecordsRequest(
        [DeleteRecordsTopic(topic, [DeleteRecordsPartition(0, COUNTS[0])])], 10_000
    )
    line.ask("the first epoch's records are deleted", shorter, 2)
    _asks_ends(line, "shortened", topic, epochs)
    _fetches(talk, line, "shortened", topic, epochs)
    _made_again(talk, topic, epochs)


def _made_again(talk: Talk, topic: str, epochs: dict[str, int]) -> None:
    old_id = id_of(talk, topic)
    with _connect(talk) as client:
        gone = DeleteTopicsRequest([DeleteTopicState(topic)], timeout_ms=10_000)
        client.ask(gone, DeleteTopicsResponse, 6)

        def is_gone() -> bool:
            return not metadata(client, topic)

        until(is_gone, f"{topic} is still there")
    talk.topic("t", 1)
    present = _await_leader(talk, topic)
    _await_answers(talk, topic, present)
    line = talk.line()
    _note_fetched(talk, line, "made again: by its old id", _fetch("", 0, -1, topic_id=old_id), BY_ID)
    later = {name: epoch for name, epoch in epochs.items() if epoch > present}
    for name, epoch in later.items():
        line.ask(f"made again, without records: {name}", _end(topic, epoch), NEWEST)
        line.ask(f"made again: the leader's is {name}", _end(topic, 0, epoch), NEWEST)
        what = f"made again: at 0, the leader's is {name}"
        _note_fetched(talk, line, what, _fetch(topic, 0, epoch), WITH_LAST)
        what = f"made again: at 5, the last record's is {name}"
        _note_fetched(talk, line, what, _fetch(topic, 5, -1, epoch), WITH_LAST)
