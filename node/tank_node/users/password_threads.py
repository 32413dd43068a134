"""Threads that hash passwords, so that the event loop doesn't: one hash takes as long as thousands of
requests."""

import contextlib
import threading
from collections.abc import Callable
from enum import Enum
from queue import SimpleQueue
from typing import Protocol, TypeAlias

from tank_node.users.argon2_hasher import HashingFailed
from tank_node.users.limits import CHECKS_SHARED, PASSWORD_THREADS, PASSWORDS_WAITING
from tank_protos.users.secret import Secret

Posting: TypeAlias = Callable[[Callable[[], None]], None]


class Hasher(Protocol):
    """Makes and checks hashes, in any thread. Both methods raise HashingFailed."""

    def hash(self, password: Secret) -> str:
        """The hash of a password."""

    def matches(self, encoded: str, password: Secret) -> bool:
        """Whether the hash is that of the password."""


class PasswordVerdict(Enum):
    """What came of the check of a password."""

    RIGHT = "right"
    WRONG = "wrong"
    NOT_CHECKED = "not_checked"
    """Too many wait, or the memory for a hash is missing."""


class Passwords(Protocol):
    """Checks and makes hashes without holding up the event loop."""

    def check(self, encoded: str, password: Secret, done: Callable[[PasswordVerdict], None]) -> None:
        """As `PasswordThreads.check`."""

    def make(self, password: Secret, done: Callable[[str | None], None]) -> None:
        """As `PasswordThreads.make`."""


class PasswordThreads:
    """Checks and makes hashes in a few threads, in the order of the calls. Only the event loop's thread calls
    its methods.

    Equal checks that wait, or are under way, are one: after a broker's restart all processes of an
    application log in at the same moment with the same password.
    """

    def __init__(
        self, post: Posting, hasher: Hasher, *, threads: int = PASSWORD_THREADS, most: int = PASSWORDS_WAITING
    ) -> None:
        """`post`: runs a function on the event loop soon; called from any thread. `most`: hashes that may
        wait or be under way.
        """
        self._post = post
        self._hasher = hasher
        self._most_threads = threads
        self._most = most
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._waiting = 0
        """Hashes that wait or are under way."""
        self._checks: dict[tuple[str, bytes], list[Callable[[PasswordVerdict], None]]] = {}
        """By hash and password: who waits for the check. Nothing shows the keys."""
        self._sharing = 0
        """The number of all those."""
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many hashes wait or are under way."""
        return self._waiting

    def check(self, encoded: str, password: Secret, done: Callable[[PasswordVerdict], None]) -> None:
        """Checks a password against a hash; `done` gets the verdict, once, on the loop, at once or later."""
        key = (encoded, password.reveal())
        if (sharers := self._checks.get(key)) is not None and self._sharing < CHECKS_SHARED:
            sharers.append(done)
            self._sharing += 1
            return
        if sharers is not None or not self._has_room():
            done(PasswordVerdict.NOT_CHECKED)
            return
        self._checks[key] = [done]
        self._sharing += 1

        def work() -> None:
            verdict = self._judge(encoded, password)
            self._tell(lambda: self._checked(key, verdict))

        self._submit(work)

    def make(self, password: Secret, done: Callable[[str | None], None]) -> None:
        """Hashes a new password; `done` gets the hash, once, on the loop, at once or later; None: too many
        wait, or memory is missing.
        """
        if not self._has_room():
            done(None)
            return

        def work() -> None:
            encoded = self._hash(password)
            self._tell(lambda: self._made(encoded, done))

        self._submit(work)

    def close(self) -> None:
        """Takes nothing more. Hashes that wait are dropped without an answer; the threads end by
        themselves.
        """
        self._closed = True
        for _ in self._threads:
            self._queue.put(None)

    def _has_room(self) -> bool:
        """Whether another hash may be begun: there is a thread for it, and few wait."""
        if self._closed or self._waiting >= self._most:
            return False
        if len(self._threads) < min(self._most_threads, self._waiting + 1):
            thread = threading.Thread(target=self._work, name=f"password-{len(self._threads)}", daemon=True)
            with contextlib.suppress(RuntimeError):  # no more threads: those that run do the work
                thread.start()
                self._threads.append(thread)
        return bool(self._threads)

    def _submit(self, work: Callable[[], None]) -> None:
        self._waiting += 1
        self._queue.put(work)

    # --- in a thread ---

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            if not self._closed:
                job()

    def _judge(self, encoded: str, password: Secret) -> PasswordVerdict:
        try:
            return PasswordVerdict.RIGHT if self._hasher.matches(encoded, password) else PasswordVerdict.WRONG
        except HashingFailed:
            return PasswordVerdict.NOT_CHECKED

    def _hash(self, password: Secret) -> str | None:
        try:
            return self._hasher.hash(password)
        except HashingFailed:
            return None

    def _tell(self, told: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            self._post(told)

    # --- on the loop again ---

    def _checked(self, key: tuple[str, bytes], verdict: PasswordVerdict) -> None:
        self._waiting -= 1
        sharers = self._checks.pop(key)
        self._sharing -= len(sharers)
        for done in sharers:
            done(verdict)

    def _made(self, encoded: str | None, done: Callable[[str | None], None]) -> None:
        self._waiting -= 1
        done(encoded)
