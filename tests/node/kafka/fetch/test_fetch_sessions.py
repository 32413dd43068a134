"""Fetch sessions: what a broker remembers of a client's partitions, and for how long."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_node.kafka.fetch.fetch_sessions import FetchSession, FetchSessions, SessionEntry, sessions_of
from tank_node.limits import Limits
from tank_node.metrics import Metrics
from tank_protos import bundle
from tank_protos.generated.kafka import FetchRequest, FetchResponse
from tank_protos.generated.kafka.fetch_request import ForgottenTopic
from tests.support.clients.kafka_fetcher import Fetcher, values, want
from tests.support.nodes.bench_node import BenchNode
from tests.support.nodes.broker_cell import Told

SINCE = 7
VERSIONS = range(SINCE, 19)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[BenchNode]:
    with BenchNode(tmp_path / "data") as node:
        node.controller.add("a", 3, flush="replicated")
        yield node


def write(node: BenchNode, content: bytes, number: int = 0) -> None:
    node.broker.begin_tick()
    batch = memoryview(bundle.as_batch(bundle.encode([content], timestamps=1)))
    node.broker.topics["a"].partitions[number].append(batch, Told(), 0)
    node.tick()


def named(response: FetchResponse) -> list[int]:
    """The partitions that an answer names."""
    return [each.partition_index for topic in response.responses for each in topic.partitions]


def opened(line: Fetcher, *numbers: int) -> int:
    """Opens a session of these partitions, from offset 0 on; returns its id."""
    response = line.asks(line.request(line.topic("a", *(want(0, n) for n in numbers)), session=(0, 0)))
    assert named(response) == list(numbers), "the first answer has all"
    return response.session_id


def forgetting(line: Fetcher, session: tuple[int, int], *numbers: int) -> FetchRequest:
    request = line.request(session=session)
    topic = line.topic("a")
    request.forgotten_topics_data = [ForgottenTopic(topic.topic, topic.topic_id, list(numbers))]
    return request


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_answers_with_what_has_changed(node: BenchNode, version: int) -> None:
    line = Fetcher(node, version)
    session = opened(line, 0, 1, 2)
    assert session > 0
    response = line.asks(line.request(session=(session, 1)))
    assert (response.session_id, response.error_code, response.responses) == (session, 0, [])
    write(node, b"one", 1)
    response = line.asks(line.request(session=(session, 2)))
    assert named(response) == [1]
    assert values(line.records(response.responses[0].partitions[0])) == [b"one"]
    response = line.asks(line.request(line.topic("a", want(1, 1)), session=(session, 3)))
    assert named(response) == []


@pytest.mark.parametrize("version", range(SINCE))
def test_older_versions_have_no_sessions(node: BenchNode, version: int) -> None:
    line = Fetcher(node, version)
    line.asks(line.request(line.topic("a", want(0)), session=(0, -1)))
    assert node.metrics.fetch_sessions == 0


def test_without_a_session_the_id_is_0_and_every_answer_has_all(node: BenchNode) -> None:
    line = Fetcher(node)
    for _ in range(2):
        response = line.asks(line.request(line.topic("a", want(0), want(0, 1)), session=(0, -1)))
        assert (response.session_id, named(response)) == (0, [0, 1])
    assert node.metrics.fetch_sessions == 0


def test_a_session_survives_its_connection(node: BenchNode) -> None:
    first, second = Fetcher(node), Fetcher(node)
    session = opened(first, 0)
    first.session.close()
    assert second.asks(second.request(session=(session, 1))).error_code == 0


def test_a_moved_mark_is_news_though_there_are_no_records_for_the_client(node: BenchNode) -> None:
    line = Fetcher(node)
    write(node, b"one")
    response = line.asks(line.request(line.topic("a", want(1)), session=(0, 0)))
    session = response.session_id
    write(node, b"two")
    line.asks(line.request(session=(session, 1)))
    response = line.asks(line.request(line.topic("a", want(2)), session=(session, 2)))
    assert named(response) == []
    node.broker.topics["a"].partitions[0].log.segments.log_start = 2
    response = line.asks(line.request(session=(session, 3)))
    assert named(response) == [0]
    assert response.responses[0].partitions[0].log_start_offset == 1


def test_partitions_are_added_changed_and_forgotten(node: BenchNode) -> None:
    line = Fetcher(node)
    write(node, b"one")
    write(node, b"two", 1)
    session = line.asks(line.request(line.topic("a", want(1)), session=(0, 0))).session_id
    response = line.asks(line.request(line.topic("a", want(0, 1)), session=(session, 1)))
    assert named(response) == [1]
    assert line.asks(line.request(line.topic("a", want(0)), session=(session, 2))).responses != []
    response = line.asks(forgetting(line, (session, 3), 0))
    assert named(response) == [1]
    assert named(line.asks(line.request(session=(session, 4)))) == [1]


def test_a_session_without_partitions_ends(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    response = line.asks(forgetting(line, (session, 1), 0))
    assert (response.session_id, response.error_code) == (0, 0)
    assert line.asks(line.request(session=(session, 2))).error_code == 70


def test_an_unknown_session_and_a_wrong_epoch_are_errors(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    for asked, error in (((session + 1, 1), 70), ((session, 2), 71), ((session, 7), 71)):
        response = line.asks(line.request(session=asked))
        assert (response.error_code, response.session_id, response.responses) == (error, 0, [])
    assert line.asks(line.request(session=(session, 1))).error_code == 0
    assert line.asks(line.request(session=(session, 1))).error_code == 71


def test_names_in_a_session_of_ids_and_the_reverse_are_an_error(node: BenchNode) -> None:
    names, ids = Fetcher(node, 12), Fetcher(node, 13)
    session = opened(names, 0)
    assert ids.asks(ids.request(session=(session, 1))).error_code == 106
    session = opened(ids, 0)
    assert names.asks(names.request(session=(session, 1))).error_code == 106


def test_epoch_0_with_an_id_replaces_the_session(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    response = line.asks(line.request(line.topic("a", want(0)), session=(session, 0)))
    assert response.session_id not in (0, session)
    assert node.metrics.fetch_sessions == 1


def test_the_last_epoch_ends_the_session(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    response = line.asks(line.request(session=(session, -1)))
    assert (response.error_code, response.session_id) == (0, 0)
    assert node.metrics.fetch_sessions == 0


def test_epochs_begin_again_at_1(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    found = sessions_of(node.broker).find(session, 1, uses_ids=True)
    assert isinstance(found, FetchSession)
    found.epoch = 2**31 - 1
    assert line.asks(line.request(session=(session, 2**31 - 1))).error_code == 0
    assert line.asks(line.request(session=(session, 1))).error_code == 0


def test_an_error_is_told_each_time_and_its_end_too(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    ahead = line.topic("a", want(5))
    assert named(line.asks(line.request(ahead, session=(session, 1)))) == [0]
    assert named(line.asks(line.request(session=(session, 2)))) == [0]
    assert named(line.asks(line.request(line.topic("a", want(0)), session=(session, 3)))) == [0]
    assert named(line.asks(line.request(session=(session, 4)))) == []


def test_partitions_with_records_go_behind_the_others(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0, 1, 2)
    for number in range(3):
        write(node, b"x" * 1000, number)
    turns = [
        next(
            each.partition_index
            for topic in line.asks(line.request(session=(session, epoch), max_bytes=1)).responses
            for each in topic.partitions
            if each.records
        )
        for epoch in range(1, 7)
    ]
    assert turns == [0, 1, 2, 0, 1, 2]


def test_a_session_waits_for_all_its_partitions(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0, 1, 2)
    line.send(line.request(session=(session, 1), wait_ms=1000), line.version)
    assert line.answered() is None
    write(node, b"one", 2)
    response = line.answered()
    assert response is not None
    assert named(response) == [2]


def test_a_wait_that_a_later_request_has_overtaken_ends_with_an_error(node: BenchNode) -> None:
    first, second = Fetcher(node), Fetcher(node)
    session = opened(first, 0)
    first.send(first.request(session=(session, 1), wait_ms=1000), first.version)
    assert second.asks(second.request(session=(session, 2))).error_code == 0
    write(node, b"one")
    response = first.answered()
    assert response is not None
    assert (response.error_code, response.responses) == (71, [])
    assert values(
        second.records(second.asks(second.request(session=(session, 3))).responses[0].partitions[0])
    )


def test_a_topic_made_again_is_an_unknown_id_in_a_session(node: BenchNode) -> None:
    line = Fetcher(node)
    session = opened(line, 0)
    node.controller.delete_topic("a", lambda outcome: None)
    node.controller.add("a", 1, flush="replicated")
    response = line.asks(line.request(session=(session, 1)))
    assert [each.error_code for each in response.responses[0].partitions] == [100]


# --- bounds --------------------------------------------------------------------------------------


def test_beyond_the_limit_there_is_no_session_until_one_is_unused_for_long(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(fetch_sessions=2)) as node:
        node.controller.add("a", 3, flush="replicated")
        line = Fetcher(node)
        oldest, other = opened(line, 0), opened(line, 0)
        assert opened(line, 0) == 0
        node.pass_ms(60_000)
        assert line.asks(line.request(session=(other, 1))).error_code == 0
        node.pass_ms(60_000)
        assert opened(line, 0) not in (0, oldest, other)
        assert line.asks(line.request(session=(oldest, 1))).error_code == 70
        assert line.asks(line.request(session=(other, 2))).error_code == 0
        assert node.metrics.fetch_sessions == 2
        assert node.metrics.refused["too_many_fetch_sessions"] == 1


def test_the_partitions_of_all_sessions_are_bounded(tmp_path: Path) -> None:
    with BenchNode(tmp_path / "data", Limits(fetch_session_entries=3)) as node:
        node.controller.add("a", 3, flush="replicated")
        line = Fetcher(node)
        session = opened(line, 0, 1)
        assert opened(line, 0, 1) == 0
        grown = line.request(line.topic("a", want(0, 2), want(0, 5)), session=(session, 1))
        assert line.asks(grown).error_code == 70
        assert opened(line, 0, 1, 2) > 0


def test_another_process_of_the_broker_begins_with_other_ids() -> None:
    numbers = []
    for started_ms in (1_795_000_000_000, 1_795_000_000_001, 1_795_000_060_000):
        sessions = FetchSessions(Limits(), Metrics(), started_ms)
        made = sessions.make([SessionEntry("a", bytes(16), want(0))], uses_ids=False, now_ms=1)
        assert made is not None
        numbers.append(made.session_id)
    assert len(set(numbers)) == 3
    assert max(numbers) - min(numbers) > 1_000_000
