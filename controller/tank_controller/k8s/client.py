"""Kubernetes, as a controller in a pod uses it: it reads the release's StatefulSets and writes events.

Separate threads wait for the API server; they don't delay the end of the process.
"""

import asyncio
import contextlib
import logging
import math
import queue
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tank_controller.k8s.api_server import CONNECT_S, READ_S, ApiServer, PackageApiServer, RequestError
from tank_controller.k8s.events import EventBook, Teller
from tank_controller.k8s.watch import REFUSED, MalformedAnswerError, SetSeen, SetWatch, read_set
from tank_controller.leader.scaling import News, Pod, Reason, Scaling

FRESH_S = 1.0
"""For how long an answer of the API server counts as fresh."""
UNSURE_S = 30.0
"""How long no broker may stop while the API server doesn't answer: it may answer this controller, or another
one that leads then, soon. After that time the last answer decides.
"""
UNSURE_AGAIN_S = 15.0
"""Two unanswered questions so far apart don't belong to one outage."""
MAX_CALLS = 400
"""How many events and questions may wait for the API server; further ones are dropped."""

Value = TypeVar("Value")
_log = logging.getLogger("tank.kubernetes")


@dataclass(slots=True, frozen=True)
class KubernetesConfig:
    """The cluster's pods; all are in one namespace."""

    namespace: str
    brokers: str
    """Name of the brokers' StatefulSet."""
    pod: str = ""
    """The name of this controller's pod."""
    pod_uid: str = ""
    controllers: str = ""
    """Name of the controllers' StatefulSet; empty: it is not looked at."""


class Kubernetes:
    """One controller's access to Kubernetes. All calls on the event loop's thread."""

    def __init__(self, config: KubernetesConfig, api: ApiServer | None = None) -> None:
        """Raises KubernetesError."""
        self._config = config
        self._api: ApiServer = api or PackageApiServer(config.namespace)
        self._book = EventBook(Teller(config.namespace, config.pod, config.brokers))
        self._calls: queue.Queue[Callable[[], None]] = queue.Queue(MAX_CALLS)
        self._loop = asyncio.get_running_loop()
        self._watching: threading.Event | None = None
        """Set to end the thread that watches; None: there is none."""
        self._scaling: Scaling | None = None
        self._seen = SetSeen(None)
        """The brokers' set."""
        self._read_at = 0.0
        """When the brokers' set was last read, by the loop's clock."""
        self._unsure_since = self._unsure_at = -math.inf
        """The first and the last time of the present outage of the API server, by the loop's clock."""
        self._problem = ""
        self._was_answered = False
        """Whether the API server has ever shown this controller a set; a later refusal means that it lost the
        right.
        """
        threading.Thread(target=self._work, name="kubernetes", daemon=True).start()

    def tick(self, scaling: Scaling, *, leads: bool) -> None:
        """One tick: watches while this controller leads, and writes the events that wait."""
        if leads and self._watching is None and self._config.brokers:
            self._scaling, self._watching = scaling, threading.Event()
            threading.Thread(
                target=self._watch, args=(self._watching,), name="kubernetes-watch", daemon=True
            ).start()
        elif not leads and self._watching is not None:
            self._watching.set()
            self._watching = self._scaling = None
            scaling.wanted = None  # another number may be wanted when this controller leads again
            self._read_at = 0.0
        news, scaling.news = scaling.news, []
        for each in news:
            self._tell(each)

    async def look(self) -> bool:
        """Reads how many brokers are wanted now, unless that was a moment ago. When the API server doesn't
        answer, the last number stays. Returns False when the number may have changed, so that the caller
        should wait.
        """
        if not self._config.brokers:
            return True
        if self._scaling is None:  # this controller has led for less than a tick
            return False
        if self._loop.time() - self._read_at < FRESH_S:
            return True
        seen = await self._ask_set(self._config.brokers)
        if seen is not None:
            self._take(seen)
            self._unsure_since = self._unsure_at = -math.inf
            return True
        now = self._loop.time()
        if now - self._unsure_at >= UNSURE_AGAIN_S:
            self._unsure_since = now
        self._unsure_at = now
        return now - self._unsure_since >= UNSURE_S

    async def wanted_controllers(self) -> int | None:
        """How many controllers are wanted; None where that is not known."""
        if not self._config.controllers:
            return None
        seen = await self._ask_set(self._config.controllers)
        return None if seen is None else seen.replicas

    async def is_taken_down(self) -> bool:
        """Whether the whole release goes: both StatefulSets are gone, or are to have no pods. An uninstall
        takes this pod's rights away, too, so their loss counts as well.
        """
        brokers, controllers = self._config.brokers, self._config.controllers
        if not brokers or not controllers:
            return False
        if self._seen.replicas and self._loop.time() - self._read_at < FRESH_S:
            return False
        return await self._is_gone(brokers) and await self._is_gone(controllers)

    async def learn_rights(self) -> None:
        """Reads once, so that a later refusal can be told from a right that was never there."""
        if self._config.controllers:
            await self._ask_set(self._config.controllers)

    def report_controller(self, ordinal: int, text: str) -> None:
        """Writes an event about a controller on this controller's own pod."""
        self._tell(News(Reason.CONTROLLER, ordinal, text, Pod(self._config.pod, self._config.pod_uid)))

    async def events_written(self) -> None:
        """Waits a bounded time until all events are written, before the process ends."""
        done: asyncio.Future[None] = self._loop.create_future()
        if self._call(lambda: self._post(_answer, done, None)):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(READ_S):
                    await done

    def stop(self) -> None:
        """Ends all reading and writing."""
        if self._watching is not None:
            self._watching.set()
            self._watching = None

    # --- what is known ---

    def _take(self, seen: SetSeen) -> None:
        if self._scaling is None or seen.is_before(self._seen):
            return
        self._seen = seen
        self._read_at = self._loop.time()
        if self._scaling.wanted != seen.replicas:
            _log.info(
                "%s brokers are wanted", "an unknown number of" if seen.replicas is None else seen.replicas
            )
        self._scaling.wanted = seen.replicas

    def _say(self, problem: str) -> None:
        if problem and problem != self._problem:
            _log.warning("of StatefulSet %s: %s", self._config.brokers, problem)
        self._problem = problem

    async def _is_gone(self, name: str) -> bool:
        def ask() -> bool:
            try:
                return not read_set(name, self._api.read_set(name)).replicas
            except RequestError as error:
                return error.status == 404 or (self._was_answered and error.status in REFUSED)
            except (OSError, MalformedAnswerError):
                return False

        return bool(await self._ask(ask))

    async def _ask(self, ask: "Callable[[], Value]") -> "Value | None":
        """The API server's answer; None when it takes too long, or too many questions wait."""
        done: asyncio.Future[Value] = self._loop.create_future()
        if not self._call(lambda: self._post(_answer, done, ask())):
            return None
        try:
            async with asyncio.timeout(CONNECT_S + READ_S):
                return await done
        except TimeoutError:
            return None

    async def _ask_set(self, name: str) -> SetSeen | None:
        def ask() -> SetSeen | None:
            try:
                return read_set(name, self._api.read_set(name))
            except RequestError as error:
                if error.status == 404:
                    return SetSeen(None)
                _log.warning("StatefulSet %s can't be read: %s", name, error)
            except (OSError, MalformedAnswerError) as error:
                _log.warning("StatefulSet %s can't be read: %s", name, error)
            return None

        seen = await self._ask(ask)
        self._was_answered = self._was_answered or seen is not None
        return seen

    def _tell(self, news: News) -> None:
        log = _log.warning if news.reason.is_warning else _log.info
        log("%s%s", news.text, "" if news.pod is None else f" (pod {news.pod.name})")
        name, body = self._book.write(news, self._seen.uid, time.time_ns() // 1_000_000)

        def write() -> None:
            try:
                self._api.write_event(name, body, lambda: self._book.again(name, body))
            except OSError as error:
                _log.warning("an event could not be written: %s", error)

        if not self._call(write):
            _log.warning("an event is not written: too many wait for the API server")

    def _call(self, call: Callable[[], None]) -> bool:
        try:
            self._calls.put_nowait(call)
        except queue.Full:
            return False
        return True

    def _post(self, call: Callable[..., None], *args: object) -> None:
        """Runs the call on the event loop, unless the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:
            _log.debug("the process ends")

    # --- threads ---

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            try:
                call()
            except Exception:
                _log.exception("a fault of this program, in a call to Kubernetes")

    def _watch(self, ended: threading.Event) -> None:
        watch = SetWatch(self._config.brokers, random.randrange)

        def know() -> None:
            """Stores what the watch said, while this thread is the one that watches."""
            if not ended.is_set():
                if watch.seen is not None and not watch.problem:
                    self._take(watch.seen)
                self._say(watch.problem)

        while True:
            request = watch.next()
            if ended.wait(request.wait_ms / 1000):
                return
            try:
                if not request.watch:
                    watch.listed(self._api.list_sets(watch.name))
                    self._post(know)
                    continue
                for line in self._api.watch_sets(watch.name, request.version):
                    if ended.is_set():
                        return
                    watch.changed(line)
                    self._post(know)
                watch.ended()
            except RequestError as error:
                watch.failed(error.status, str(error))
            except MalformedAnswerError as error:
                watch.malformed(error)
            except Exception as error:  # an exception of the package or of urllib3: the watch begins again
                watch.failed(None, f"{type(error).__name__}: {error}")
            self._post(know)


def _answer(done: "asyncio.Future[Value]", value: Value) -> None:
    if not done.done():
        done.set_result(value)
