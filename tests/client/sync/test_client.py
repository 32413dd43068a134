"""The synchronous face: the same answers, one thread that ends, no use after a fork."""

import asyncio
import gc
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait
from typing import Any

import pytest

from tank_client import Ends, ProducerSettings, Stored, errors
from tank_client.settings import ClientSettings
from tank_client.sync import Client
from tank_client.sync.loop_thread import LoopThread
from tank_protos.bundle import encode
from tank_protos.generated import tank
from tests.support.clients.inside import held_by
from tests.support.clients.scripted_broker import Fate, ScriptedBroker
from tests.support.patience import patient

QUICK = ClientSettings(backoff_min_ms=1, backoff_max_ms=5)


class _Served:
    """A scripted broker in a thread of its own, for callers that block."""

    def __init__(self) -> None:
        self.broker = ScriptedBroker(topics={"t": 2})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.broker.start(), self._loop).result(patient(10))

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.broker.stop(), self._loop).result(patient(10))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    served = _Served()
    yield served.broker
    served.stop()


def tank_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "tank-client"]


def test_messages_go_round(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        with client.producer() as producer:
            futures = [producer.send("t", b"%d" % n, partition=1) for n in range(100)]
            assert futures[0].result(patient(30)) == Stored(1, 100)
            many = producer.send_many("t", [b"a", b"b"], partition=1)
            assert many[0].result(patient(30)) == Stored(101, 102)
        with client.consumer("t", stop_at_end=True, group="g") as consumer:
            assert sum(len(batch) for batch in consumer) == 102
            assert consumer.at_end
            consumer.commit()
            assert consumer.position("t", 1) == 103
            consumer.seek("t", 1, 100)
            left = list(consumer.messages())
            assert [message.value for message in left] == [b"99", b"a", b"b"]
            assert {(message.topic, message.partition) for message in left} == {("t", 1)}
        assert client.admin.fetch_positions("g")["t", 1].number == 103
        assert client.admin.await_ends({("t", 1): None}) == {("t", 1): Ends(1, 102)}
        assert client.fetch("t", 1, 101).base == 101
        assert client.produce_bundle("t", 0, encode([b"x"], timestamps=1)) == Stored(1, 1)


def test_messages_leave_while_the_program_does_something_else(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        producer = client.producer(ProducerSettings(linger_ms=1))
        future = producer.send("t", b"x", partition=0)
        wait([future], 30)
        assert future.done()


def test_messages_can_be_left_in_the_middle(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        with client.producer() as producer:
            producer.send_many("t", [b"%d" % n for n in range(10)], partition=0)
        with client.consumer("t", stop_at_end=True) as consumer:
            for message in consumer.messages():
                if message.sequence_number == 4:
                    break
            assert consumer.position("t", 0) == 5
            assert [message.sequence_number for message in consumer.messages()] == [5, 6, 7, 8, 9, 10]


def test_a_batch_whose_reader_was_interrupted_is_not_read(
    broker: ScriptedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = LoopThread.run

    def interrupted(thread: LoopThread, work: Any, *arguments: Any) -> Any:
        run(thread, work, *arguments)
        raise KeyboardInterrupt

    with Client(broker.address, QUICK) as client:
        client.produce_bundle("t", 0, encode([b"a", b"b"], timestamps=1))
        with client.consumer({"t": [0]}, group="g", stop_at_end=True) as consumer:
            with monkeypatch.context() as ctrl_c:
                ctrl_c.setattr(LoopThread, "run", interrupted)
                with pytest.raises(KeyboardInterrupt):
                    next(consumer)
            assert consumer.position("t", 0) == 0, "a commit now must not skip it"
            assert not consumer.at_end
            assert [batch.values for batch in consumer] == [[b"a", b"b"]]
            assert (consumer.position("t", 0), consumer.at_end) == (3, True)


def test_many_threads_share_a_producer(broker: ScriptedBroker) -> None:
    with (
        Client(broker.address, QUICK) as client,
        client.producer(ProducerSettings(batch_bytes=50)) as producer,
    ):

        def work(name: int) -> None:
            for number in range(200):
                producer.send("t", b"%d %d" % (name, number), partition=0)

        threads = [threading.Thread(target=work, args=(name,), daemon=True) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        producer.flush()
        stored = [value.split() for value in broker.topics["t"][0].values()]
        for name in range(4):
            assert [int(number) for who, number in stored if int(who) == name] == list(range(200))


def test_a_full_buffer_blocks_and_then_says_so(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        broker.script = lambda moment: (
            Fate.HOLD if isinstance(moment.request, tank.IdempotentProduceRequest) else Fate.SERVE
        )
        producer = client.producer(ProducerSettings(batch_bytes=1000, buffer_bytes=5000, max_block_ms=50))
        with pytest.raises(errors.BufferFull):
            for _ in range(1000):
                producer.send("t", b"x" * 100, partition=0)
        assert held_by(producer).held_bytes <= 5000
        producer.abort()


def test_a_callback_may_not_wait_for_the_client(broker: ScriptedBroker) -> None:
    caught: Future[BaseException] = Future()

    def callback(_: object) -> None:
        try:
            client.admin.status()
        except errors.TankError as error:
            caught.set_result(error)

    with Client(broker.address, QUICK) as client, client.producer() as producer:
        producer.send("t", b"x", partition=0).add_done_callback(callback)
        assert isinstance(caught.result(patient(30)), errors.InvalidArgument)


def test_errors_are_the_same(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        with pytest.raises(errors.UnknownTopic):
            client.fetch("nope", 0, 1)
        with pytest.raises(errors.FeatureMissing):
            client.admin.delete_topic("t")


def test_no_thread_is_left_behind(broker: ScriptedBroker) -> None:
    before = len(tank_threads())
    client = Client(broker.address, QUICK)
    client.fetch("t", 0, 0)
    assert len(tank_threads()) == before + 1
    client.close()
    client.close()
    assert len(tank_threads()) == before
    with pytest.raises(errors.Closed):
        client.fetch("t", 0, 0)
    forgotten = Client("localhost:1", QUICK)
    del forgotten
    gc.collect()
    assert len(tank_threads()) == before


def test_after_a_fork_the_child_is_told_and_the_parent_goes_on(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client:
        client.fetch("t", 0, 0)
        child = os.fork()
        if not child:
            code = 1
            try:
                client.fetch("t", 0, 0)
            except errors.WrongProcess:
                client.close()
                with Client(broker.address, QUICK) as own:
                    own.fetch("t", 0, 0)
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        client.fetch("t", 0, 0)


def test_after_a_fork_a_producer_takes_nothing_that_nobody_would_send(broker: ScriptedBroker) -> None:
    with Client(broker.address, QUICK) as client, client.producer() as producer:
        producer.send("t", b"of the parent").result(patient(30))
        child = os.fork()
        if not child:
            told = 0
            for send in (lambda: producer.send("t", b"x"), lambda: producer.send_many("t", [b"x"])):
                try:
                    send()
                except errors.WrongProcess:
                    told += 1
            os._exit(0 if told == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.send("t", b"and again").result(patient(30))


def test_it_works_inside_a_running_event_loop(broker: ScriptedBroker) -> None:
    async def notebook() -> None:
        with Client(broker.address, QUICK) as client:  # as in a cell of a notebook
            client.fetch("t", 0, 0)

    asyncio.run(notebook())
