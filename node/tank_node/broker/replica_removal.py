"""Replicas that others hold now: when their data goes.

A view may be behind. A replica that was moved away and back since is pushed to, says what it matches, and
is made a member on its word, before this node hears that it was ever moved away. Deleted then, what it was
made a member for is gone. So the data waits until the view is known to be as new as whoever may count on it.
"""

from collections.abc import Callable

from tank_node.cluster.link import ControllerLink

MOST_AT_ONCE = 100
"""Each is a rename or two on the event loop; the others go the next time."""
Key = tuple[int, int]
"""(topic id, partition)"""


class MovedAway:
    """Those of one node.

    Invariant: from `add` on, nothing that is pushed to such a replica is taken, and what was taken before
    came from leaders whose view the cluster had committed by then. `await_view`, asked afterwards, brings the
    view at least so far: a replica that is none even by that one is counted on by nobody.
    """

    def __init__(self, link: ControllerLink, delete: Callable[[int, int], None]) -> None:
        """delete: drops a replica and its data."""
        self._link = link
        self._delete = delete
        self._waiting: dict[Key, None] = {}
        self._asked: dict[Key, None] = {}
        """Those for which the view is being awaited."""
        self._asking = False

    def add(self, topic_id: int, number: int) -> None:
        """By the view it is no replica of this node's. Its data stays until `ask` has its answer."""
        if (topic_id, number) not in self._asked:
            self._waiting[topic_id, number] = None

    def keep(self, topic_id: int, number: int) -> None:
        """It is one again, by a later view."""
        self._waiting.pop((topic_id, number), None)
        self._asked.pop((topic_id, number), None)

    def ask(self) -> None:
        """Goes on with those that wait. Now, and again from time to time: an answer may say nothing."""
        if self._asking or not self._waiting:
            return
        self._asking = True
        self._asked, self._waiting = self._waiting, {}
        self._link.await_view(self._answered)

    def _answered(self, current: bool) -> None:
        self._asking = False
        asked, self._asked = self._asked, {}
        if not current:
            self._waiting.update(asked)
            return
        for at, key in enumerate(asked):
            if at < MOST_AT_ONCE:
                self._delete(*key)
            else:
                self._waiting[key] = None
        if len(asked) < MOST_AT_ONCE:
            self.ask()
