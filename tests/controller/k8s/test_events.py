"""News as Kubernetes shows them."""

from tank_controller.k8s.events import MAX_COUNTED, MAX_MESSAGE, EventBook, Teller
from tank_controller.leader.scaling import News, Pod, Reason

TELLER = Teller("prod", "tank-controller-0", "tank-broker")


def test_an_event_on_a_pod_names_its_uid_so_that_describe_finds_it() -> None:
    news = News(Reason.HOLDS_ON, 3, "Waits.", Pod("tank-broker-2", "uid-2"))
    name, body = EventBook(TELLER).write(news, "uid-set", 1_700_000_000_000)
    assert name.startswith("tank-broker-2.")
    assert body == {
        "metadata": {"name": name, "namespace": "prod"},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "prod",
            "name": "tank-broker-2",
            "uid": "uid-2",
        },
        "type": "Warning",
        "reason": "WaitsForReplicas",
        "message": "Waits.",
        "count": 1,
        "firstTimestamp": "2023-11-14T22:13:20Z",
        "lastTimestamp": "2023-11-14T22:13:20Z",
        "source": {"component": "tank-controller", "host": "tank-controller-0"},
        "reportingComponent": "tank-controller",
        "reportingInstance": "tank-controller-0",
    }


def test_what_is_told_of_no_pod_is_told_of_the_set() -> None:
    _, body = EventBook(TELLER).write(News(Reason.SCALED_DOWN, 4, "Gone."), "uid-set", 0)
    about = body["involvedObject"]
    assert isinstance(about, dict)
    assert (about["apiVersion"], about["kind"], about["name"], about["uid"]) == (
        "apps/v1",
        "StatefulSet",
        "tank-broker",
        "uid-set",
    )
    assert body["type"] == "Normal"


def test_the_same_matter_is_one_event_that_is_counted_whatever_its_figures() -> None:
    book = EventBook(TELLER)
    first, _ = book.write(News(Reason.DRAINING, 5, "57 replicas."), "s", 0)
    again, body = book.write(News(Reason.DRAINING, 5, "12 replicas."), "s", 60_000)
    assert again == first
    assert book.again(again, body) == {
        "count": 2,
        "message": "12 replicas.",
        "lastTimestamp": "1970-01-01T00:01:00Z",
    }
    others = {book.write(each, "s", 0)[0] for each in (
        News(Reason.DRAINING, 4, "57 replicas."),
        News(Reason.MAY_STOP, 5, "57 replicas."),
        News(Reason.DRAINING, 5, "57 replicas.", Pod("p", "u")),
        News(Reason.DRAINING, 5, "57 replicas.", Pod("p", "v")),
    )}  # fmt: skip
    assert len(others | {first}) == 5


def test_an_event_of_an_earlier_leader_is_counted_on_from_two() -> None:
    book = EventBook(TELLER)
    name, body = book.write(News(Reason.REFUSED, 3, "No."), "s", 0)
    assert book.again(name, body)["count"] == 2
    _, body = book.write(News(Reason.REFUSED, 3, "No."), "s", 0)
    assert book.again(name, body)["count"] == 3


def test_long_texts_and_many_events_are_bounded() -> None:
    book = EventBook(TELLER)
    name, body = book.write(News(Reason.REFUSED, 3, "x" * 5000, Pod("p" * 500, "u")), "s", 0)
    assert len(str(body["message"])) == MAX_MESSAGE
    assert len(name) < 253
    for number in range(MAX_COUNTED + 5):
        book.write(News(Reason.REFUSED, number, "No."), "s", 0)
    _, body = book.write(News(Reason.REFUSED, MAX_COUNTED + 4, "No."), "s", 0)
    assert body["count"] == 2
    _, body = book.write(News(Reason.REFUSED, 5, "No."), "s", 0)
    assert body["count"] == 2, "the oldest of those that are counted"
    _, body = book.write(News(Reason.REFUSED, 4, "No."), "s", 0)
    assert body["count"] == 1, "one too many"
