"""What names, passwords and hashes of users must be."""

import pytest

from tank_protos.users.rules import (
    password_hash_problem,
    password_problem,
    token_name_problem,
    user_name_problem,
)

TAIL = "$c2FsdHNhbHRzYWx0$" + "A" * 43


@pytest.mark.parametrize("name", ["bob", "x" * 50, "é" * 25, "a b", "iggy"])
def test_users_may_be_called(name: str) -> None:
    assert user_name_problem(name) is None


@pytest.mark.parametrize("name", ["", "ab", "x" * 51, "é" * 26, "bob\n", "b\x00b", "bo\ud800"])
def test_users_may_not_be_called(name: str) -> None:
    assert user_name_problem(name) == "a user's name has 3 to 50 bytes of text without control characters"


def test_tokens_have_shorter_names() -> None:
    assert token_name_problem("x" * 30) is None
    assert "3 to 30 bytes" in (token_name_problem("x" * 31) or "")


@pytest.mark.parametrize(("length", "valid"), [(2, False), (3, True), (100, True), (101, False)])
def test_passwords_have_bounds(length: int, valid: bool) -> None:
    assert (password_problem(length) is None) is valid


@pytest.mark.parametrize("cost", ["m=19456,t=2,p=1", "m=65536,t=16,p=4", "m=8,t=1,p=1"])
def test_a_hash_may_cost(cost: str) -> None:
    assert password_hash_problem(f"$argon2id$v=19${cost}{TAIL}") is None


@pytest.mark.parametrize(
    "cost", ["m=65537,t=1,p=1", "m=19456,t=17,p=1", "m=19456,t=2,p=5", "m=7,t=1,p=1", "m=8,t=0,p=1"]
)
def test_a_hash_may_not_cost(cost: str) -> None:
    assert "every login pays" in (password_hash_problem(f"$argon2id$v=19${cost}{TAIL}") or "")


@pytest.mark.parametrize(
    "encoded",
    [
        "",
        "secret",
        f"$argon2i$v=19$m=19456,t=2,p=1{TAIL}",
        f"$argon2id$v=16$m=19456,t=2,p=1{TAIL}",
        f"$argon2id$v=19$m=19456,t=2,p=1{TAIL}$",
        f"$argon2id$v=19$m=19456,t=2,p=1{TAIL}" + "A" * 200,
        f"$argon2id$v=19$m=19456,t=2,p=1{TAIL}\n",
    ],
)
def test_what_is_no_hash_is_refused_and_not_shown(encoded: str) -> None:
    problem = password_hash_problem(encoded)
    assert problem is not None
    assert not encoded or encoded not in problem
