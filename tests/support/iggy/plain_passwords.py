"""Passwords of Iggy's users without argon2: hashed at once, and not well."""

from base64 import b64encode
from collections.abc import Callable
from hashlib import sha256

from tank_node.users.password_threads import PasswordVerdict
from tank_protos.users.secret import Secret


def plain_hash(password: Secret) -> str:
    """Stands for a hash of argon2, whose form it has."""
    digest = b64encode(sha256(password.reveal()).digest()).decode().rstrip("=")
    return f"$argon2id$v=19$m=19456,t=2,p=1$AAECAwQFBgcICQoLDA0ODw${digest}"


class PlainPasswords:
    """Hashes at once, and not well."""

    def check(self, encoded: str, password: Secret, done: Callable[[PasswordVerdict], None]) -> None:
        done(PasswordVerdict.RIGHT if encoded == plain_hash(password) else PasswordVerdict.WRONG)

    def make(self, password: Secret, done: Callable[[str | None], None]) -> None:
        done(plain_hash(password))
