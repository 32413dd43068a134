"""Whatever becomes of requests and answers, and whatever a caller passes in."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tank_client import Client, ClientSettings, ProducerSettings, errors
from tank_protos.error_codes import ErrorCode
from tank_protos.generated import tank
from tests.support.clients.inside import held_by
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker
from tests.support.examples import examples
from tests.support.waiting import run

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)
FATES = st.sampled_from(
    [
        "serve",
        "serve",
        "request lost",
        "answer lost",
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ACKNOWLEDGED_IN_TIME,
        ErrorCode.NO_LEADER,
    ]
)


def client(broker: ScriptedBroker) -> Client:
    return Client(broker.address, QUICK, random=lambda: 0.5)


def values(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@examples(60)
@example(
    ["answer lost", ErrorCode.NOT_ENOUGH_REPLICAS, "serve", "request lost", ErrorCode.NOT_ENOUGH_REPLICAS], 27
)
@given(st.lists(FATES, max_size=25), st.integers(1, 40))
def test_every_message_is_stored_once_and_in_order(fates: list[str | ErrorCode], count: int) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 2}) as broker, client(broker) as c:
            drawn: dict[int, str | ErrorCode] = {}
            coming = iter(fates)

            def script(moment: Moment) -> Fate | int:
                if not isinstance(moment.request, tank.IdempotentProduceRequest):
                    return Fate.SERVE
                if moment.index not in drawn:
                    drawn[moment.index] = next(coming, "serve")
                fate = drawn[moment.index]
                if isinstance(fate, ErrorCode):
                    return Fate.SERVE if moment.carried_out else fate
                cut = fate == ("answer lost" if moment.carried_out else "request lost")
                return Fate.CUT if cut else Fate.SERVE

            broker.script = script
            async with c.producer(ProducerSettings(batch_bytes=4, linger_ms=0)) as producer:
                for number, value in enumerate(values(count)):
                    await producer.send("t", value, partition=number % 2)
            for partition, log in enumerate(broker.topics["t"]):
                assert log.values() == values(count)[partition::2]

    run(scenario())


def test_an_answer_that_is_garbage_is_a_lost_one() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            garbage = iter([True])

            def script(moment: Moment) -> Fate | int:
                produce = isinstance(moment.request, tank.IdempotentProduceRequest)
                if produce and moment.carried_out and next(garbage, False):
                    broker.say(b"\x42\x04\x00\x00\x00\xff\xff\xff\xff")
                    return Fate.HOLD
                return Fate.SERVE

            broker.script = script
            async with c.producer(ProducerSettings(batch_bytes=1, linger_ms=0)) as producer:
                for value in values(10):
                    await producer.send("t", value)
            assert broker.topics["t"][0].values() == values(10)

    run(scenario())


def test_what_is_no_message_is_refused_and_leaves_nothing_behind() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c, c.producer() as producer:
            text: Any = "text"
            with pytest.raises(errors.InvalidArgument, match="encode"):
                await producer.send("t", text)
            with pytest.raises(errors.InvalidArgument, match="encode"):
                await producer.send_many("t", [b"x", text])
            for stamp in (-1, 1 << 64):
                with pytest.raises(errors.InvalidArgument, match="timestamp"):
                    await producer.send("t", b"x", timestamp_ms=stamp)
                with pytest.raises(errors.InvalidArgument, match="timestamp"):
                    await producer.send_many("t", [b"x"], timestamps_ms=[stamp])
            assert not held_by(producer).unfinished
            assert not held_by(producer).held_bytes
            view: Any = memoryview(b"seen")
            await (await producer.send("t", view))
            assert broker.topics["t"][0].values() == [b"seen"]

    run(scenario())


def test_what_may_be_stored_is_not_sent_again_when_the_broker_has_forgotten_the_producer() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, client(broker) as c:
            produces = 0

            def script(moment: Moment) -> Fate | int:
                nonlocal produces
                if not isinstance(moment.request, tank.IdempotentProduceRequest):
                    return Fate.SERVE
                produces += not moment.carried_out
                if produces == 1:
                    return Fate.CUT if moment.carried_out else Fate.SERVE
                return ErrorCode.UNKNOWN_PRODUCER if produces == 2 and not moment.carried_out else Fate.SERVE

            broker.script = script
            producer = c.producer(ProducerSettings(linger_ms=0))
            with pytest.raises(errors.OutcomeUnknown, match="may be stored"):
                await (await producer.send("t", b"a"))
            await (await producer.send("t", b"b"))
            assert broker.topics["t"][0].values() == [b"a", b"b"]
            producer.abort()

    run(scenario())
