"""Members of a group with the synchronous client: callbacks are called where the program reads."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from tank_client import ConsumerSettings
from tank_client.settings import ClientSettings
from tank_client.sync import Client, Consumer
from tank_protos.bundle import as_batch, encode
from tests.support.clients.scripted_broker import ScriptedBroker
from tests.support.clients.scripted_sharing import ScriptedSharing
from tests.support.patience import patient
from tests.support.waiting import until

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)
READING = ConsumerSettings(max_wait_ms=20)


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    served = ScriptedBroker(topics={"t": 2})
    served.sharing = ScriptedSharing({"t": 2})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    asyncio.run_coroutine_threadsafe(served.start(), loop).result(patient(10))
    for partition in range(2):
        batch = as_batch(encode([b"a%d" % partition, b"b%d" % partition], timestamps=7))
        loop.call_soon_threadsafe(served.append, "t", partition, batch)
    yield served
    asyncio.run_coroutine_threadsafe(served.stop(), loop).result(patient(10))
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def sharing(broker: ScriptedBroker) -> ScriptedSharing:
    assert broker.sharing is not None
    return broker.sharing


def test_a_member_reads_commits_and_leaves(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        with client.consumer("t", group="g", stop_at_end=True, settings=READING) as consumer:
            found = sorted(message.value or b"" for message in consumer.messages())
            assert found == [b"a0", b"a1", b"b0", b"b1"]
            assert consumer.lag() == {("t", 0): 0, ("t", 1): 0}
        assert sharing(broker).group("g").positions == {("t", 0): 3, ("t", 1): 3}
        assert [summary.members for summary in client.admin.groups()] == [0]


def test_callbacks_may_use_the_client(broker: ScriptedBroker) -> None:
    heard: list[tuple[str, str]] = []
    with Client(broker.address, QUICK) as client:

        def assigned(partitions: list[tuple[str, int]]) -> None:
            heard.append(("assigned", threading.current_thread().name))
            for topic, partition in partitions:
                consumer.seek(topic, partition, 2)

        def revoked(partitions: list[tuple[str, int]]) -> None:
            heard.append(("revoked", threading.current_thread().name))
            consumer.commit()

        consumer: Consumer = client.consumer(
            "t", group="g", settings=READING, on_assigned=assigned, on_revoked=revoked
        )
        with consumer:
            values: list[bytes | None] = []
            while len(values) < 2:
                values += next(consumer).values
            assert sorted(value or b"" for value in values) == [b"b0", b"b1"]
            sharing(broker).topics["t"] = 1
            until(lambda: consumer.assignment == [("t", 0)], "it is taken back")
            assert consumer.poll(0) is None
            assert sharing(broker).group("g").positions == {("t", 0): 3, ("t", 1): 3}
    mine = threading.current_thread().name
    assert heard == [("assigned", mine), ("revoked", mine), ("revoked", mine)]


def test_a_program_that_fails_commits_nothing(broker: ScriptedBroker) -> None:
    client = Client(broker.address, QUICK)
    with pytest.raises(ZeroDivisionError), client.consumer("t", group="g", settings=READING) as consumer:
        next(consumer)
        raise ZeroDivisionError
    left = client.consumer("t", group="g", settings=READING)
    next(left)
    client.close()
    assert sharing(broker).group("g").positions == {}
    assert not sharing(broker).group("g").members
