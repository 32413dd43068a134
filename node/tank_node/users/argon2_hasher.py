"""Hashes of passwords by argon2id. Each call takes some 20 ms and `HASH_KIB` of memory."""

import secrets
from collections.abc import Callable
from typing import Final

from argon2.exceptions import Argon2Error, InvalidHashError, VerifyMismatchError
from argon2.low_level import Type, hash_secret, verify_secret

from tank_node.users.limits import HASH_KIB, HASH_LANES, HASH_PASSES
from tank_protos.users.secret import Secret

SALT_BYTES: Final = 16
KEY_BYTES: Final = 32


class HashingFailed(Exception):
    """A hash could not be computed, mostly for want of memory. It says nothing about the password."""


class Argon2Hasher:
    """Makes and checks the hashes that the cluster keeps. Any thread may call it."""

    def __init__(
        self,
        kib: int = HASH_KIB,
        passes: int = HASH_PASSES,
        random: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`kib`, `passes`: what a new hash costs; a check costs what its hash says. `random`: the salts."""
        self._kib = kib
        self._passes = passes
        self._random = random

    def hash(self, password: Secret) -> str:
        """The hash of a password, with a new salt, in argon2's text form. Raises HashingFailed."""
        try:
            encoded = hash_secret(
                password.reveal(),
                self._random(SALT_BYTES),
                time_cost=self._passes,
                memory_cost=self._kib,
                parallelism=HASH_LANES,
                hash_len=KEY_BYTES,
                type=Type.ID,
            )
        except Argon2Error as error:
            raise HashingFailed(str(error)) from None
        return encoded.decode()

    def matches(self, encoded: str, password: Secret) -> bool:
        """Whether the hash is that of the password. Raises HashingFailed."""
        try:
            return verify_secret(encoded.encode(), password.reveal(), Type.ID)
        except VerifyMismatchError:
            return False
        except (Argon2Error, InvalidHashError) as error:
            raise HashingFailed(str(error)) from None
