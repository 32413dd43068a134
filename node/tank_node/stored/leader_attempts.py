"""Bringing one request to the broker that leads its partition, and again to the next one while none has taken
it."""

from collections.abc import Callable

from tank_node.broker.broker import Broker
from tank_node.cluster.view import NO_LEADER
from tank_node.session import Session
from tank_node.stored.outcome import StoredOutcome
from tank_node.stored.places import placed
from tank_node.stored.results import Place
from tank_protos.feature_levels import IGGY


class LeaderAttempts:
    """One request on its way. `attempt` brings it to the leader that the view names: `here` serves it, or
    `elsewhere` sends it to that broker. Who finds that no leader has taken it calls `again`."""

    __slots__ = ("_broker", "_elsewhere", "_here", "_over", "_until_ms", "place", "sender")

    def __init__(
        self,
        broker: Broker,
        place: Place,
        sender: Session,
        here: Callable[[], None],
        elsewhere: Callable[[int], bool],
        over: Callable[[StoredOutcome], None],
    ) -> None:
        """sender: the client's connection. elsewhere: takes the broker's id, and returns whether the request
        is on its way there. over: called instead of another attempt when the topic is gone, or no leader was
        found in time."""
        self._broker = broker
        self.place = place
        self.sender = sender
        self._here = here
        self._elsewhere = elsewhere
        self._over = over
        self._until_ms = 0
        """When the search ends; 0: it has not begun to wait."""

    def attempt(self) -> None:
        """Tries the leader that the view names now, unless nobody is there any more to be told."""
        broker = self._broker
        if self.sender.closed:
            self._over(StoredOutcome.NO_LEADER)
            return
        seen = placed(broker, self.place)
        if isinstance(seen, StoredOutcome):
            self._over(seen)
            return
        view = broker.link.view
        if seen.leader == view.broker_id:
            self._here()
        elif seen.leader == NO_LEADER or view.feature_level < IGGY or not self._elsewhere(seen.leader):
            self.again()

    def again(self) -> None:
        """Tries again when the view has another leader or epoch, or after a pause; gives up when it is too
        late."""
        broker = self._broker
        now_ms, limits = broker.tick.monotonic_ms, broker.limits
        self.begin_wait()
        view = broker.link.view.topic_by_id(self.place[0])
        if view is None or now_ms >= self._until_ms or broker.deadlines.has_ended:
            self._over(StoredOutcome.UNKNOWN_TOPIC if view is None else StoredOutcome.NO_LEADER)
            return
        tried = self.leadership()

        def is_other(name: str) -> bool:
            found = self.leadership()
            return found != tried and (found is None or found[0] != NO_LEADER)

        def ended(missing: set[str]) -> None:
            self.attempt()
            broker.wake()  # what was staged is written soon

        pause_ms = min(limits.stored_pause_ms, self._until_ms - now_ms)
        broker.topic_waits.begin([view.name], is_other, ended, pause_ms, self.sender)

    def begin_wait(self) -> None:
        """Bounds the search from now on, if it isn't bounded so far. One attempt is made whenever it is."""
        if not self._until_ms:
            broker = self._broker
            self._until_ms = broker.tick.monotonic_ms + broker.limits.stored_leader_wait_ms

    def is_passing(self, outcome: StoredOutcome) -> bool:
        """Whether a leader that answers so may take the request later, or another one may: it has lost the
        lead, or its view lacks what this broker's view has."""
        if outcome in (StoredOutcome.UNKNOWN_TOPIC, StoredOutcome.UNKNOWN_PARTITION):
            return self.leadership() is not None
        return outcome is StoredOutcome.NO_LEADER

    def leadership(self) -> tuple[int, int] | None:
        """The leader and its epoch in the view; None: the topic is gone."""
        seen = placed(self._broker, self.place)
        return None if isinstance(seen, StoredOutcome) else (seen.leader, seen.leader_epoch)
