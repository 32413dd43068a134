"""Seeks, and answers that come too late for them."""

from tank_client import Client, ClientSettings, ConsumerSettings
from tank_protos.bundle import as_batch, encode
from tank_protos.generated import tank
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker
from tests.support.waiting import run

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)


def fill(broker: ScriptedBroker, count: int) -> None:
    broker.append("t", 0, as_batch(encode([b"x"] * count, timestamps=1)))


def test_a_seek_does_not_wait_for_the_long_poll() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as c:
            fill(broker, 10)
            settings = ConsumerSettings(max_wait_ms=3_600_000)
            async with c.consumer("t", start="end", settings=settings) as consumer:
                assert await consumer.poll(50) is None
                await consumer.seek("t", 0, 3)
                found = await consumer.poll(30_000)
                assert found is not None
                assert found.first == 3

    run(scenario())


def test_what_was_asked_before_a_seek_is_dropped() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as c:
            fill(broker, 10)
            settings = ConsumerSettings(max_wait_ms=3_600_000)
            async with c.consumer("t", start="end", settings=settings) as consumer:
                assert await consumer.poll(50) is None

                def hold_new_fetches(moment: Moment) -> Fate | int:
                    consume = isinstance(moment.request, tank.ConsumeRequest)
                    return Fate.HOLD if consume and not moment.carried_out else Fate.SERVE

                broker.script = hold_new_fetches
                await consumer.seek("t", 0, 3)
                fill(broker, 5)  # wakes the poll from before the seek, which asked from 11 on
                assert await consumer.poll(100) is None
                assert consumer.position("t", 0) == 3

    run(scenario())
