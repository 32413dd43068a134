"""Logins that succeeded a moment ago, so that the next one with the same password costs no hash. Pure."""

import hmac
from hashlib import sha256

from tank_node.users.limits import RECENT_LOGINS, RECENT_LOGINS_MS
from tank_protos.users.secret import Secret


class RecentLogins:
    """What was proved in the last minute. It keeps no password, but a keyed digest of (hash, password): the
    key is this process's alone, and another hash, as after a change of the password, is another login.
    """

    def __init__(self, key: bytes, most: int = RECENT_LOGINS) -> None:
        """`key`: random bytes, 16 at least."""
        self._key = key
        self._most = most
        self._until_ms: dict[bytes, int] = {}
        """By digest; the login proved last stands last."""

    def __len__(self) -> int:
        return len(self._until_ms)

    def knows(self, encoded: str, password: Secret, monotonic_ms: int) -> bool:
        """Whether this password was right for this hash a moment ago."""
        return self._until_ms.get(self._digest(encoded, password), 0) > monotonic_ms

    def remember(self, encoded: str, password: Secret, monotonic_ms: int) -> None:
        """Notes that the password was right."""
        digest = self._digest(encoded, password)
        self._until_ms.pop(digest, None)
        if len(self._until_ms) >= self._most:
            del self._until_ms[next(iter(self._until_ms))]
        self._until_ms[digest] = monotonic_ms + RECENT_LOGINS_MS

    def _digest(self, encoded: str, password: Secret) -> bytes:
        text = encoded.encode()
        return hmac.new(self._key, len(text).to_bytes(4) + text + password.reveal(), sha256).digest()
