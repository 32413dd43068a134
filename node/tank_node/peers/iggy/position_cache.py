"""What the leader of partitions remembers of Iggy's stored offsets. Pure."""

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from tank_protos.error_codes import ErrorCode


class IggyPlace(NamedTuple):
    """A consumer and a partition."""

    consumer: str
    """The name of the group under which its positions are kept, see `consumer_ids`."""
    topic_id: int
    partition: int


Read = Callable[[ErrorCode, int | None], None]
"""A callback that takes an error, or what is committed; None: nothing is."""


class Remembered:
    """The position of one consumer in one partition, as its leader knows it."""

    __slots__ = ("committed", "epoch", "is_dirty", "is_known", "readers")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        """The leader epoch in which it was remembered: in another one it may have changed."""
        self.committed: int | None = None
        """The offset of the next message; None: nothing is stored."""
        self.is_known = False
        """Whether `committed` is so, or the coordinator has not answered yet."""
        self.is_dirty = False
        """Whether it is to be stored with others, soon."""
        self.readers: list[Read] = []
        """Who waits until it is known."""

    def set(self, committed: int | None) -> list[Read]:
        """This is what is committed from now on. Returns who has waited to hear it."""
        self.committed, self.is_known = committed, True
        readers, self.readers = self.readers, []
        return readers


class PositionCache:
    """The positions that were used last, at most so many."""

    __slots__ = ("_found", "_most", "dirty")

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: OrderedDict[IggyPlace, Remembered] = OrderedDict()
        """The longest unused one first."""
        self.dirty: dict[IggyPlace, Remembered] = {}
        """Those that are to be stored soon, the oldest first."""

    def __len__(self) -> int:
        return len(self._found)

    def at(self, place: IggyPlace, epoch: int) -> Remembered:
        """What is remembered, or is to be asked for. What was so under another leader epoch is forgotten."""
        found = self._found.get(place)
        if found is None or found.epoch != epoch:
            self.forget(place)
            found = self._found[place] = Remembered(epoch)
        self._found.move_to_end(place)
        return found

    def known(self, place: IggyPlace) -> Remembered | None:
        """What is remembered, without a use of it."""
        return self._found.get(place)

    def excess(self) -> IggyPlace | None:
        """The longest unused one, if there are too many."""
        return next(iter(self._found)) if len(self._found) > self._most else None

    def forget(self, place: IggyPlace) -> None:
        """Forgets one. Who waits for it gets its answer all the same."""
        self.dirty.pop(place, None)
        self._found.pop(place, None)

    def soil(self, place: IggyPlace, found: Remembered) -> None:
        """It is to be stored soon, with others."""
        found.is_dirty = True
        self.dirty.setdefault(place, found)

    def clean(self, place: IggyPlace, found: Remembered) -> None:
        """It is on its way."""
        found.is_dirty = False
        self.dirty.pop(place, None)

    def take_dirty(self) -> list[tuple[IggyPlace, Remembered]]:
        """All that are to be stored soon: they are on their way from now on."""
        dirty, self.dirty = self.dirty, {}
        for found in dirty.values():
            found.is_dirty = False
        return list(dirty.items())
