"""Logins by password and by token: who is let in, how long failures take, and what ends a session."""

import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest

from tank_node.cluster.users.view import UserView
from tank_node.users.failure_delays import FailureDelays
from tank_node.users.limits import ANSWERS_HELD, FAILURES_KEPT_MS, HASH_KIB, HASH_PASSES, RECENT_LOGINS_MS
from tank_node.users.logins import (
    ANONYMOUS_USER,
    NOBODYS_HASH,
    LoggedIn,
    LoginOutcome,
    LoginRefusal,
    UserLogins,
)
from tank_node.users.reachable_logins import ReachableLogins
from tank_node.users.recent_logins import RecentLogins
from tank_protos.users.rules import password_hash_problem
from tank_protos.users.secret import Secret
from tank_protos.users.tokens import token_digest
from tests.node.users.users_for_tests import StagedPasswords, hashed, user, view_of, with_token
from tests.support.manual_clock import ManualClock

NOW_US = 1_700_000_000_000_000
SECOND_US = 1_000_000


class Timers:
    """Calls for later, made when the test says so."""

    def __init__(self) -> None:
        self.delays: list[int] = []
        self._calls: list[Callable[[], None]] = []

    def later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.delays.append(delay_ms)
        self._calls.append(call)

    def run(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            call()


class Logins:
    """The logins of a broker whose view has these users."""

    def __init__(self, *users: UserView, kind: type[UserLogins] = UserLogins) -> None:
        self.users = view_of(user(0, "iggy"), *users)
        self.passwords = StagedPasswords()
        self.clock = ManualClock()
        self.timers = Timers()
        self.counts: Counter[str] = Counter()
        self.logins = kind(
            self.users,
            self.passwords,
            RecentLogins(b"k" * 16),
            self.clock,
            self.timers.later,
            self.counts,
        )
        self.told: list[LoginOutcome] = []

    def by_password(self, name: str, password: str, host: str = "10.0.0.1") -> None:
        self.logins.by_password(name, Secret(password.encode()), host, self.told.append)

    def judged(self, name: str, password: str) -> LoginOutcome:
        """The outcome, when all delays are over."""
        self.by_password(name, password)
        self.passwords.run()
        self.timers.run()
        return self.told.pop()

    def by_token(self, token: str) -> LoginOutcome:
        self.logins.by_token(Secret(token.encode()), "10.0.0.1", self.told.append)
        self.timers.run()
        return self.told.pop()


def test_the_right_password_lets_a_user_in_when_a_thread_has_checked_it() -> None:
    broker = Logins(user(1, "alice", "wonder"))
    broker.by_password("alice", "wonder")
    assert not broker.told
    broker.passwords.run()
    assert broker.told == [LoginOutcome(None, LoggedIn(1, "alice", 11, 11))]
    assert broker.counts == {"ok": 1}


def test_a_login_that_was_proved_a_moment_ago_costs_no_hash() -> None:
    broker = Logins(user(1, "alice", "wonder"))
    broker.judged("alice", "wonder")
    broker.by_password("alice", "wonder")
    assert broker.told.pop().user is not None
    assert len(broker.passwords.checked) == 1
    broker.by_password("alice", "wander")
    assert len(broker.passwords.checked) == 2, "another password is checked"
    broker.clock.pass_ms(RECENT_LOGINS_MS)
    broker.by_password("alice", "wonder")
    assert len(broker.passwords.checked) == 3


def test_a_new_password_makes_the_old_one_wrong_at_once() -> None:
    broker = Logins(user(1, "alice", "wonder"))
    broker.judged("alice", "wonder")
    alice = broker.users.by_number(1)
    assert alice is not None
    broker.users.put([replace(alice, password_hash=hashed("hatter"), credentials_index=20)])
    assert broker.judged("alice", "wonder").refusal is LoginRefusal.WRONG_CREDENTIALS
    assert broker.judged("alice", "hatter").user == LoggedIn(1, "alice", 11, 20)


def test_a_password_that_changes_while_it_is_checked_lets_nobody_in() -> None:
    broker = Logins(user(1, "alice", "wonder"))
    broker.by_password("alice", "wonder")
    broker.users.put([user(1, "alice", "wonder", born=30)])
    broker.passwords.run()
    broker.timers.run()
    assert broker.told.pop().refusal is LoginRefusal.WRONG_CREDENTIALS


def test_unknown_users_look_like_known_ones_with_a_wrong_password() -> None:
    broker = Logins(user(1, "alice"))
    for name in ("alice", "mallory"):
        broker.by_password(name, "wrong")
        assert len(broker.passwords.waiting) == 1, "a hash is made for both"
        broker.passwords.run()
    assert broker.timers.delays == [200, 200]
    broker.timers.run()
    assert broker.told == [LoginOutcome(LoginRefusal.WRONG_CREDENTIALS)] * 2
    assert broker.counts == {"wrong_credentials": 2}
    assert password_hash_problem(NOBODYS_HASH) is None
    assert f"m={HASH_KIB},t={HASH_PASSES},p=1$" in NOBODYS_HASH, "it takes as long as another"


def test_a_password_longer_than_any_is_not_hashed() -> None:
    broker = Logins()
    broker.by_password("iggy", "x" * 101)
    assert not broker.passwords.waiting
    broker.timers.run()
    assert broker.told.pop().refusal is LoginRefusal.WRONG_CREDENTIALS


def test_who_is_inactive_is_told_so_after_the_right_password_alone() -> None:
    broker = Logins(replace(user(1, "alice", "wonder"), active=False))
    assert broker.judged("alice", "wrong").refusal is LoginRefusal.WRONG_CREDENTIALS
    assert broker.judged("alice", "wonder").refusal is LoginRefusal.INACTIVE
    assert broker.judged("alice", "wonder").refusal is LoginRefusal.INACTIVE, "also without a hash"


def test_a_token_lets_its_user_in_until_it_expires() -> None:
    alice = with_token(with_token(user(1, "alice"), "for ever"), "short", NOW_US + SECOND_US)
    broker = Logins(alice)
    assert broker.by_token("for ever").user == LoggedIn(1, "alice", 11, 0, alice.tokens[0].digest)
    short = broker.by_token("short").user
    assert short is not None
    assert broker.logins.is_current(short)
    broker.clock.pass_ms(1000)
    assert not broker.logins.is_current(short)
    assert broker.by_token("short").refusal is LoginRefusal.EXPIRED_TOKEN
    assert broker.by_token("nonsense").refusal is LoginRefusal.WRONG_TOKEN
    broker.users.put([replace(alice, active=False)])
    assert broker.by_token("for ever").refusal is LoginRefusal.INACTIVE


def test_a_session_ends_with_what_proved_it() -> None:
    alice = with_token(user(1, "alice", "wonder"), "token")
    broker = Logins(alice)
    by_password, by_token = broker.judged("alice", "wonder").user, broker.by_token("token").user
    assert by_password is not None
    assert by_token is not None

    def current(*now: UserView) -> tuple[bool, bool]:
        broker.users.put(now, () if now else (1,))
        return broker.logins.is_current(by_password), broker.logins.is_current(by_token)

    assert current(alice) == (True, True)
    assert current(replace(alice, name="alicia")) == (True, True)
    assert current(replace(alice, password_hash="other", credentials_index=50)) == (False, True)
    assert current(replace(alice, tokens=())) == (True, False)
    assert current(replace(alice, active=False)) == (False, False)
    assert current(replace(alice, born=60)) == (False, False), "another user has the number"
    assert current() == (False, False)
    assert broker.logins.is_current(ANONYMOUS_USER)


def test_who_changes_the_own_password_goes_on() -> None:
    alice = with_token(user(1, "alice", "wonder"), "token")
    broker = Logins(alice)
    who, by_token = broker.judged("alice", "wonder").user, broker.by_token("token").user
    assert who is not None
    assert by_token is not None
    broker.users.put([replace(alice, password_hash="other", credentials_index=50)])
    assert broker.logins.is_current(broker.logins.after_own_change(who, "other"))
    assert broker.logins.after_own_change(by_token, "other") == by_token
    for another in ("", "of a third user, or replaced by now"):
        assert not broker.logins.is_current(broker.logins.after_own_change(who, another))
    broker.users.put([user(1, "other", born=60)])
    assert not broker.logins.is_current(broker.logins.after_own_change(who, "other"))


def test_failures_of_one_client_take_longer_each_time() -> None:
    broker = Logins(user(1, "alice", "wonder"))
    for _ in range(5):
        broker.judged("alice", "wrong")
    assert broker.timers.delays == [200, 400, 800, 1000, 1000]
    broker.by_password("alice", "wrong", "10.0.0.2")
    broker.passwords.run()
    assert broker.timers.delays[5:] == [200], "another host"
    broker.judged("alice", "wonder")
    broker.judged("alice", "wrong")
    assert broker.timers.delays[6:] == [200], "a login in between forgets them"


def test_what_is_full_says_so_at_once() -> None:
    broker = Logins(user(1, "alice", "wonder"))
    broker.passwords.is_full = True
    broker.by_password("alice", "wonder")
    broker.passwords.run()
    assert broker.told.pop().refusal is LoginRefusal.OVERLOADED
    for _ in range(ANSWERS_HELD):
        broker.logins.by_token(Secret(b"nonsense"), "10.0.0.3", broker.told.append)
    assert not broker.told
    broker.logins.by_token(Secret(b"nonsense"), "10.0.0.3", broker.told.append)
    assert broker.told.pop().refusal is LoginRefusal.OVERLOADED
    broker.timers.run()
    assert len(broker.told) == ANSWERS_HELD
    assert broker.counts == {"overloaded": 2, "wrong_token": ANSWERS_HELD}


def test_no_line_of_the_log_and_no_text_of_an_outcome_has_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    alice = with_token(user(1, "alice", "wonder"), "topsecret")
    broker = Logins(alice)
    outcomes = [
        broker.judged("alice", "wonder"),
        broker.judged("alice", "wunderlich"),
        broker.judged("typed-in-the-wrong-field", "wonder"),
        broker.by_token("topsecret"),
        broker.by_token("topsecrets"),
    ]
    shown = caplog.text + repr(outcomes) + repr(alice) + repr(broker.users.all())
    assert "alice" in shown
    digest = token_digest(Secret(b"topsecret"))
    for secret in (
        "wonder",
        "wunderlich",
        "typed-in",
        "topsecret",
        hashed("wonder"),
        repr(digest),
        digest.hex(),
    ):
        assert secret not in shown, secret


def test_failures_are_forgotten_and_bounded() -> None:
    delays = FailureDelays(most=2)
    assert [delays.failed("a", "h", 0), delays.failed("a", "h", 1)] == [200, 400]
    assert delays.failed("a", "h", 1 + FAILURES_KEPT_MS) == 200
    delays.failed("b", "h", 70_000)
    delays.failed("a", "h", 70_001)
    delays.failed("c", "h", 70_002)
    assert len(delays) == 2
    assert delays.failed("a", "h", 70_003) == 800, "b was forgotten, which failed longest ago"


def test_recent_logins_are_bounded_and_keep_no_password() -> None:
    recent = RecentLogins(b"k" * 16, most=2)
    for number in range(3):
        recent.remember(f"hash {number}", Secret(b"password"), number)
    assert len(recent) == 2
    assert [recent.knows(f"hash {number}", Secret(b"password"), 3) for number in range(3)] == [
        False,
        True,
        True,
    ]
    assert not recent.knows("hash 1p", Secret(b"assword"), 3), "hash and password are apart"
    assert not RecentLogins(b"K" * 16).knows("hash 1", Secret(b"password"), 3)


def test_the_default_password_of_the_root_user_is_none_where_other_machines_reach_the_listener(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A broker on loopback may have founded the user for the whole cluster."""
    local, reached = Logins(user(1, "alice", "iggy")), Logins(user(1, "alice", "iggy"), kind=ReachableLogins)
    for broker in (local, reached):
        broker.users.put([user(0, "boss", "iggy")])
    assert local.judged("boss", "iggy").refusal is None
    assert reached.judged("boss", "iggy") == LoginOutcome(LoginRefusal.WRONG_CREDENTIALS)
    assert "tank iggy user password boss" in caplog.text
    assert len(reached.timers.delays) == 1, "it is held back as any failure"
    assert reached.judged("alice", "iggy").refusal is None, "another user's password is its own affair"
    reached.users.put([user(0, "boss", "a better one")])
    assert reached.judged("boss", "a better one").refusal is None
