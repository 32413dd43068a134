"""Passwords that are hashed in threads."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from queue import SimpleQueue

import pytest

from tank_node.users.argon2_hasher import Argon2Hasher, HashingFailed
from tank_node.users.password_threads import PasswordThreads, PasswordVerdict
from tank_protos.users.secret import Secret

RIGHT, WRONG = Secret(b"right"), Secret(b"wrong")
WAIT_S = 60.0


class GatedHasher:
    """Hashes when the test opens the gate."""

    def __init__(self) -> None:
        self.gate = threading.Semaphore(0)
        self.begun: SimpleQueue[bytes] = SimpleQueue()
        self.has_memory = True

    def hash(self, password: Secret) -> str:
        self._pass(password)
        return f"hash of {password.reveal().decode()}"

    def matches(self, encoded: str, password: Secret) -> bool:
        self._pass(password)
        return encoded == f"hash of {password.reveal().decode()}"

    def _pass(self, password: Secret) -> None:
        self.begun.put(password.reveal())
        assert self.gate.acquire(timeout=WAIT_S)
        if not self.has_memory:
            raise HashingFailed("memory allocation error")


class Loop:
    """What threads post, run by the test's thread."""

    def __init__(self) -> None:
        self._posted: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def post(self, call: Callable[[], None]) -> None:
        self._posted.put(call)

    def run(self, count: int = 1) -> None:
        for _ in range(count):
            self._posted.get(timeout=WAIT_S)()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def hasher() -> GatedHasher:
    return GatedHasher()


@pytest.fixture
def passwords(loop: Loop, hasher: GatedHasher) -> Iterator[PasswordThreads]:
    made = PasswordThreads(loop.post, hasher, threads=2, most=4)
    yield made
    made.close()
    for _ in range(16):
        hasher.gate.release()


def test_a_password_is_checked_and_made_in_a_thread(
    loop: Loop, hasher: GatedHasher, passwords: PasswordThreads
) -> None:
    found: list[object] = []
    passwords.check("hash of right", RIGHT, found.append)
    passwords.check("hash of right", WRONG, found.append)
    passwords.make(RIGHT, found.append)
    assert not found
    assert passwords.waiting == 3
    for _ in range(3):
        hasher.gate.release()
    loop.run(3)
    assert sorted(map(str, found)) == ["PasswordVerdict.RIGHT", "PasswordVerdict.WRONG", "hash of right"]
    assert passwords.waiting == 0


def test_two_are_hashed_at_a_time_and_few_wait(
    loop: Loop, hasher: GatedHasher, passwords: PasswordThreads
) -> None:
    found: list[PasswordVerdict] = []
    for number in range(4):
        passwords.check("hash of right", Secret(b"%d" % number), found.append)
    assert {hasher.begun.get(timeout=WAIT_S), hasher.begun.get(timeout=WAIT_S)} == {b"0", b"1"}
    assert hasher.begun.empty(), "there are two threads"
    passwords.check("hash of right", RIGHT, found.append)
    assert found == [PasswordVerdict.NOT_CHECKED], "four wait or are under way"
    made: list[str | None] = []
    passwords.make(RIGHT, made.append)
    assert made == [None]
    hasher.gate.release()
    loop.run()
    passwords.check("hash of right", RIGHT, found.append)
    for _ in range(4):
        hasher.gate.release()
    loop.run(4)
    assert Counter(found) == {
        PasswordVerdict.NOT_CHECKED: 1,
        PasswordVerdict.WRONG: 4,
        PasswordVerdict.RIGHT: 1,
    }


def test_equal_checks_are_one(loop: Loop, hasher: GatedHasher, passwords: PasswordThreads) -> None:
    found: list[PasswordVerdict] = []
    for _ in range(100):
        passwords.check("hash of right", RIGHT, found.append)
    assert passwords.waiting == 1
    hasher.gate.release()
    loop.run()
    assert found == [PasswordVerdict.RIGHT] * 100
    passwords.check("hash of right", RIGHT, found.append)
    hasher.gate.release()
    loop.run()
    assert found == [PasswordVerdict.RIGHT] * 101, "a later one is checked anew"


def test_a_hash_without_memory_says_nothing_of_the_password(
    loop: Loop, hasher: GatedHasher, passwords: PasswordThreads
) -> None:
    hasher.has_memory = False
    found: list[object] = []
    passwords.check("hash of right", RIGHT, found.append)
    passwords.make(RIGHT, found.append)
    hasher.gate.release()
    hasher.gate.release()
    loop.run(2)
    assert sorted(map(str, found)) == ["None", "PasswordVerdict.NOT_CHECKED"]


def test_what_waits_at_the_end_is_dropped(
    loop: Loop, hasher: GatedHasher, passwords: PasswordThreads
) -> None:
    found: list[PasswordVerdict] = []
    for number in range(3):
        passwords.check("hash of right", Secret(b"%d" % number), found.append)
    assert hasher.begun.get(timeout=WAIT_S)
    assert hasher.begun.get(timeout=WAIT_S)
    passwords.close()
    for _ in range(3):
        hasher.gate.release()
    loop.run(2)
    assert hasher.begun.empty(), "the third was not begun"
    passwords.check("hash of right", RIGHT, found.append)
    assert found[-1] is PasswordVerdict.NOT_CHECKED


def test_argon2_tells_right_from_wrong_and_never_hashes_twice_alike() -> None:
    hasher = Argon2Hasher(kib=64, passes=1)
    one, other = hasher.hash(RIGHT), hasher.hash(RIGHT)
    assert one != other
    assert one.startswith("$argon2id$v=19$m=64,t=1,p=1$")
    assert hasher.matches(one, RIGHT)
    assert hasher.matches(other, RIGHT)
    assert not hasher.matches(one, WRONG)
    with pytest.raises(HashingFailed):
        hasher.matches("$argon2id$nonsense", RIGHT)
