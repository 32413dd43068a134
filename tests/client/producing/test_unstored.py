"""No message vanishes without a word when a program ends without a flush."""

import asyncio
import os
import sys
import warnings

import pytest

from tank_client import Client, ProducerSettings, errors
from tank_client.settings import ClientSettings
from tests.support.clients.scripted_broker import Fate, Moment, ScriptedBroker
from tests.support.patience import patient
from tests.support.waiting import run

LAZY = ProducerSettings(linger_ms=3_600_000)
"""Nothing leaves by itself."""
QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)
SCRIPT = """
import sys
from tank_client import ProducerSettings
from tank_client.sync import Client

producer = Client(sys.argv[1]).producer(ProducerSettings(linger_ms=3_600_000, delivery_timeout_ms=500))
for number in range(100):
    producer.send("t", b"%d" % number)
{end}
"""


def hold_produces(moment: Moment) -> Fate:
    return Fate.HOLD if "Produce" in type(moment.request).__name__ else Fate.SERVE


def test_a_clean_end_of_the_client_flushes_its_producers() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            async with Client(broker.address, QUICK) as client:
                producer = client.producer(LAZY)
                for number in range(100):
                    await producer.send("t", b"%d" % number)
            assert broker.topics["t"][0].values() == [b"%d" % number for number in range(100)]

    run(scenario())


def test_the_flush_at_a_clean_end_is_bounded_and_its_failure_is_raised() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            broker.script = hold_produces
            client = Client(broker.address, QUICK)
            await client.producer(ProducerSettings(linger_ms=0, delivery_timeout_ms=50)).send("t", b"x")
            with pytest.raises(errors.DeliveryTimedOut):
                await client.close()

    run(scenario())


def test_a_failure_that_was_awaited_is_not_raised_again_and_one_that_was_not_is() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as client:
            broker.script = hold_produces
            producer = client.producer(ProducerSettings(linger_ms=0, delivery_timeout_ms=50))
            with pytest.raises(errors.DeliveryTimedOut):
                await (await producer.send("t", b"x"))
            await producer.flush()
            (failed,) = await asyncio.gather(await producer.send("t", b"x"), return_exceptions=True)
            assert isinstance(failed, errors.DeliveryTimedOut)
            await producer.flush()
            await producer.send("t", b"x")
            with pytest.raises(errors.DeliveryTimedOut):
                await producer.flush()
            await producer.close()

    run(scenario())


@pytest.mark.parametrize("block", ["client", "producer"])
def test_an_end_by_an_exception_says_how_many_messages_were_given_up(
    block: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as outer:
            client = Client(broker.address, QUICK) if block == "client" else outer
            producer = client.producer(LAZY)
            with pytest.raises(ZeroDivisionError):
                async with client if block == "client" else producer:
                    for number in range(1_001):
                        await producer.send("t", b"%d" % number)
                    raise ZeroDivisionError

    with pytest.warns(ResourceWarning, match="1,001 messages were not acknowledged"):
        run(scenario())
    assert f"1,001 messages were not acknowledged, and may not be stored: the {block}'s block" in caplog.text


def test_an_abort_that_the_program_asked_for_and_an_empty_producer_say_nothing() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker, Client(broker.address, QUICK) as client:
            producer = client.producer(LAZY)
            await producer.send("t", b"x")
            producer.abort()
            with pytest.raises(ZeroDivisionError):
                async with client.producer(LAZY):
                    raise ZeroDivisionError

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(scenario())


async def script_ends(broker: ScriptedBroker, end: str) -> str:
    """Runs a synchronous script that closes nothing; its standard error."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SCRIPT.format(end=end), broker.address,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONWARNINGS": "ignore::RuntimeWarning"},
    )  # fmt: skip
    async with asyncio.timeout(patient(60)):
        _, said = await process.communicate()
    return said.decode()


def test_a_synchronous_script_that_closes_nothing_keeps_its_messages() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            assert await script_ends(broker, "") == ""
            assert broker.topics["t"][0].values() == [b"%d" % number for number in range(100)]
            said = await script_ends(broker, "raise ValueError('of its own')")
            assert "of its own" in said
            assert len(broker.topics["t"][0].values()) == 200

    run(scenario())


def test_a_synchronous_script_whose_broker_is_silent_ends_and_says_what_it_lost() -> None:
    async def scenario() -> None:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            broker.script = hold_produces
            said = await script_ends(broker, "")
            assert "the client was closed at the program's end" in said
            assert "delivery" in said or "stored" in said

    run(scenario())


def test_an_asynchronous_program_that_closes_nothing_says_what_it_lost() -> None:
    program = """
import asyncio, sys
from tank_client import Client, ProducerSettings

async def main():
    producer = Client(sys.argv[1]).producer(ProducerSettings(linger_ms=3_600_000))
    for number in range(7):
        await producer.send("t", b"x")
    return producer

kept = asyncio.run(main())
"""

    async def scenario() -> str:
        async with ScriptedBroker(topics={"t": 1}) as broker:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, broker.address, stderr=asyncio.subprocess.PIPE
            )
            async with asyncio.timeout(patient(60)):
                return (await process.communicate())[1].decode()

    assert "7 messages were not acknowledged, and may not be stored: the program ended" in run(scenario())
