"""Who may use the HTTP API."""

import asyncio
import os
from http import HTTPStatus
from pathlib import Path

import pytest

from tank_protos.http_api.access import Access, is_local
from tank_protos.http_api.errors import ApiError
from tank_protos.http_api.token import Token, TokenError

SECRET = "0123456789abcdef"


def verdict(token: Token, *, changes: bool, local: bool, authorization: str | None = None) -> str:
    """`may`, or the error's code."""
    refusal = ApiError(HTTPStatus.OK, "may", ".")
    try:
        asyncio.run(
            Access(token, "controller").check(changes=changes, local=local, authorization=authorization)
        )
    except ApiError as error:
        refusal = error
    assert refusal.message.endswith(".")
    assert SECRET not in refusal.message
    assert (refusal.headers == {"WWW-Authenticate": "Bearer"}) is (refusal.status is HTTPStatus.UNAUTHORIZED)
    return refusal.code


def wrong_ones(secret: str) -> list[str]:
    """What doesn't let anybody in."""
    longer, shorter = f"Bearer {secret}0", f"Bearer {secret[:-1]}"
    return [longer, shorter, secret, f"Basic {secret}", "", "Bearer", "Bearer \u00e9"]


@pytest.mark.parametrize(
    ("changes", "local", "nothing", "wrong", "right"),
    [
        (False, True, "may", "unauthorized", "may"),
        (False, False, "unauthorized", "unauthorized", "may"),
        (True, True, "unauthorized", "unauthorized", "may"),
        (True, False, "unauthorized", "unauthorized", "may"),
    ],
)
def test_this_machine_reads_and_the_token_does_all(
    changes: bool, local: bool, nothing: str, wrong: str, right: str
) -> None:
    token = Token(text=SECRET)
    assert verdict(token, changes=changes, local=local) == nothing
    for authorization in (f"Bearer {SECRET}", f"bearer  {SECRET} "):
        assert verdict(token, changes=changes, local=local, authorization=authorization) == right
    for authorization in wrong_ones(SECRET):
        assert verdict(token, changes=changes, local=local, authorization=authorization) == wrong


def test_without_a_token_nothing_is_changed_and_nobody_else_reads() -> None:
    assert verdict(Token(), changes=False, local=True) == "may"
    for changes, local in ((True, True), (True, False), (False, False)):
        assert verdict(Token(), changes=changes, local=local) == "no_token_configured"
        given = f"Bearer {SECRET}"
        assert verdict(Token(), changes=changes, local=local, authorization=given) == "no_token_configured"
    with pytest.raises(ApiError, match="--api-token-file") as refusal:
        asyncio.run(Access(Token(), "controller").check(changes=True, local=True, authorization=None))
    assert refusal.value.status == HTTPStatus.FORBIDDEN


def test_a_file_is_read_at_each_use(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    token = Token(file)
    assert verdict(token, changes=True, local=True, authorization=f"Bearer {SECRET}") == "may"
    file.write_text("another secret of sixteen".replace(" ", "-"))
    assert verdict(token, changes=True, local=True, authorization=f"Bearer {SECRET}") == "unauthorized"
    file.unlink()
    given = f"Bearer {SECRET}"
    assert verdict(token, changes=True, local=True, authorization=given) == "token_unreadable"
    assert verdict(token, changes=False, local=True) == "may"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "0 characters: use one of at least 16"),
        (b"fifteen-signs-x\n", "15 characters"),
        (b"two words of a secret", "holds no token"),
        (b"two\nlines-of-a-secret", "holds no token"),
        (b"x" * 5000, "holds no token"),
        (b"\xff" * 20, "can't be read"),
    ],
)
def test_what_is_no_token_is_said_at_the_start(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(TokenError, match=said):
        Token(file).read()
    with pytest.raises(TokenError, match="can't be read"):
        Token(tmp_path).read()


def test_a_short_secret_of_the_environment_is_named_by_its_variable() -> None:
    with pytest.raises(TokenError, match="TANK_API_TOKEN has 3 characters"):
        Token(text="abc").read()
    assert not Token(text=os.environ.get("NO_SUCH_VARIABLE", "")).configured


@pytest.mark.parametrize(
    ("peer", "host", "forwarded", "local"),
    [
        ("127.0.0.1", "127.0.0.1:9091", False, True),
        ("127.0.0.1", "localhost:9091", False, True),
        ("127.0.0.1", "LOCALHOST", False, True),
        ("127.9.9.9", "127.0.0.1", False, True),
        ("::1", "[::1]:9091", False, True),
        ("::ffff:127.0.0.1", "localhost", False, True),
        ("127.0.0.1", "127.0.0.1:9091", True, False),
        ("127.0.0.1", "evil.example:9091", False, False),
        ("127.0.0.1", "localhost.evil.example", False, False),
        ("127.0.0.1", "", False, False),
        ("10.0.0.7", "127.0.0.1:9091", False, False),
        ("::ffff:10.0.0.7", "localhost", False, False),
        ("10.0.0.7", "10.0.0.7:9091", False, False),
        ("", "localhost", False, False),
        ("127.0.0.1", "[::1", False, False),
    ],
)
def test_only_a_program_of_this_machine_is_local(peer: str, host: str, forwarded: bool, local: bool) -> None:
    assert is_local(peer, host, forwarded) is local
