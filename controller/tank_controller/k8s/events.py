"""Kubernetes' events: one event for each subject; a repetition changes the event's count and text. Pure."""

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tank_controller.leader.scaling import News, Pod

MAX_COUNTED = 2_000
"""How many events' counts are remembered; the counts of others begin again."""
MAX_MESSAGE = 1024
"""The longest text of an event, in characters; Kubernetes refuses more."""

Body = dict[str, object]


@dataclass(slots=True, frozen=True)
class Teller:
    """The objects that write events, and that events are about."""

    namespace: str
    pod: str
    """The controller's own pod."""
    brokers: str
    """The brokers' StatefulSet."""


@dataclass(slots=True)
class EventBook:
    """The events that one controller has written."""

    teller: Teller
    _counts: dict[str, int] = field(default_factory=dict)
    """By the event's name: how often it was written."""

    def write(self, news: News, set_uid: str, now_ms: int) -> tuple[str, Body]:
        """Returns the event's name and its body. When an event of this name exists already, `again` has the
        body that changes it.
        """
        about = _about(news.pod, self.teller, set_uid)
        matter = "/".join((str(about["uid"]), news.reason, str(news.broker_id)))
        digest = hashlib.sha256(matter.encode()).hexdigest()[:16]
        name = f"{str(about['name'])[:200]}.{digest}"
        count = self._counts.pop(name, 0) + 1
        self._counts[name] = count
        if len(self._counts) > MAX_COUNTED:
            del self._counts[next(iter(self._counts))]
        time = _time(now_ms)
        return name, {
            "metadata": {"name": name, "namespace": self.teller.namespace},
            "involvedObject": about,
            "type": "Warning" if news.reason.is_warning else "Normal",
            "reason": str(news.reason),
            "message": news.text[:MAX_MESSAGE],
            "count": count,
            "firstTimestamp": time,
            "lastTimestamp": time,
            "source": {"component": "tank-controller", "host": self.teller.pod},
            "reportingComponent": "tank-controller",
            "reportingInstance": self.teller.pod,
        }

    def again(self, name: str, body: Body) -> Body:
        """The fields to change in an existing event."""
        count = max(2, self._counts.get(name, 0))  # an earlier leader may have written the event
        self._counts[name] = count
        return {"count": count, "message": body["message"], "lastTimestamp": body["lastTimestamp"]}


def _about(pod: Pod | None, teller: Teller, set_uid: str) -> dict[str, str]:
    """`kubectl describe` finds an object's events by its UID."""
    if pod is not None:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": teller.namespace,
            "name": pod.name,
            "uid": pod.uid,
        }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "namespace": teller.namespace,
        "name": teller.brokers,
        "uid": set_uid,
    }


def _time(now_ms: int) -> str:
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
