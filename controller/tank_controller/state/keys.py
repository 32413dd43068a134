"""Partitions as numbers, and sorted sets of them. Compact: a million partitions are held in several such
sets. Pure.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

_PARTITION_BITS = 16
"""A partition's number is a u16 on the wire."""


def key_of(topic_id: int, partition: int) -> int:
    """Topic and partition in one number; they order as (topic id, partition)."""
    return topic_id << _PARTITION_BITS | partition


def topic_of(key: int) -> int:
    """The key's topic id."""
    return key >> _PARTITION_BITS


def partition_of(key: int) -> int:
    """The key's partition."""
    return key & ((1 << _PARTITION_BITS) - 1)


class KeySet:
    """Keys of partitions, sorted; 8 bytes each. Topic ids rise, so most keys are added at the end."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: array[int] = array("Q")

    def add(self, key: int) -> None:
        """Adds a key, once."""
        keys = self._keys
        if not keys or key > keys[-1]:
            keys.append(key)
            return
        at = bisect_left(keys, key)
        if keys[at] != key:
            keys.insert(at, key)

    def remove(self, key: int) -> None:
        """Removes a key that is in the set."""
        at = bisect_left(self._keys, key)
        assert self._keys[at] == key
        del self._keys[at]

    def __iter__(self) -> Iterator[int]:
        """The keys in rising order. The set must not change while the iterator is in use."""
        return iter(self._keys)

    def since(self, key: int) -> Iterator[int]:
        """All keys once: from this key on, then from the lowest. The set must not change while the iterator
        is in use.
        """
        keys = self._keys
        first = bisect_left(keys, key)
        for at in range(first, first + len(keys)):
            yield keys[at % len(keys)]

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: int) -> bool:
        at = bisect_left(self._keys, key)
        return at < len(self._keys) and self._keys[at] == key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeySet) and self._keys == other._keys

    def __getitem__(self, at: int) -> int:
        return self._keys[at]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"KeySet({list(self._keys)})"
