"""Following a StatefulSet over everything that an API server may answer."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tank_controller.k8s import watch as kubernetes_watch
from tank_controller.k8s.watch import MalformedAnswerError, SetSeen, SetWatch, WatchRequest, read_set

NAME = "tank-broker"


def watch() -> SetWatch:
    return SetWatch(NAME, lambda below: 0)


def item(replicas: object = 3, version: str = "7", **metadata: object) -> dict[str, object]:
    about = {"name": NAME, "uid": "u", "generation": 1, "resourceVersion": version, **metadata}
    return {"metadata": about, "spec": {"replicas": replicas}}


def listed(*items: dict[str, object], version: str = "7") -> bytes:
    return json.dumps({"metadata": {"resourceVersion": version}, "items": items}).encode()


def changed(kind: str, about: dict[str, object]) -> bytes:
    return json.dumps({"type": kind, "object": about}).encode()


def test_it_lists_then_watches_from_there_and_goes_on_where_a_watch_ended() -> None:
    follows = watch()
    assert follows.next() == WatchRequest(False, "", 0)
    follows.listed(listed(item(3)))
    assert follows.seen == SetSeen(3, "u", 1)
    assert follows.next() == WatchRequest(True, "7", 0)
    follows.changed(changed("MODIFIED", item(5, "9", generation=2)))
    assert follows.seen == SetSeen(5, "u", 2)
    follows.changed(changed("BOOKMARK", {"metadata": {"resourceVersion": "20"}}))
    assert follows.seen == SetSeen(5, "u", 2)
    follows.ended()
    assert follows.next() == WatchRequest(True, "20", kubernetes_watch.PAUSE_MS)


@pytest.mark.parametrize("told", ["status", "error line"])
def test_a_version_that_the_server_forgot_is_listed_again(told: str) -> None:
    follows = watch()
    follows.listed(listed(item(3)))
    if told == "status":
        follows.failed(410, "Gone")
    else:
        follows.changed(changed("ERROR", {"code": 410, "message": "too old resource version"}))
    assert follows.next() == WatchRequest(False, "", kubernetes_watch.PAUSE_MS)
    assert follows.seen == SetSeen(3, "u", 1), "what is known stays"
    assert not follows.problem


def test_after_failures_it_waits_longer_and_longer_and_no_longer_than_that() -> None:
    follows = watch()
    waits = []
    for _ in range(12):
        follows.failed(None, "connection refused")
        waits.append(follows.next().wait_ms * 2)
    assert waits[:4] == [500, 1000, 2000, 4000]
    assert waits[-1] == kubernetes_watch.LONGEST_WAIT_MS
    follows.listed(listed(item(3)))
    assert follows.next() == WatchRequest(True, "7", 0)


def test_after_an_error_in_a_watch_it_waits_and_lists_though_the_watch_then_ends_in_order() -> None:
    follows = watch()
    follows.listed(listed(item(3)))
    error = {"type": "ERROR", "object": {"code": 500, "message": "a cache that is no more"}}
    follows.changed(json.dumps(error).encode())
    follows.ended()
    request = follows.next()
    assert not request.watch
    assert request.wait_ms == kubernetes_watch.FIRST_WAIT_MS // 2
    assert follows.problem == "a cache that is no more"


def test_a_right_that_is_missing_is_named() -> None:
    follows = watch()
    follows.failed(403, "Forbidden")
    assert follows.problem == (
        "Forbidden: let this pod's service account get, list and watch StatefulSet tank-broker"
    )


def test_a_set_that_is_gone_or_going_says_nothing_of_what_is_wanted() -> None:
    follows = watch()
    follows.listed(listed(item(3)))
    follows.changed(changed("MODIFIED", item(3, "8", deletionTimestamp="2026-01-01T00:00:00Z")))
    assert follows.seen is not None
    assert follows.seen.replicas is None
    follows.changed(changed("DELETED", item(3, "9")))
    assert follows.seen == SetSeen(None)
    follows.listed(listed())
    assert follows.seen == SetSeen(None)


def test_another_set_of_the_namespace_is_passed_over() -> None:
    follows = watch()
    follows.listed(listed(item(9, name="other"), item(3)))
    follows.changed(changed("MODIFIED", item(9, "8", name="other")))
    follows.changed(changed("DELETED", item(9, "9", name="other")))
    assert follows.seen == SetSeen(3, "u", 1)


def test_what_is_older_for_sure_is_known_to_be() -> None:
    assert SetSeen(5, "u", 1).is_before(SetSeen(3, "u", 2))
    assert not SetSeen(5, "v", 1).is_before(SetSeen(3, "u", 2)), "a set that was made again"
    assert not SetSeen(None).is_before(SetSeen(3, "u", 2))


def test_one_set_is_read_by_its_name() -> None:
    assert read_set(NAME, json.dumps(item(4)).encode()) == SetSeen(4, "u", 1)
    with pytest.raises(MalformedAnswerError):
        read_set("other", json.dumps(item(4)).encode())


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"items": {}, "metadata": {}}', b"\xff", b"[" * 5000, listed(item(-1)),
     listed(item("3")), listed(item(True)), listed(item(3), version=""),
     listed({"metadata": {"name": NAME}})],
)  # fmt: skip
def test_what_is_no_list_is_refused_and_asked_again(body: bytes) -> None:
    follows = watch()
    follows.listed(listed(item(3)))
    with pytest.raises(MalformedAnswerError) as refused:
        follows.listed(body)
    follows.malformed(refused.value)
    assert follows.problem
    assert not follows.next().watch
    assert follows.seen == SetSeen(3, "u", 1)


class Server:
    """Keeps a set and its changes; forgets old ones."""

    def __init__(self) -> None:
        self.version, self.replicas, self.oldest = 1, 3, 1
        self.changes: dict[int, int] = {}

    def scale(self, replicas: int) -> None:
        self.version, self.replicas = self.version + 1, replicas
        self.changes[self.version] = replicas

    def compact(self) -> None:
        self.oldest = self.version

    def answer(self, follows: SetWatch, *, most: int) -> None:
        """At most so many changes, then the watch ends."""
        request = follows.next()
        if not request.watch:
            follows.listed(listed(item(self.replicas, generation=self.version), version=str(self.version)))
        elif int(request.version) < self.oldest:
            follows.failed(410, "Gone")
        else:
            for version in range(int(request.version) + 1, self.version + 1)[:most]:
                about = item(self.changes[version], str(version), generation=version)
                follows.changed(changed("MODIFIED", about))
            follows.ended()


@given(st.lists(st.sampled_from(["scale", "compact", "answer", "cut", "refuse", "garbage"]), max_size=40))
def test_whatever_happens_it_knows_in_the_end_what_the_server_knows(story: list[str]) -> None:
    server, follows = Server(), watch()
    for number, step in enumerate(story):
        match step:
            case "scale":
                server.scale(number)
            case "compact":
                server.compact()
            case "answer":
                server.answer(follows, most=10)
            case "cut":
                server.answer(follows, most=1)
            case "refuse":
                follows.failed(503, "Service Unavailable")
            case "garbage":
                follows.malformed(MalformedAnswerError("garbage"))
    for _ in range(3):
        server.answer(follows, most=100)
    assert follows.seen == SetSeen(server.replicas, "u", server.version)
    assert not follows.problem
