"""Work that begins while no socket is ready: a tick ends for it all the same."""

from concurrent.futures import Future
from functools import partial
from pathlib import Path

import pytest

from tank_node.broker.broker import Broker
from tests.support.nodes.served_node import ServedNode
from tests.support.patience import patient


@pytest.fixture
def done() -> Future[str]:
    return Future()


def test_work_outside_of_a_tick_is_done_soon(tmp_path: Path, done: Future[str]) -> None:
    with ServedNode(tmp_path) as node:
        node.on_loop(lambda: node.broker.do_early(partial(done.set_result, "done")))
        assert done.result(patient(10)) == "done"


def test_a_wait_that_begins_outside_of_a_tick_ends_in_time(tmp_path: Path, done: Future[str]) -> None:
    def wait(broker: Broker) -> None:
        broker.begin_tick()
        ended = partial(done.set_result, "ended")
        broker.topic_waits.begin(["none"], lambda name: False, lambda missing: ended(), 1, asked_by=None)
        broker.wake()

    with ServedNode(tmp_path) as node:
        node.on_loop(lambda: wait(node.broker))
        assert done.result(patient(10)) == "ended"
