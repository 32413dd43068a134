"""What clients of a run did and saw, as lines of JSON: written by the load, read by the checker.

A kind stands first. `sent` lines come before the request leaves, so that a value found in the log is always
known.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

Place = tuple[str, int]
"""(topic, partition)"""


class Fate(Enum):
    """What a producer was told of a value."""

    STORED = "stored"
    UNKNOWN = "unknown"
    """Timeout, broken connection, 0x03: it may be in the log, or not."""
    REFUSED = "refused"
    """An answer that says: nothing is stored."""


@dataclass(slots=True)
class Sent:
    """One value of one producer. Values are unique in a run."""

    writer: str
    place: Place
    order: int
    """Rises with each value of this writer for this partition, in the order of sending."""
    once: bool
    """Sent by an idempotent producer: at most once in the log, and in order."""
    fate: Fate = Fate.UNKNOWN
    number: int = 0
    """The sequence number that the answer told; 0: it told none."""
    sent_ms: int = 0
    """When it was about to leave, in milliseconds since 1970, by the writer's clock."""
    told_ms: int = 0
    """When its fate was told; 0: never."""


@dataclass(slots=True, frozen=True)
class Position:
    """What a group was told of its position in a partition."""

    place: Place
    number: int
    found: bool
    """It asked for it; else it was told that it is kept."""


@dataclass(slots=True, frozen=True)
class Handed:
    """Messages that a group's member was given at once."""

    member: str
    life: int
    """Which of its processes, one after another."""
    generation: int
    """The group's, or the member's epoch, by its word; -1: it was in none, or does not know."""
    place: Place
    messages: list[tuple[int, str]]
    """(number, value), in their order."""


@dataclass(slots=True)
class History:
    """All that clients did and saw in a run."""

    sent: dict[str, Sent] = field(default_factory=dict)
    """By value."""
    seen: dict[str, dict[Place, list[tuple[int, str]]]] = field(default_factory=dict)
    """By consumer: (number, value) of each partition, in the order they were handed out."""
    through: dict[str, list[Place]] = field(default_factory=dict)
    """Consumers that read until nothing more came, and what."""
    positions: dict[str, list["Position"]] = field(default_factory=dict)
    """By group: what it was told of its positions, in that order."""
    handed: dict[str, list[Handed]] = field(default_factory=dict)
    """By group: what its members were given, each member's in its order."""
    static: set[str] = field(default_factory=set)
    """Static members: one that joins again keeps its generation, and is given the same once more."""
    repeating: set[str] = field(default_factory=set)
    """Producers that send again what was not acknowledged: it may be there more than once."""
    through_groups: dict[str, list[Place]] = field(default_factory=dict)
    """Groups that have committed all that there is, and of what."""

    def stored(self) -> int:
        """How many values were acknowledged."""
        return sum(sent.fate is Fate.STORED for sent in self.sent.values())


class Recorder:
    """Writes one client's lines. A line that was begun is whole: each is one write."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self.path = path
        self._file = open(path, "a", buffering=1 << 16)  # noqa: SIM115  closed by close()
        self._now = now

    def sent(self, writer: str, place: Place, order: int, once: bool, values: list[str]) -> None:
        """Before they leave; `order` is the first one's."""
        self._write(["sent", self._now_ms(), writer, *place, order, once, values])

    def repeats(self, writer: str) -> None:
        """A producer sends a value again, before any later one, until it is acknowledged."""
        self._write(["repeats", writer])

    def told(self, fate: Fate, values: list[str], number: int = 0) -> None:
        """What became of them; `number` is the first one's."""
        self._write(["told", self._now_ms(), fate.value, number, values])

    def seen(self, consumer: str, place: Place, numbers: list[int], values: list[str]) -> None:
        """What a consumer handed out."""
        self._write(["seen", consumer, *place, numbers, values])

    def read_all(self, consumer: str, places: list[Place]) -> None:
        """It has read these until nothing more came."""
        self._write(["through", consumer, places])

    def handed(
        self,
        group: str,
        member: tuple[str, int],
        generation: int,
        place: Place,
        numbers: list[int],
        values: list[str],
    ) -> None:
        """What a group's member, named with the number of its life, was given in this generation."""
        self._write(["handed", group, *member, generation, *place, numbers, values])

    def is_static(self, member: str) -> None:
        """A group's member has an instance id."""
        self._write(["static", member])

    def read_by_group(self, group: str, places: list[Place]) -> None:
        """The group has committed all that is in these."""
        self._write(["committed", group, places])

    def position(self, group: str, place: Place, number: int, *, found: bool) -> None:
        """A position is kept, or `found` where the group asked for it."""
        self._write(["found" if found else "kept", group, *place, number])

    def close(self) -> None:
        self._file.close()

    def _now_ms(self) -> int:
        return int(self._now() * 1000)

    def _write(self, line: list[object]) -> None:
        self._file.write(json.dumps(line, separators=(",", ":")) + "\n")


def read(paths: Iterable[Path]) -> History:
    """The history that these files tell together."""
    history = History()
    for path in paths:
        with open(path) as lines:
            for line in lines:
                _take(history, json.loads(line))
    return history


def _take(history: History, line: list[object]) -> None:
    match line:
        case ["sent", int(ms), str(writer), str(topic), int(partition), int(order), bool(once), list(values)]:
            for nth, value in enumerate(values):
                assert value not in history.sent, f"{value} was sent twice"
                history.sent[value] = Sent(writer, (topic, partition), order + nth, once, sent_ms=ms)
        case ["told", int(ms), str(fate), int(number), list(values)]:
            for nth, value in enumerate(values):
                sent = history.sent[value]
                sent.fate, sent.told_ms = Fate(fate), ms
                sent.number = number + nth if number else 0
        case ["seen", str(consumer), str(topic), int(partition), list(numbers), list(values)]:
            seen = history.seen.setdefault(consumer, {}).setdefault((topic, partition), [])
            seen.extend(zip(numbers, values, strict=True))
        case ["through", str(consumer), list(places)]:
            history.through[consumer] = [(topic, partition) for topic, partition in places]
        case [
            "handed", str(group), str(member), int(life), int(generation),
            str(topic), int(partition), list(numbers), list(values),
        ]:  # fmt: skip
            messages = list(zip(numbers, values, strict=True))
            handed = Handed(member, life, generation, (topic, partition), messages)
            history.handed.setdefault(group, []).append(handed)
        case ["repeats", str(writer)]:
            history.repeating.add(writer)
        case ["static", str(member)]:
            history.static.add(member)
        case ["committed", str(group), list(places)]:
            history.through_groups[group] = [(topic, partition) for topic, partition in places]
        case ["kept" | "found" as kind, str(group), str(topic), int(partition), int(number)]:
            told = history.positions.setdefault(group, [])
            told.append(Position((topic, partition), number, kind == "found"))
        case _:
            raise ValueError(f"no line of a history: {line}")


def values_of(history: History, fate: Fate) -> Iterator[tuple[str, Sent]]:
    """Those that met this fate."""
    return ((value, sent) for value, sent in history.sent.items() if sent.fate is fate)
