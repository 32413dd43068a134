"""Coroutines that run in the client's thread, for callers that wait in another one."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future

import pytest

from tank_client.sync.loop_thread import LoopThread
from tests.support.patience import patient


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.stop()


def test_the_coroutine_is_made_where_it_runs(thread: LoopThread) -> None:
    """Ctrl-C between its making and its beginning would be reported as a coroutine that was never awaited."""
    made_in = []

    async def answer() -> int:
        return 42

    def make() -> object:
        made_in.append(threading.current_thread().name)
        return answer()

    assert thread.run(make) == 42  # type: ignore[arg-type]
    assert made_in == ["tank-client"]


def test_an_exception_reaches_the_caller(thread: LoopThread) -> None:
    async def fail(what: str) -> None:
        raise LookupError(what)

    with pytest.raises(LookupError, match="nothing here"):
        thread.run(fail, "nothing here")


def test_arguments_that_do_not_fit_raise_at_the_caller(thread: LoopThread) -> None:
    async def one(argument: int) -> int:
        return argument

    with pytest.raises(TypeError, match="argument"):
        thread.run(one)  # type: ignore[call-arg]


def test_an_interrupted_wait_cancels_the_coroutine(
    thread: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, ended = threading.Event(), threading.Event()

    async def wait_long() -> None:
        began.set()
        try:
            await asyncio.sleep(patient(60))
        finally:
            ended.set()

    def interrupted(future: "Future[None]", timeout: float | None = None) -> None:
        assert began.wait(patient(10))
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        thread.run(wait_long)
    assert ended.wait(patient(10))
