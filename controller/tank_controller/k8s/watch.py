"""Following one StatefulSet of Kubernetes' API: what to ask next, and what is known. Pure.

First it is listed, then watched from the list's version on. A watch that ends is begun again where it was;
when the server has forgotten that version (410 Gone), or says what makes no sense, the set is listed again.
After a failure it waits, longer each time, and keeps what it knows.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass

PAUSE_MS = 200
"""Before a watch is begun again, or a list after a watch: servers may end them at once, again and again."""
FIRST_WAIT_MS = 500
LONGEST_WAIT_MS = 30_000
MAX_REPLICAS = 0xFFFE
"""More brokers than a cluster can have: a number above it is none that could be meant."""
GONE = 410
REFUSED = (401, 403)


@dataclass(slots=True, frozen=True)
class Request:
    """What to ask now."""

    watch: bool
    version: str
    """To watch from; empty in a list."""
    wait_ms: int
    """Before it is asked."""


@dataclass(slots=True, frozen=True)
class SetSeen:
    """A StatefulSet as the API server has it."""

    replicas: int | None
    """How many pods are wanted. None: there is no such set, or it is being deleted, which says nothing of
    what is wanted: volumes are resized by deleting the set alone."""
    uid: str = ""
    generation: int = 0
    """Grows with every change of what is wanted of the set with this UID."""

    def is_before(self, other: "SetSeen") -> bool:
        """Whether it is known to be older: a question and a watch may overtake each other."""
        return bool(self.uid) and self.uid == other.uid and self.generation < other.generation


class MalformedAnswerError(ValueError):
    """What came is no StatefulSet, list or change."""


class SetWatch:
    """Of one set, for as long as somebody wants to know."""

    def __init__(self, name: str, random: Callable[[int], int]) -> None:
        self.name = name
        self.seen: SetSeen | None = None
        """None: not yet."""
        self.problem = ""
        """Why the last request failed; empty when it didn't."""
        self._random = random
        self._version = ""
        self._failures = 0
        self._pauses = False

    def next(self) -> Request:
        """What to ask now."""
        wait_ms = PAUSE_MS if self._pauses else 0
        if self._failures:
            longest = min(FIRST_WAIT_MS << min(self._failures - 1, 10), LONGEST_WAIT_MS)
            wait_ms = longest // 2 + self._random(longest // 2 + 1)
        return Request(bool(self._version), self._version, wait_ms)

    def listed(self, body: bytes) -> None:
        """The answer to a list of the sets of this name. MalformedAnswerError."""
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
        """A line of a watch. MalformedAnswerError."""
        change = _object(line)
        kind, about = change.get("type"), change.get("object")
        if not isinstance(about, dict):
            raise MalformedAnswerError("a change has no object")
        if kind == "ERROR":
            code = about.get("code")
            self.failed(
                code if isinstance(code, int) else None, str(about.get("message", "the watch failed"))
            )
            self._version = ""  # it may be what the watch failed of: from there the next would fail, too
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
        """The watch ended in order."""
        self._pauses = True
        if self._version:  # its last line was no failure
            self._failures = 0
            self.problem = ""

    def malformed(self, error: MalformedAnswerError) -> None:
        """What came by the watch, or as a list, made no sense."""
        self._version = ""
        self.failed(None, str(error))

    def failed(self, status: int | None, why: str) -> None:
        """A request was answered with this HTTP status, or not at all."""
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
    """A set that was asked for by its name. MalformedAnswerError."""
    seen = _read(name, _object(body))
    if seen is None:
        raise MalformedAnswerError("another set")
    return seen


def _read(name: str, about: object) -> SetSeen | None:
    """None: another object."""
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
