"""All streams and groups, and Iggy's parts of topics, by number and by name. Pure."""

from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from tank_controller.state.iggy.iggy_group import IggyGroup
from tank_controller.state.iggy.iggy_part import IggyPart
from tank_controller.state.iggy.stream_state import StreamState


def lowest_free(taken: Container[int]) -> int:
    """The lowest number from 0 on that is not taken, which is Iggy's own rule."""
    number = 0
    while number in taken:
        number += 1
    return number


@dataclass(slots=True)
class IggyState:
    """Streams and groups, and indexes of them and of topics.

    Invariants: no number and no name is two living things (streams; topics of a stream; groups of a topic);
    each topic's stream and each group's topic are there. Only these methods change the dictionaries.
    """

    streams: dict[int, StreamState] = field(default_factory=dict)
    """By number."""
    groups: dict[int, dict[int, IggyGroup]] = field(default_factory=dict)
    """By topic id and number; no topic of it is empty."""
    stream_numbers: dict[str, int] = field(default_factory=dict)
    """Streams by name. What follows is derived, too, and not part of a snapshot."""
    topics: dict[int, dict[int, int]] = field(default_factory=dict)
    """Topic ids by stream and number; no stream of it is empty."""
    topic_numbers: dict[int, dict[str, int]] = field(default_factory=dict)
    """Topics' numbers by stream and name."""
    group_numbers: dict[int, dict[str, int]] = field(default_factory=dict)
    """Groups' numbers by topic id and name."""
    group_count: int = 0
    option_bytes: int = 0
    """Of the options of all topics."""

    # --- streams ---

    def put_stream(self, stream: StreamState) -> None:
        """Adds a stream, or puts it in the place of the one with its number."""
        before = self.streams.get(stream.number)
        if before is not None:
            del self.stream_numbers[before.name]
        self.streams[stream.number] = stream
        self.stream_numbers[stream.name] = stream.number

    def remove_stream(self, number: int) -> None:
        """Removes a stream without topics."""
        assert number not in self.topics, number
        del self.stream_numbers[self.streams.pop(number).name]

    def stream(self, number: int, born: int) -> StreamState | None:
        """The stream of this number; None also when it is another one than the one that was born then."""
        stream = self.streams.get(number)
        return stream if stream is not None and stream.born == born else None

    def stream_named(self, name: str) -> StreamState | None:
        """The stream of this name."""
        number = self.stream_numbers.get(name)
        return None if number is None else self.streams[number]

    # --- topics ---

    def topic_ids(self, stream: int) -> list[int]:
        """The ids of the stream's topics, by their numbers."""
        return [topic_id for _, topic_id in sorted(self.topics.get(stream, {}).items())]

    def put_topic(self, topic_id: int, part: IggyPart) -> None:
        """Gives a topic its number and name in a stream. An earlier part of it was removed before."""
        self.topics.setdefault(part.stream, {})[part.number] = topic_id
        self.topic_numbers.setdefault(part.stream, {})[part.name] = part.number
        self.option_bytes += part.option_bytes

    def remove_topic(self, part: IggyPart) -> None:
        """Frees a topic's number and name. Its groups are another matter."""
        numbers, names = self.topics[part.stream], self.topic_numbers[part.stream]
        del numbers[part.number], names[part.name]
        self.option_bytes -= part.option_bytes
        if not numbers:
            del self.topics[part.stream], self.topic_numbers[part.stream]

    # --- groups ---

    def put_group(self, group: IggyGroup) -> None:
        """Adds a group."""
        self.groups.setdefault(group.topic_id, {})[group.number] = group
        self.group_numbers.setdefault(group.topic_id, {})[group.name] = group.number
        self.group_count += 1

    def remove_group(self, group: IggyGroup) -> None:
        """Removes a group, and frees its number and name."""
        numbers, names = self.groups[group.topic_id], self.group_numbers[group.topic_id]
        del numbers[group.number], names[group.name]
        if not numbers:
            del self.groups[group.topic_id], self.group_numbers[group.topic_id]
        self.group_count -= 1

    def take_groups(self, topic_id: int) -> list[IggyGroup]:
        """Removes all groups of a topic, and returns them by number."""
        self.group_numbers.pop(topic_id, None)
        taken = [group for _, group in sorted(self.groups.pop(topic_id, {}).items())]
        self.group_count -= len(taken)
        return taken

    def all_groups(self) -> Iterator[IggyGroup]:
        """All groups, by topic id and number."""
        for _, groups in sorted(self.groups.items()):
            for _, group in sorted(groups.items()):
                yield group
