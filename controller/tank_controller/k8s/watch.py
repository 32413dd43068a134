"""Follows one StatefulSet of Kubernetes' API: says what to request next, and keeps the set's last state.
Pure.

First the set is listed, then watched from the list's version on. A watch that ended is begun again from the
last version; when the server has forgotten that version (410 Gone) or sent a malformed answer, the set is
listed again. After a failure the next request waits, longer each time, and the last state stays.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

PAUSE_MS = 200
"""The pause before a watch is begun again, or the set is listed after a watch: a server may end every watch
at once.
"""
FIRST_WAIT_MS = 500
LONGEST_WAIT_MS = 30_000
MAX_REPLICAS = 0xFFFE
"""More than a cluster can have brokers: a greater number of replicas is malformed."""
GONE = 410
REFUSED = (401, 403)


@dataclass(slots=True, frozen=True)
class WatchRequest:
    """The next request."""

    watch: bool
    version: str
    """The version to watch from; empty: list the set."""
    wait_ms: int
    """The pause before the request."""


@dataclass(slots=True, frozen=True)
class SetSeen:
    """A StatefulSet as the API server described it."""

    replicas: int | None
    """How many pods are wanted. None: there is no such set, or it is being deleted. A deletion doesn't mean
    that no pods are wanted: volumes are resized by deleting only the set.
    """
    uid: str = ""
    generation: int = 0
    """Grows with every change of the specification of the set with this UID."""

    def is_before(self, other: "SetSeen") -> bool:
        """Whether this state is known to be older than `other`: a read and a watch may overtake each
        other.
        """
        return bool(self.uid) and self.uid == other.uid and self.generation < other.generation


class MalformedAnswerError(ValueError):
    """An answer of the API server is no StatefulSet, list or change."""


class SetWatch:
    """The state of following one set; the caller makes the requests."""

    def __init__(self, name: str, random: Callable[[int], int]) -> None:
        self.name = name
        self.seen: SetSeen | None = None
        """The set's last state; None: not read yet."""
        self.problem = ""
        """Why the last request failed; empty when it succeeded."""
        self._random = random
        self._version = ""
        self._failures = 0
        self._pauses = False

    def next(self) -> WatchRequest:
        """The next request."""
        wait_ms = PAUSE_MS if self._pauses else 0
        if self._failures:
            longest = min(FIRST_WAIT_MS << min(self._failures - 1, 10), LONGEST_WAIT_MS)
            wait_ms = longest // 2 + self._random(longest // 2 + 1)
        return WatchRequest(bool(self._version), self._version, wait_ms)

    def listed(self, body: bytes) -> None:
        """Takes the list of the sets of this name. Raises MalformedAnswerError."""
        found = _object(body)
        items, metadata = found.get("items"), found.get("metadata")
        if not isinstance(items, list) or not isinstance(metadata, dict):
            raise MalformedAnswerError("the API server's list has no items")
        version = metadata.get("resourceVersion")
        if not isinstance(version, str) or not version:
            raise MalformedAnswerError("the API server's list has no version")
        self.seen = next((seen for each in items if (seen := _read(self.name, each))), SetSeen(None))
        self._pauses = False
        self._went_well(version)

    def changed(self, line: bytes) -> None:
        """Takes a line of a watch. Raises MalformedAnswerError."""
        change = _object(line)
        kind, about = change.get("type"), change.get("object")
        if not isinstance(about, dict):
            raise MalformedAnswerError("a change has no object")
        if kind == "ERROR":
            code = about.get("code")
            self.failed(
                code if isinstance(code, int) else None, str(about.get("message", "the watch failed"))
            )
            self._version = ""  # the version may be the reason for the failure, so the set is listed again
            return
        metadata = about.get("metadata")
        version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
        if not isinstance(version, str) or not version:
            raise MalformedAnswerError("a change has no version")
        if kind in ("ADDED", "MODIFIED"):
            self.seen = _read(self.name, about) or self.seen
        elif kind == "DELETED" and _read(self.name, about) is not None:
            self.seen = SetSeen(None)
        self._went_well(version)

    def ended(self) -> None:
        """Notes that the watch ended without a failure."""
        self._pauses = True
        if self._version:  # the watch's last line was no failure
            self._failures = 0
            self.problem = ""

    def malformed(self, error: MalformedAnswerError) -> None:
        """Notes that a watch or a list brought a malformed answer."""
        self._version = ""
        self.failed(None, str(error))

    def failed(self, status: int | None, why: str) -> None:
        """Notes that a request failed, with this HTTP status or without an answer."""
        if status == GONE and self._version:
            self._version = ""
            self._pauses = True
            return
        self._failures += 1
        if status in REFUSED:
            why = f"{why}: let this pod's service account get, list and watch StatefulSet {self.name}"
        self.problem = why

    def _went_well(self, version: str) -> None:
        self._version = version
        self._failures = 0
        self.problem = ""


def read_set(name: str, body: bytes) -> SetSeen:
    """Reads the answer to a request for one set. Raises MalformedAnswerError."""
    seen = _read(name, _object(body))
    if seen is None:
        raise MalformedAnswerError("another set")
    return seen


def _read(name: str, about: object) -> SetSeen | None:
    """Reads a set; None for an object of another name."""
    if not isinstance(about, dict):
        raise MalformedAnswerError("no object")
    metadata, spec = about.get("metadata"), about.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise MalformedAnswerError("an object without metadata or spec")
    if metadata.get("name") != name:
        return None
    replicas = spec.get("replicas", 1)
    if type(replicas) is not int or not 0 <= replicas <= MAX_REPLICAS:
        raise MalformedAnswerError(f"{replicas!r:.20} is no number of replicas")
    leaves = bool(metadata.get("deletionTimestamp"))
    generation = metadata.get("generation", 0)
    if type(generation) is not int:
        raise MalformedAnswerError("a generation that is no number")
    return SetSeen(None if leaves else replicas, str(metadata.get("uid", "")), generation)


def _object(body: bytes) -> dict[str, object]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise MalformedAnswerError(f"no JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedAnswerError("no JSON object")
    return found
