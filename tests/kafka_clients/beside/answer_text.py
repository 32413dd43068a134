"""An answer as a line of text, without what differs from run to run and from broker to broker."""

import re
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Final

SKIPPED: Final = frozenset({"throttle_time_ms", "unknown_tags", "error_message", "session_id"})
"""Fields that say nothing of what was decided."""
PLACES: Final = {"host": "a host", "port": "a port", "node_id": "a broker", "leader_id": "a broker"}
"""Fields that name a broker: only whether they do is compared."""
IDS: Final = frozenset({"member_id", "leader"})
"""Fields with ids of members."""
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CHOSEN: Final = re.compile(rf"^(?:(.*)-)?{_UUID}$|^[\w-]{{22}}$", re.DOTALL)
"""Ids that a broker chose, behind what the client said: Kafka's are of either form."""


class AnswerText:
    """Makes texts. What brokers choose freely gets a name when it is first seen, the same in each run."""

    def __init__(self) -> None:
        self._members: dict[str, str] = {}
        self._topics: dict[bytes, str] = {}
        self._epochs: dict[int, str] = {}

    def name_topic(self, topic_id: bytes, name: str) -> None:
        """A topic's id is called so from now on."""
        self._topics[topic_id] = name

    def name_epoch(self, epoch: int, name: str) -> None:
        """A leader epoch is called so from now on."""
        self._epochs[epoch] = name

    def of(self, value: object, field: str = "") -> str:
        """The text of an answer, or of a part of it; `field`: the part's name."""
        if is_dataclass(value) and not isinstance(value, type):
            return self._of_struct(value)
        if isinstance(value, list):
            return f"[{', '.join(sorted(map(self.of, sorted(value, key=_unnamed))))}]"
        if isinstance(value, str) and field in IDS:
            return self._of_member(value)
        if field == "topic_id" and isinstance(value, bytes):
            return self._topics.get(value, "an unknown topic" if any(value) else "no topic")
        if "epoch" in field and isinstance(value, int) and value in self._epochs:
            return self._epochs[value]
        if field in PLACES:
            return PLACES[field] if value and value != -1 else repr(value)
        return repr(value) if isinstance(value, str | int | None) else repr(bytes(value))  # type: ignore[call-overload]

    def _of_struct(self, value: Any) -> str:
        parts = []
        for each in fields(value):
            found = getattr(value, each.name)
            usual = each.default if each.default_factory is MISSING else each.default_factory()
            if each.name not in SKIPPED and (found != usual or each.name in PLACES):
                parts.append(f"{each.name}={self.of(found, each.name)}")
        return f"({', '.join(parts)})"

    def _of_member(self, member_id: str) -> str:
        match = _CHOSEN.match(member_id)
        if match is None:
            return repr(member_id)
        if member_id not in self._members:
            begin = "" if match[1] is None else f"{match[1]}-"
            self._members[member_id] = f"<{begin}{len(self._members) + 1}>"
        return self._members[member_id]


def _unnamed(value: object) -> bytes:
    """What members are put in order by before they have names: what they said."""
    for field in ("metadata", "member_metadata"):
        said = getattr(value, field, None)
        if isinstance(said, bytes | memoryview):
            return bytes(said)
    return b""
