"""The first user of a cluster: its name and password, and that one broker alone creates it."""

import logging
from collections.abc import Callable

import pytest

from tank_node.cluster.users.link import NewUser, UserDone, UserOutcome
from tank_node.cluster.users.view import UserView
from tank_node.users.root_credentials import (
    RootCredentials,
    RootCredentialsError,
    RootOrigin,
    root_credentials,
)
from tank_node.users.root_founder import RootUserFounder
from tank_protos.error_codes import ErrorCode
from tank_protos.users.permissions import Permissions
from tank_protos.users.secret import Secret
from tests.node.users.users_for_tests import StagedPasswords, hashed, user, view_of


def credentials(
    environment: dict[str, str] | None = None, file_text: str | None = None, *, loopback_only: bool = False
) -> RootCredentials:
    return root_credentials(environment or {}, file_text, loopback_only=loopback_only, random=bytes)


def test_on_loopback_it_is_iggys_default() -> None:
    found = credentials(loopback_only=True)
    assert found == RootCredentials("iggy", Secret(b"iggy"), RootOrigin.LOOPBACK)


def test_elsewhere_it_is_generated() -> None:
    found = credentials()
    assert (found.name, found.origin) == ("iggy", RootOrigin.GENERATED)
    assert found.password == Secret(b"A" * 24)


@pytest.mark.parametrize("loopback_only", [False, True])
def test_what_is_configured_comes_first(loopback_only: bool) -> None:
    environment = {"IGGY_ROOT_USERNAME": "admin", "IGGY_ROOT_PASSWORD": "pass:word"}
    expected = RootCredentials("admin", Secret(b"pass:word"), RootOrigin.CONFIGURED)
    assert credentials(environment, loopback_only=loopback_only) == expected
    by_file = RootCredentials("boss", Secret(b"open:sesame "), RootOrigin.CONFIGURED)
    assert credentials(environment, "boss:open:sesame \n", loopback_only=loopback_only) == by_file
    named = credentials({"IGGY_ROOT_USERNAME": "admin"}, loopback_only=loopback_only)
    assert named.name == "admin"


@pytest.mark.parametrize(
    ("environment", "file_text"),
    [
        ({"IGGY_ROOT_PASSWORD": "xy"}, None),
        ({"IGGY_ROOT_USERNAME": "", "IGGY_ROOT_PASSWORD": "password"}, None),
        ({}, "nothing but a password"),
        ({}, "iggy:xy"),
        ({}, ""),
    ],
)
def test_what_can_be_no_password_is_refused_and_not_shown(
    environment: dict[str, str], file_text: str | None
) -> None:
    with pytest.raises(RootCredentialsError) as refused:
        credentials(environment, file_text)
    assert "xy" not in str(refused.value)
    assert "but a password" not in str(refused.value)


class StagedControllers:
    """Implements the part of `UserRequests` that a founder uses."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, UserDone]] = []

    def found_root(self, name: str, password_hash: str, done: UserDone) -> None:
        self.asked.append((name, password_hash, done))

    def answer(self, error: ErrorCode) -> None:
        self.asked.pop(0)[2](UserOutcome(error))

    def create_user(self, user: NewUser, done: UserDone) -> None: ...
    def delete_user(self, user: UserView, done: UserDone) -> None: ...
    def update_user(self, user: UserView, name: str | None, active: bool | None, done: UserDone) -> None: ...
    def change_password(self, user: UserView, password_hash: str, done: UserDone) -> None: ...
    def update_permissions(self, user: UserView, permissions: Permissions | None, done: UserDone) -> None: ...
    def create_token(
        self, user: UserView, name: str, digest: bytes, expires_us: int, done: UserDone
    ) -> None: ...
    def delete_token(self, user: UserView, name: str, done: UserDone) -> None: ...


class Founding:
    """A founder of a broker whose view has these users."""

    def __init__(self, *users: UserView, origin: RootOrigin = RootOrigin.GENERATED) -> None:
        self.view = view_of(*users)
        self.passwords = StagedPasswords()
        self.controllers = StagedControllers()
        self.told: list[tuple[str, bytes]] = []
        given = RootCredentials("iggy", Secret(b"generated"), origin)
        self.founder = RootUserFounder(self.view, self.controllers, self.passwords, given, self._tell)
        self.look: Callable[[], None] = self.founder.look

    def _tell(self, name: str, password: Secret) -> None:
        self.told.append((name, password.reveal()))


def test_a_generated_password_is_told_once_when_it_is_the_root_users(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    broker = Founding()
    broker.look()
    broker.look()
    broker.passwords.run()
    broker.look()
    assert [asked[:2] for asked in broker.controllers.asked] == [("iggy", hashed("generated"))]
    assert not broker.told
    broker.controllers.answer(ErrorCode.NONE)
    broker.look()
    assert broker.told == [("iggy", b"generated")]
    assert not broker.controllers.asked
    assert not broker.passwords.waiting
    assert "root user iggy was created" in caplog.text
    assert "generated" not in caplog.text


def test_a_configured_password_is_not_told() -> None:
    broker = Founding(origin=RootOrigin.CONFIGURED)
    broker.look()
    broker.passwords.run()
    broker.controllers.answer(ErrorCode.NONE)
    assert not broker.told


def test_where_there_is_a_root_user_nothing_is_asked() -> None:
    broker = Founding(user(0, "iggy"))
    broker.look()
    assert not broker.passwords.waiting


def test_the_second_broker_accepts_what_the_first_has_founded() -> None:
    broker = Founding()
    broker.look()
    broker.passwords.run()
    broker.controllers.answer(ErrorCode.USER_EXISTS)
    broker.look()
    assert not broker.told
    assert not broker.controllers.asked


def test_a_try_that_failed_is_made_again_with_the_same_hash_although_the_view_has_a_root_user_by_then() -> (
    None
):
    """The answer of the first try was lost: the second one finds out whose root user it is."""
    broker = Founding()
    broker.passwords.is_full = True
    broker.look()
    broker.passwords.run()
    assert not broker.controllers.asked
    broker.passwords.is_full = False
    broker.look()
    broker.passwords.run()
    broker.controllers.answer(ErrorCode.TIMED_OUT)
    broker.view.put([user(0, "iggy", "generated")])
    broker.look()
    assert not broker.passwords.waiting
    assert [asked[:2] for asked in broker.controllers.asked] == [("iggy", hashed("generated"))]
    broker.controllers.answer(ErrorCode.NONE)
    assert broker.told == [("iggy", b"generated")]
