"""Personal access tokens."""

from hashlib import sha256

from tank_protos.users.secret import Secret
from tank_protos.users.tokens import NEVER_US, is_expired, token_digest, token_of


def test_a_token_is_its_random_bytes_as_text() -> None:
    token = token_of(bytes(range(224, 256)))
    assert token.reveal() == b"4OHi4-Tl5ufo6err7O3u7_Dx8vP09fb3-Pn6-_z9_v8"
    assert token_digest(token) == sha256(token.reveal()).digest()
    assert token_digest(Secret(b"x")) != token_digest(token)


def test_a_token_expires_at_its_moment_or_never() -> None:
    assert not is_expired(NEVER_US, 1 << 62)
    assert not is_expired(1000, 999)
    assert is_expired(1000, 1000)
