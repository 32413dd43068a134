"""The bounds of logins, each with its reason. Times are milliseconds."""

from typing import Final

HASH_KIB: Final = 19 * 1024
HASH_PASSES: Final = 2
HASH_LANES: Final = 1
"""What the hash of a new password takes: the least that OWASP's cheat sheet on password storage names for
argon2id (19 MiB, 2 passes, 1 lane), some 20 ms of a processor. A stolen snapshot is worth guessing at 50
passwords a second and processor; a login of a broker must not cost seconds."""

PASSWORD_THREADS: Final = 2
"""Hashes at a time: so many times `HASH_KIB`, and so many processors that clients may keep busy."""

PASSWORDS_WAITING: Final = 256
"""Hashes that wait or are under way: some 3 s of work of two threads. Clients wait longer, but they try again
after an answer that says that the broker is busy."""

CHECKS_SHARED: Final = 16_384
"""Callers that wait for an equal check together: all connections of a broker a few times."""

RECENT_LOGINS: Final = 1_024
"""Logins that are remembered: some 100 bytes each."""
RECENT_LOGINS_MS: Final = 60_000
"""How long one is: all processes of an application that were cut off are back by then."""

FAILURE_SHORTEST_MS: Final = 200
FAILURE_LONGEST_MS: Final = 1_000
"""How long the answer to a failed login is held back; it doubles with each failure. A person who mistypes
hardly notices."""
FAILURES_KEPT: Final = 4_096
"""Pairs of name and host whose failures are counted: some 200 bytes each."""
FAILURES_KEPT_MS: Final = 60_000
"""After so long without a failure the count of a pair begins anew."""
ROOT_WAIT_MS: Final = 15_000
"""How long a login waits for the root user of a new cluster, which is there some seconds after the first
start. It is half of the time that Iggy's clients wait for an answer."""
ROOT_LOOK_MS: Final = 100
"""How often logins that wait look for the root user: at most so much is added to their time."""
ROOT_LOGINS_WAITING: Final = 4_096
"""Logins that wait at a time: some 1 KiB each."""
ANSWERS_HELD: Final = 1_024
"""Answers that are held back at a time: each keeps its connection's request in memory."""
