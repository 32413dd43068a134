"""Requests that wait until topics have a state in this broker's view: created, with leaders, or gone."""

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from tank_node.broker.deadlines import Deadlines
from tank_node.partition.partition import Partition
from tank_node.partition.waiters import Waiter
from tank_node.session import Session

logger = logging.getLogger(__name__)

Found: TypeAlias = Callable[[str], bool]
"""A callback that takes a topic's name, and says whether the topic is as the request wants it."""
Ended: TypeAlias = Callable[[set[str]], None]
"""A callback that takes the names of the topics that are not so at the deadline."""


class TopicWait(Waiter[Partition]):
    """One request that waits. `TopicWaits.begin` makes it."""

    __slots__ = ("_ended", "_is_so", "_waits", "missing")

    def __init__(self, waits: "TopicWaits", names: Iterable[str], is_so: Found, ended: Ended) -> None:
        super().__init__()
        self.missing: set[str] = set(names)
        """The topics that are not yet as the request wants them."""
        self.entries = len(self.missing)
        self._waits = waits
        self._is_so = is_so
        self._ended = ended

    def look(self, name: str) -> None:
        """Looks at a topic after a change. When all topics are as wanted, the request ends."""
        if self.done or name not in self.missing or not self._is_so(name):
            return
        self._waits.forget_name(self, name)
        self.missing.discard(name)
        if not self.missing:
            self._waits.end(self)
            self._ended(set())

    def advanced(self, partition: Partition, appended_bytes: int) -> None:
        raise AssertionError("the wait is on no partition")

    def lost(self, partition: Partition) -> None:
        raise AssertionError("the wait is on no partition")

    def expired(self) -> None:
        self._waits.end(self)
        self._ended(self.missing)


class TopicWaits:
    """All requests of a broker that wait for topics."""

    __slots__ = ("_by_name", "_deadlines")

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._by_name: dict[str, dict[TopicWait, None]] = {}

    def begin(
        self, names: Iterable[str], is_so: Found, ended: Ended, max_wait_ms: int, asked_by: Session | None
    ) -> TopicWait:
        """Begins a wait until `is_so` holds for all these topics; then, or after `max_wait_ms`, calls `ended`
        once, never during this call.

        asked_by: the session whose connection is closed if a bug keeps `ended` from being called.

        Topics are looked at when the view changes them; the caller looks at those that are so already.
        """
        wait = TopicWait(self, names, is_so, ended)
        wait.asked_by = asked_by
        for name in wait.missing:
            self._by_name.setdefault(name, {})[wait] = None
        self._deadlines.wait(wait, (), max(max_wait_ms, 0))
        return wait

    def changed(self, name: str) -> None:
        """Looks at a topic for all requests that wait for it. The broker calls this after each change."""
        for wait in list(self._by_name.get(name, ())):
            try:
                wait.look(name)
            except Exception:
                logger.exception(
                    "a bug of ours: a request that waits for a topic failed; its connection is closed, "
                    "please report it"
                )
                self.end(wait)
                self._deadlines.fail(wait)

    def look_again(self) -> None:
        """Looks at all topics that requests wait for, after a change of something beside the topics."""
        for name in list(self._by_name):
            self.changed(name)

    def forget_name(self, wait: TopicWait, name: str) -> None:
        """Ends a request's wait for one topic."""
        waits = self._by_name.get(name)
        if waits is not None:
            waits.pop(wait, None)
            if not waits:
                del self._by_name[name]

    def end(self, wait: TopicWait) -> None:
        """Ends a wait without a call; does nothing when it has ended."""
        for name in wait.missing:
            self.forget_name(wait, name)
        self._deadlines.forget(wait)
