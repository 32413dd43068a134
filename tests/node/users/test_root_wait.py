"""Logins before a cluster has users: they wait for the root user, and are never judged without it."""

from collections import Counter
from collections.abc import Callable

import pytest

from tank_node.cluster.users.view import UsersView
from tank_node.users.limits import ROOT_LOGINS_WAITING, ROOT_LOOK_MS, ROOT_WAIT_MS
from tank_node.users.logins import LoginOutcome, LoginRefusal, UserLogins
from tank_node.users.reachable_logins import ReachableLogins
from tank_node.users.recent_logins import RecentLogins
from tank_protos.users.secret import Secret
from tests.node.users.users_for_tests import StagedPasswords, user, with_token
from tests.support.manual_clock import ManualClock

HOST = "10.0.0.1"


class NewCluster:
    """A broker of a cluster without users."""

    def __init__(self, kind: type[UserLogins] = UserLogins) -> None:
        self.users = UsersView()
        self.passwords = StagedPasswords()
        self.clock = ManualClock()
        self.counts: Counter[str] = Counter()
        self.timers: list[tuple[int, Callable[[], None]]] = []
        recent = RecentLogins(b"k" * 16)
        self.logins = kind(self.users, self.passwords, recent, self.clock, self._later, self.counts)
        self.told: list[LoginOutcome] = []

    def by_password(self, password: str) -> None:
        self.logins.by_password("iggy", Secret(password.encode()), HOST, self.told.append)

    def by_token(self, token: str) -> None:
        self.logins.by_token(Secret(token.encode()), HOST, self.told.append)

    def pass_ms(self, ms: int) -> None:
        """Time passes, and all that is due is done."""
        for _ in range(0, ms, ROOT_LOOK_MS):
            self.clock.pass_ms(ROOT_LOOK_MS)
            now_ms = self.clock.monotonic_ms()
            due = [each for each in self.timers if each[0] <= now_ms]
            self.timers = [each for each in self.timers if each[0] > now_ms]
            for _, call in due:
                call()
            self.passwords.run()

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self.timers.append((self.clock.monotonic_ms() + delay_ms, call))


def test_a_login_waits_until_a_broker_has_created_the_root_user() -> None:
    at = NewCluster()
    at.by_password("secret")
    at.pass_ms(ROOT_WAIT_MS // 2)
    assert not at.told
    assert not at.passwords.checked
    at.users.put([user(0, "iggy")])
    at.pass_ms(2 * ROOT_LOOK_MS)
    assert [each.user is not None for each in at.told] == [True]
    assert not at.timers, "the look goes on without a login that waits"


def test_a_wrong_password_is_called_wrong_when_there_are_users() -> None:
    at = NewCluster()
    at.by_password("other")
    at.users.put([user(0, "iggy")])
    at.pass_ms(2_000)
    assert [each.refusal for each in at.told] == [LoginRefusal.WRONG_CREDENTIALS]


def test_a_token_waits_too() -> None:
    at = NewCluster()
    at.by_token("t")
    at.pass_ms(1_000)
    assert not at.told
    at.users.put([with_token(user(0, "iggy"), "t")])
    at.pass_ms(ROOT_LOOK_MS)
    assert [each.user is not None for each in at.told] == [True]


def test_it_waits_no_longer_than_its_bound_each_for_itself() -> None:
    at = NewCluster()
    at.by_password("secret")
    at.pass_ms(ROOT_WAIT_MS - 1_000)
    at.by_password("secret")
    at.pass_ms(500)
    assert not at.told
    at.pass_ms(500 + ROOT_LOOK_MS)
    assert [each.refusal for each in at.told] == [LoginRefusal.NO_USERS]
    assert at.counts == {"no_users": 1}
    at.pass_ms(ROOT_WAIT_MS)
    assert len(at.told) == 2
    assert not at.timers


def test_no_more_wait_than_their_bound() -> None:
    at = NewCluster()
    for _ in range(ROOT_LOGINS_WAITING):
        at.by_password("secret")
    assert not at.told
    at.by_password("secret")
    assert [each.refusal for each in at.told] == [LoginRefusal.OVERLOADED]
    assert len(at.timers) == 1


@pytest.mark.parametrize("kind", [UserLogins, ReachableLogins])
def test_the_default_password_stays_none_for_those_who_waited_at_a_reachable_listener(
    kind: type[UserLogins],
) -> None:
    at = NewCluster(kind)
    at.by_password("iggy")
    at.users.put([user(0, "iggy", "iggy")])
    at.pass_ms(2_000)
    refused = [each.refusal for each in at.told] == [LoginRefusal.WRONG_CREDENTIALS]
    assert refused is (kind is ReachableLogins)
