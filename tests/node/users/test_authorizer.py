"""What users may do by the broker's view."""

from dataclasses import replace

from tank_node.users.authorizer import IggyAuthorizer
from tank_node.users.logins import ANONYMOUS_USER, LoggedIn
from tank_node.users.rights import IggyAction
from tank_protos.users.permissions import GlobalRight, Permissions, StreamPermissions, StreamRight
from tests.node.users.users_for_tests import allowed, user, view_of

READER = Permissions(GlobalRight.READ_SERVERS, (StreamPermissions(4, StreamRight.READ_STREAM),))
ALICE = LoggedIn(1, "alice", 11)
ROOT = LoggedIn(0, "iggy", 10)


def test_a_user_may_what_the_present_permissions_allow() -> None:
    users = view_of(user(0, "iggy"), allowed(user(1, "alice"), READER, 400))
    authorizer = IggyAuthorizer(users)
    assert authorizer.allows(ALICE, IggyAction.READ_SERVERS)
    assert authorizer.allows(ALICE, IggyAction.POLL, 400, 410)
    assert not authorizer.allows(ALICE, IggyAction.POLL, 500, 510), "a stream made anew"
    assert not authorizer.allows(ALICE, IggyAction.SEND, 400, 410)
    version = authorizer.version
    users.put([allowed(user(1, "alice"), Permissions(GlobalRight.SEND_MESSAGES))])
    assert authorizer.version > version
    assert not authorizer.allows(ALICE, IggyAction.POLL, 400, 410)
    assert authorizer.allows(ALICE, IggyAction.SEND, 400, 410)


def test_who_is_gone_inactive_or_another_may_nothing() -> None:
    alice = allowed(user(1, "alice"), READER, 400)
    users = view_of(user(0, "iggy"), alice)
    authorizer = IggyAuthorizer(users)
    for now in (replace(alice, active=False), replace(alice, born=99)):
        users.put([now])
        assert not authorizer.allows(ALICE, IggyAction.READ_SERVERS), now
    users.put([], [1])
    assert not authorizer.allows(ALICE, IggyAction.READ_SERVERS)
    assert not authorizer.allows(LoggedIn(7, "nobody", 7), IggyAction.READ_SERVERS)


def test_root_may_everything_whatever_its_document_says() -> None:
    authorizer = IggyAuthorizer(view_of(user(0, "iggy")))
    assert all(authorizer.allows(ROOT, action, 1, 2) for action in IggyAction)
    assert not authorizer.allows(LoggedIn(0, "iggy", 9), IggyAction.POLL, 1, 2), "another cluster's root"


def test_who_never_logs_in_may_use_streams_and_see_no_users() -> None:
    authorizer = IggyAuthorizer(view_of())
    assert authorizer.allows(ANONYMOUS_USER, IggyAction.CREATE_STREAM)
    assert authorizer.allows(ANONYMOUS_USER, IggyAction.SEND, 1, 2)
    assert not authorizer.allows(ANONYMOUS_USER, IggyAction.READ_USERS)


def test_a_document_of_a_newer_version_allows_nothing() -> None:
    users = view_of(replace(user(1, "alice"), permissions=b"\7" * 30))
    assert not IggyAuthorizer(users).allows(ALICE, IggyAction.READ_SERVERS)
