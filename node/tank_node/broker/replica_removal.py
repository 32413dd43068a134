"""Deleting the data of replicas that moved to other brokers.

This node's view may be old: the replica may have been moved back meanwhile, and have joined the in-sync set
for the data that it holds. Deleting that data would lose committed messages. So it stays until the view is
known to be as new as that of any leader which may count on it.
"""

from collections.abc import Callable

from tank_node.cluster.link import ControllerLink

MOST_AT_ONCE = 100
"""The most replicas deleted in one go: each is a rename or two on the event loop."""
Key = tuple[int, int]
"""(topic id, partition)"""


class ReplicaRemoval:
    """The replicas of one node that wait to be deleted.

    Invariant: from `add` on, no push to such a replica is taken, and all pushes before came from leaders
    whose view was committed by then. `await_view`, called after `add`, brings this node's view at least that
    far: if the replica isn't assigned here even by that view, no leader counts on it.
    """

    def __init__(self, link: ControllerLink, delete: Callable[[int, int], None]) -> None:
        """delete: deletes a replica (topic id, partition) with its data."""
        self._link = link
        self._delete = delete
        self._waiting: dict[Key, None] = {}
        """The replicas to be deleted for which no current view was asked yet."""
        self._asked: dict[Key, None] = {}
        """The replicas for which a call of `await_view` is under way."""
        self._asking = False

    def add(self, topic_id: int, number: int) -> None:
        """Marks a replica that the view no longer assigns to this node; its data stays until `ask` has an
        answer."""
        if (topic_id, number) not in self._asked:
            self._waiting[topic_id, number] = None

    def keep(self, topic_id: int, number: int) -> None:
        """Keeps the data of a replica that a later view assigns to this node again."""
        self._waiting.pop((topic_id, number), None)
        self._asked.pop((topic_id, number), None)

    def ask(self) -> None:
        """Asks for a current view, after which the waiting replicas are deleted. Call it after `add` and at
        intervals: an attempt may fail."""
        if self._asking or not self._waiting:
            return
        self._asking = True
        self._asked, self._waiting = self._waiting, {}
        self._link.requests.await_view(self._answered)

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
