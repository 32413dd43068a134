"""Lists of a message that find their elements by key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, SupportsIndex, TypeVar

E = TypeVar("E")
K = TypeVar("K")


class KeyedList(list[E], Generic[E, K]):
    """A list of structs that finds them by their key in O(1).

    Several elements may have the same key, as on the wire; `find` returns the first. The index is made at the
    first search, and again at a search after a change other than appending. An element's key must not change
    after a search.
    """

    KEY: ClassVar[attrgetter[object]]
    """Returns the key of an element: a value, or a tuple if several fields make the key."""

    _index: dict[object, list[E]] | None = None
    """All elements by key, in their order; None: the next search makes it."""

    def find(self, key: K) -> E | None:
        """The first element with this key."""
        found = self._by_key().get(key)
        return found[0] if found else None

    def find_all(self, key: K) -> list[E]:
        """Every element with this key, in order."""
        return list(self._by_key().get(key, ()))

    def _by_key(self) -> dict[object, list[E]]:
        if self._index is None:
            index: dict[object, list[E]] = {}
            for element in self:
                index.setdefault(self.KEY(element), []).append(element)
            self._index = index
        return self._index

    def append(self, element: E) -> None:
        super().append(element)
        if self._index is not None:
            self._index.setdefault(self.KEY(element), []).append(element)

    def extend(self, elements: Iterable[E]) -> None:
        self._index = None
        super().extend(elements)

    def insert(self, at: SupportsIndex, element: E) -> None:
        self._index = None
        super().insert(at, element)

    def remove(self, element: E) -> None:
        self._index = None
        super().remove(element)

    def pop(self, at: SupportsIndex = -1) -> E:
        self._index = None
        return super().pop(at)

    def clear(self) -> None:
        self._index = None
        super().clear()

    def reverse(self) -> None:
        self._index = None
        super().reverse()

    def sort(self, *, key: Callable[[E], Any] | None = None, reverse: bool = False) -> None:
        self._index = None
        super().sort(key=key, reverse=reverse)

    def __setitem__(self, at: Any, value: Any) -> None:
        self._index = None
        super().__setitem__(at, value)

    def __delitem__(self, at: SupportsIndex | slice) -> None:
        self._index = None
        super().__delitem__(at)

    def __iadd__(self, elements: Iterable[E]) -> Self:  # type: ignore[override,misc]
        self._index = None
        return super().__iadd__(elements)

    def __imul__(self, times: SupportsIndex) -> Self:
        self._index = None
        return super().__imul__(times)

    def __getstate__(self) -> None:
        """Returns no state, so that a copy makes its own index."""
