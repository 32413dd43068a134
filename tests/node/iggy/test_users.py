"""Users, their permissions and tokens, as Iggy's clients manage them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tank_protos.generated.iggy import (
    ChangePasswordRequest,
    CreateStreamRequest,
    CreateTokenRequest,
    CreateTokenResponse,
    CreateTopicRequest,
    CreateUserRequest,
    DeleteTokenRequest,
    DeleteUserRequest,
    GetStreamRequest,
    GetStreamsRequest,
    GetStreamsResponse,
    GetTokensRequest,
    GetTokensResponse,
    GetTopicsRequest,
    GetTopicsResponse,
    GetUserRequest,
    GetUsersRequest,
    GetUsersResponse,
    LoginSessionResponse,
    LoginSessionWithTokenRequest,
    LoginWithTokenRequest,
    LoginWithTokenResponse,
    UpdatePermissionsRequest,
    UpdateUserRequest,
    UserDetails,
)
from tank_protos.iggy import vsr
from tank_protos.iggy.commands import IggyCode
from tank_protos.iggy.eras import A3, B3, V11, Era
from tank_protos.iggy.identifiers import of_name, of_number
from tank_protos.users.permissions import GlobalRight, Permissions, StreamPermissions, StreamRight
from tests.support.iggy.iggy_line import IggyLine, IggyStatus, logged_in
from tests.support.iggy.iggy_node import IggyNode

ERAS = pytest.mark.parametrize("era", [A3, B3, V11], ids=["A3", "B3", "V11"])
READER = of_name("reader")


@pytest.fixture
def node(tmp_path: Path) -> Iterator[IggyNode]:
    with IggyNode(tmp_path / "data") as node:
        yield node


def of_reader(node: IggyNode, era: Era, password: str = "secret") -> IggyLine:
    line = IggyLine(node, era)
    line.login("reader", password)
    return line


@ERAS
def test_a_user_is_made_shown_changed_and_deleted(node: IggyNode, era: Era) -> None:
    root = logged_in(node, era)
    document = Permissions(GlobalRight.READ_STREAMS).encode(era.base)
    made = CreateUserRequest("reader", "secret", 1, 1, document)
    found = root.ask(made, UserDetails)
    assert (found.user.id, found.user.name, found.user.status) == (era.base + 1, "reader", 1)
    assert bytes(root.ask(GetUserRequest(READER), UserDetails).permissions) == document
    assert [each.name for each in root.ask(GetUsersRequest(), GetUsersResponse).users] == ["iggy", "reader"]
    assert root.refused(CreateUserRequest("reader", "another", 1, 0, b"")) == 46
    root.tell(UpdateUserRequest(READER, 1, "writer", 1, 2))
    assert root.ask(GetUserRequest(of_number(1, era)), UserDetails).user.status == 2
    root.tell(DeleteUserRequest(of_name("writer")))
    assert root.tell(GetUserRequest(of_name("writer"))) == b""


@ERAS
def test_a_user_does_what_its_permissions_say(node: IggyNode, era: Era) -> None:
    root = logged_in(node, era)
    root.tell(CreateStreamRequest(name="main"))
    root.tell(CreateUserRequest("reader", "secret", 1, 0, b""))
    line = of_reader(node, era)
    assert line.ask(GetStreamsRequest(), GetStreamsResponse).streams == []
    for request in (CreateStreamRequest(name="other"), GetUsersRequest(), DeleteUserRequest(READER)):
        assert line.refused(request) == 41
    for stream in ("main", "nowhere"):
        assert line.refused(GetStreamRequest(of_name(stream))) == 41
    document = Permissions(GlobalRight.READ_STREAMS).encode(era.base)
    root.tell(UpdatePermissionsRequest(READER, 1, document))
    assert [each.name for each in line.ask(GetStreamsRequest(), GetStreamsResponse).streams] == ["main"]


@ERAS
@pytest.mark.parametrize("everywhere", [True, False])
def test_who_may_read_topics_may_list_them_without_a_right_to_the_stream(
    node: IggyNode, era: Era, everywhere: bool
) -> None:
    root = logged_in(node, era)
    root.tell(CreateStreamRequest(name="main"))
    root.tell(CreateTopicRequest(stream=of_name("main"), partitions_count=1, name="orders"))
    of_stream = StreamPermissions(0, StreamRight.READ_TOPICS)
    given = (
        Permissions(GlobalRight.READ_TOPICS) if everywhere else Permissions(GlobalRight(0), (of_stream,))
    ).encode(era.base)
    root.tell(CreateUserRequest("reader", "secret", 1, 1, given))
    line = of_reader(node, era)
    assert line.refused(GetStreamRequest(of_name("main"))) == 41
    listed = line.ask(GetTopicsRequest(of_name("main")), GetTopicsResponse).topics
    assert [each.name for each in listed] == ["orders"]
    root.tell(UpdatePermissionsRequest(READER, 1, Permissions(GlobalRight.POLL_MESSAGES).encode(era.base)))
    assert line.refused(GetTopicsRequest(of_name("main"))) == 41


@ERAS
def test_the_root_user_stays(node: IggyNode, era: Era) -> None:
    root = logged_in(node, era)
    assert root.refused(DeleteUserRequest(of_name("iggy"))) == 48
    assert root.refused(UpdatePermissionsRequest(of_name("iggy"), 0, b"")) == 49


@ERAS
def test_a_user_changes_its_password_and_stays_logged_in(node: IggyNode, era: Era) -> None:
    logged_in(node, era).tell(CreateUserRequest("reader", "secret", 1, 0, b""))
    line, other = of_reader(node, era), of_reader(node, era)
    assert line.refused(ChangePasswordRequest(READER, "wrong", "another")) == 42
    line.tell(ChangePasswordRequest(READER, "secret", "another"))
    line.tell(GetStreamsRequest())
    with pytest.raises(IggyStatus, match="40"):
        other.raw(IggyCode.GET_STREAMS)
    of_reader(node, era, "another")


@ERAS
def test_a_token_logs_in(node: IggyNode, era: Era) -> None:
    root = logged_in(node, era)
    token = root.ask(CreateTokenRequest(name="jobs", expiry_us=0), CreateTokenResponse).token
    assert root.refused(CreateTokenRequest(name="jobs", expiry_us=0)) == 51
    listed = root.ask(GetTokensRequest(), GetTokensResponse).tokens
    assert [(each.name, each.expiry_at_us) for each in listed] == [("jobs", 0)]
    line = IggyLine(node, era if era is V11 else B3)
    if era is V11:
        asked = LoginSessionWithTokenRequest(vsr.PROTOCOL, "test", "0.9.0", token, "")
        line.session_number = line.ask(asked, LoginSessionResponse, IggyCode.LOGIN_SESSION).session
    else:
        assert line.ask(LoginWithTokenRequest(token), LoginWithTokenResponse).user_id == 0
    line.tell(GetStreamsRequest())
    root.tell(DeleteTokenRequest("jobs"))
    with pytest.raises(IggyStatus, match="40"):
        line.raw(IggyCode.GET_STREAMS)


def test_what_makes_no_user_is_refused(node: IggyNode) -> None:
    root = logged_in(node, B3)
    assert root.refused(CreateUserRequest("a", "secret", 1, 0, b"")) == 43
    assert root.refused(CreateUserRequest("reader", "a", 1, 0, b"")) == 44
    assert root.refused(CreateUserRequest("reader", "secret", 9, 0, b"")) == 45
    assert root.refused(CreateTokenRequest(name="a", expiry_us=0)) == 50
