"""What a program gives `send_many`: lists as a whole, generators in portions, nonsense not at all."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_client import Client, ProducerSettings, errors
from tank_client.producing.accumulator import MAX_BUNDLE_MESSAGES, Accumulator, InputColumns, TopicQueues
from tank_client.producing.input_columns import PORTION_MESSAGES, column_batches
from tank_client.producing.partition_queue import PendingBundle
from tank_client.routing.routes import check_topic
from tank_protos.bundle.cut import fill
from tests.support.clients.inside import held_by
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.waiting import run

pytestmark = pytest.mark.usefixtures("kernel")


def counting(limit: int, taken: list[int]) -> Iterator[bytes]:
    for number in range(limit):
        taken.append(number)
        yield b"%d" % number


def test_a_generator_is_taken_in_portions() -> None:
    taken: list[int] = []
    found = column_batches(counting(PORTION_MESSAGES * 2 + 1, taken), None, 5)
    first = next(found)
    assert first.values[-1] == b"%d" % (PORTION_MESSAGES - 1)
    assert len(taken) == PORTION_MESSAGES, "not more than was asked for"
    assert first.timestamps_ms == [5] * PORTION_MESSAGES
    assert [len(portion.values) for portion in found] == [PORTION_MESSAGES, 1]


def test_columns_of_several_kinds_go_together() -> None:
    values = [b"%d" % number for number in range(PORTION_MESSAGES + 2)]
    stamps = range(len(values))
    keys = (b"k%d" % number for number in range(len(values)))
    whole = list(column_batches(iter(values), keys, stamps))
    assert [value for portion in whole for value in portion.values] == values
    assert [key for portion in whole for key in portion.keys or ()] == [b"k%d" % n for n in stamps]
    assert [stamp for portion in whole for stamp in portion.timestamps_ms] == list(stamps)
    assert list(column_batches((b"a", b"b"), None, range(2))) == [InputColumns([b"a", b"b"], None, [0, 1])]


@pytest.mark.parametrize(
    "columns",
    [
        ([b"a", b"b"], [b"k"], None),
        ([b"a"], [b"k", b"l"], None),
        ([b"a"], None, [1, 2]),
        (["text"], None, None),
        (b"one message", None, None),
        (5, None, None),
        ([b"a"], None, 1.5),
    ],
    ids=str,
)
def test_columns_that_do_not_fit_are_refused(columns: Any) -> None:
    given = [iter(column) if isinstance(column, list) else column for column in columns]
    for some in (columns, given):
        with pytest.raises(errors.InvalidArgument):
            list(column_batches(*some))


@pytest.mark.parametrize("topic", [b"bytes", "", "a" * 250, "with space", "..", None, 5])
def test_what_is_no_name_of_a_topic_is_refused_before_the_broker_is_asked(topic: Any) -> None:
    with pytest.raises(errors.InvalidArgument, match="topic"):
        check_topic(topic)

    async def scenario() -> None:
        async with (
            ScriptedBroker(topics={"t": 1}) as broker,
            Client(broker.address) as client,
            client.producer() as producer,
        ):
            for call in (
                producer.send(topic, b"x"),
                producer.send_many(topic, [b"x"]),
                client.fetch(topic, 0, 1),
                client.produce_bundle(topic, 0, b""),
            ):
                with pytest.raises(errors.InvalidArgument, match="topic"):
                    await call
            wrong: list[Any] = [
                ["t", topic],
                {topic: [0]},
                *([topic] if isinstance(topic, str | bytes) else []),
            ]
            for topics in wrong:
                with pytest.raises(errors.InvalidArgument, match="topic"):
                    client.consumer(topics)

    run(scenario())


def test_a_generator_larger_than_the_buffer_is_sent_in_order() -> None:
    settings = ProducerSettings(buffer_bytes=20_000, batch_bytes=1000)

    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address) as client:
            async with client.producer(settings) as producer:
                made = await producer.send_many("t", counting(3000, []))
                most = held_by(producer).held_bytes
            assert most < 30_000
            stored = [await delivery for delivery in made]
            assert [bundle.first for bundle in stored] == [1, *(bundle.last + 1 for bundle in stored[:-1])]
            assert stored[-1].last == 3000

    run(scenario())


def new_accumulator() -> Accumulator:
    class Never:
        def done(self) -> bool:
            return False

    made = Accumulator(
        batch_bytes=1 << 30,
        max_in_flight=1,
        new_delivery=Never,  # type: ignore[arg-type]
        key_hash=len,
        random=lambda: 0.0,
        now_ms=lambda: 0.0,
    )
    made.topics["t"] = TopicQueues(1, 0.0)
    return made


def test_a_bundle_of_empty_messages_is_full_some_time() -> None:
    held = new_accumulator()
    queue = held.place("t", None, 0)
    run = InputColumns([b""] * (MAX_BUNDLE_MESSAGES + 5), None, [0] * (MAX_BUNDLE_MESSAGES + 5))
    first: PendingBundle = held.add("t", b"", None, 0, 0)
    at, bundle = held.extend(queue, run, 0, 1 << 30)
    assert (at, bundle) == (MAX_BUNDLE_MESSAGES - 1, first)
    at, second = held.extend(queue, run, at, 1 << 30)
    assert at == len(run.values)
    assert second is not first
    for _ in range(MAX_BUNDLE_MESSAGES - second.messages):
        assert held.add("t", b"", None, 0, 0) is second
    assert queue.open is None


@given(
    st.lists(st.tuples(st.binary(max_size=5), st.none() | st.binary(max_size=3)), min_size=1, max_size=400),
    st.data(),
)
def test_a_bundle_is_filled_as_far_as_it_goes(
    rows: list[tuple[bytes, bytes | None]], data: st.DataObject
) -> None:
    values, keys = [value for value, _ in rows], [key for _, key in rows]
    start = data.draw(st.integers(0, len(rows) - 1))
    most = data.draw(st.integers(1, 500))
    room = data.draw(st.integers(-1, 900))
    sizes = [len(value) + len(key or b"") for value, key in rows]
    stop = start + 1
    while stop < len(rows) and stop - start < most and sum(sizes[start:stop]) < room:
        stop += 1
    assert fill(values, keys, start, most, room) == (stop, sum(sizes[start:stop]))
    assert fill(tuple(values), tuple(keys), start, most, room) == (stop, sum(sizes[start:stop]))
    if not any(keys):
        assert fill(values, None, start, most, room) == (stop, sum(sizes[start:stop]))
