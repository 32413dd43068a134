"""Personal access tokens: random bytes that a client sends instead of name and password. Pure.

A cluster keeps the SHA-256 of a token alone. That is enough, unlike for a password: nobody can try all 2^256
tokens, so that a slow hash would protect nothing.
"""

from base64 import urlsafe_b64encode
from hashlib import sha256
from typing import Final

from tank_protos.users.secret import Secret

RANDOM_BYTES: Final = 32
"""As many as a SHA-256 has."""
DIGEST_BYTES: Final = 32
NEVER_US: Final = 0
"""The expiry of a token that does not expire; others are microseconds of the epoch."""


def token_of(random: bytes) -> Secret:
    """The token of RANDOM_BYTES random bytes: 43 characters of the URL-safe alphabet of base 64."""
    assert len(random) == RANDOM_BYTES, len(random)
    return Secret(urlsafe_b64encode(random).rstrip(b"="))


def token_digest(token: Secret) -> bytes:
    """What is kept of a token, and looked up."""
    return sha256(token.reveal()).digest()


def is_expired(expires_us: int, now_us: int) -> bool:
    """Whether a token with this expiry is of no use any more."""
    return expires_us != NEVER_US and expires_us <= now_us
