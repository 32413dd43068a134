"""What names, passwords and stored hashes of users must be: Iggy's own bounds. Pure.

Controllers judge entries of their log by these rules, so they are a part of its format.
"""

import re
from typing import Final

ROOT: Final = 0
"""The root user's number. It is the first user, and always there."""
NAME_BYTES: Final = range(3, 51)
PASSWORD_BYTES: Final = range(3, 101)
TOKEN_NAME_BYTES: Final = range(3, 31)

HASH_BYTES: Final = 256
"""The most bytes of a password's hash; argon2's own are some 100."""
HASH_KIB: Final = 64 * 1024
HASH_PASSES: Final = 16
HASH_LANES: Final = 4
"""The most memory, passes and lanes that a hash may ask for: each login at each broker pays for them, and
whoever may set a hash could else stop a broker by it."""

_NOT_TEXT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_HASH: Final = re.compile(
    r"\$argon2id\$v=19\$m=([0-9]{1,8}),t=([0-9]{1,4}),p=([0-9]{1,3})"
    r"\$[A-Za-z0-9+/]{11,86}\$[A-Za-z0-9+/]{22,86}"
)


def user_name_problem(name: str) -> str | None:
    """The rule that a user's name breaks, as an error message; None: the name is valid."""
    return _name_problem(name, NAME_BYTES, "a user's name")


def token_name_problem(name: str) -> str | None:
    """The rule that a token's name breaks, as an error message; None: the name is valid."""
    return _name_problem(name, TOKEN_NAME_BYTES, "a token's name")


def password_problem(length: int) -> str | None:
    """The rule that a password of so many bytes breaks, as an error message; None: it is valid."""
    if length in PASSWORD_BYTES:
        return None
    return f"a password has {PASSWORD_BYTES.start} to {PASSWORD_BYTES.stop - 1} bytes"


def password_hash_problem(encoded: str) -> str | None:
    """The rule that the hash of a password breaks, as an error message that doesn't show it; None: it is
    valid."""
    found = _HASH.fullmatch(encoded) if len(encoded) <= HASH_BYTES else None
    if found is None:
        return "a password is kept as its argon2id hash of version 19, in the usual text form"
    kib, passes, lanes = (int(number) for number in found.groups())
    if 8 * lanes <= kib <= HASH_KIB and 1 <= passes <= HASH_PASSES and 1 <= lanes <= HASH_LANES:
        return None
    return (
        f"a password's hash takes at most {HASH_KIB} KiB, {HASH_PASSES} passes and {HASH_LANES} lanes: every "
        "login pays for them"
    )


def _name_problem(name: str, length: range, what: str) -> str | None:
    if not _NOT_TEXT.search(name) and len(name.encode()) in length:
        return None
    return f"{what} has {length.start} to {length.stop - 1} bytes of text without control characters"
